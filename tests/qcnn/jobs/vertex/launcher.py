"""Launcher process of one training job, described by a JSON argument (see `tests.qcnn.jobs.vertex.launchers`)."""

import json
import os
import sys
from typing import Any

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.vertex import attempts
from qcnn.jobs.vertex.custom_job import custom_job
from qcnn.jobs.vertex.launch import launch
from qcnn.jobs.vertex.location import VertexLocation, endpoint_of
from qcnn.jobs.vertex.tuning_job import NumericRange, StudySpec, TrialReporter, tuning_job
from qcnn.process.error_lines import one_line_errors


def main() -> None:
    """Launch the training job, or with `trials` a tuning job."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    with one_line_errors():
        place = VertexLocation(given["project"], given["location"], endpoint_of(os.environ))
        job = JobSpec(
            argv=("python", "-c", given["program"]),
            replicas={"worker": given["workers"]},
            restarts=given["restarts"],
            heartbeat_timeout_seconds=60,
            pod=PodSettings.model_validate({"image": "image", **given["pod"]}),
            outputs={"training": f"gs://{given['bucket']}/run/$(QCNN_JOB)/training"},
        )
        attempts._SECONDS = given["patience"]
        vertex_job = custom_job(job, JobIdentity(given["run"], "train"), place)
        limits = {"restarts": job.restarts, "pending_seconds": given["pending_seconds"]}
        if given["trials"]:
            rates = NumericRange("learning_rate", 0.001, 0.1, whole=False, by_logarithm=True)
            study = StudySpec([rates], "val_loss", given["trials"], parallel=2, stopping="none", best_report=False)
            launch(tuning_job(vertex_job, study), place, news=TrialReporter, **limits)
        else:
            launch(vertex_job, place, **limits)


if __name__ == "__main__":
    main()
