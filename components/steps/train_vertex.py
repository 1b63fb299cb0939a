"""The train step on Vertex AI: one custom job for one experiment of one run."""

import contextlib
import json
import logging
import os
import posixpath
from pathlib import Path
from typing import Any

from qcnn.components.steps.tensorboard import PAGE
from qcnn.components.training_job import vertex_job
from qcnn.errors import ConfigError
from qcnn.experiment_io import from_json
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.pod_settings import pod_settings
from qcnn.jobs.vertex.custom_job import custom_job, outputs
from qcnn.jobs.vertex.launch import launch
from qcnn.jobs.vertex.location import VertexLocation, endpoint_of, tensorboard_page
from qcnn.provenance import provenance
from qcnn.startup import one_line_errors
from qcnn.storage.store import parse_bucket_uri
from qcnn.studies.trials import failure_kept, load_failure

logger = logging.getLogger("qcnn")

_TASK = "train"
_SCHEME = "gs"


def train(
    experiment: str, pod: str, place: tuple[str, str], dataset: str, training: str, failure: str | None = None
) -> tuple[str, str, dict[str, Any]]:
    """Train as a custom job; return where training and logs are, and the metadata of both.

    `pod` holds the settings of the job's processes as JSON, `place` is the run's own project and location. Vertex AI
    gives each task its own address for its output, `training`. The outputs of the job lie beside those of the tasks, in
    a folder that is named after what is trained, where every job of this training in this run finds them.

    Where a folder for a `failure` is given, a training that fails writes the reason into it, and the output stays at
    the address of this task.
    """
    with one_line_errors():
        config = from_json(experiment)
        settings = pod_settings(json.loads(pod))
        run_folder, run = run_of(training)
        at = VertexLocation(*place, endpoint_of(os.environ))
        job = vertex_job(config, run_folder, settings, dataset=dataset)
        made = custom_job(job, JobIdentity(run, _TASK), at)
        addresses = outputs(job, made)
        metadata = provenance(config)
        logger.info("the custom job writes to %s", posixpath.dirname(addresses["training"]))
        with failure_kept(config, Path(failure)) if failure else contextlib.nullcontext():
            trained = launch(made, at, restarts=job.restarts)
            if board := made.job_spec.tensorboard:
                metadata[PAGE] = tensorboard_page(board, trained.id)
        failed = load_failure(Path(failure)) if failure else None
    return training if failed else addresses["training"], addresses["logs"], metadata


def run_of(output: str) -> tuple[str, str]:
    """Return the folder and the id of the run that an output belongs to.

    Vertex AI makes the address of an output as ROOT/{job_id}/{task_id}/{output_key} (google.cloud.aiplatform_v1,
    PipelineJob.RuntimeConfig.gcs_output_directory). If the run's id were a parameter, this step would never be cached.
    """
    address = parse_bucket_uri(output)
    folder, *parts = output.rsplit("/", 2)
    if address is None or address.scheme != _SCHEME or len(parts) != 2 or parse_bucket_uri(folder) is None:
        raise ConfigError(f"pipeline root: must be in a bucket of Cloud Storage, gs://BUCKET/FOLDER. Given: {output}")
    return folder, posixpath.basename(folder)
