"""A launcher of one training, whose argument says in JSON which: see `tests.qcnn.jobs.vertex.launchers`."""

import json
import os
import sys
from typing import Any

from qcnn.jobs.job import Job, JobIdentity
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.vertex import attempts
from qcnn.jobs.vertex.custom_job import custom_job
from qcnn.jobs.vertex.launch import launch
from qcnn.jobs.vertex.location import VertexLocation, endpoint_of
from qcnn.jobs.vertex.tuning_job import NumericRange, StudySpec, TrialReporter, tuning_job
from qcnn.startup import one_line_errors


def main() -> None:
    """Launch it, or a search if it has trials."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    with one_line_errors():
        place = VertexLocation(given["project"], given["location"], endpoint_of(os.environ))
        job = Job(
            argv=("python", "-c", given["program"]),
            replicas={"worker": given["workers"]},
            restarts=given["restarts"],
            heartbeat_timeout_seconds=60,
            pod=PodSettings.model_validate({"image": "image", **given["pod"]}),
            outputs={"training": f"gs://{given['bucket']}/run/$(QCNN_JOB)/training"},
        )
        attempts._SECONDS = given["patience"]
        made = custom_job(job, JobIdentity(given["run"], "train"), place)
        how = {"restarts": job.restarts, "pending_seconds": given["pending_seconds"]}
        if given["trials"]:
            rates = NumericRange("learning_rate", 0.001, 0.1, whole=False, by_logarithm=True)
            study = StudySpec([rates], "val_loss", given["trials"], parallel=2, stopping="none", best_report=False)
            launch(tuning_job(made, study), place, news=TrialReporter, **how)
        else:
            launch(made, place, **how)


if __name__ == "__main__":
    main()
