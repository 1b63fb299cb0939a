"""The train step on Vertex AI: one custom job for one experiment of a run."""

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
from qcnn.experiment.parsing import from_json
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.pod_settings import pod_settings
from qcnn.jobs.vertex.custom_job import custom_job, outputs
from qcnn.jobs.vertex.launch import launch
from qcnn.jobs.vertex.location import VertexLocation, endpoint_of, tensorboard_page
from qcnn.provenance import provenance
from qcnn.storage.store import parse_bucket_uri
from qcnn.studies.trials import failure_kept, load_failure

logger = logging.getLogger("qcnn")

_TASK = "train"
_SCHEME = "gs"


def train(
    experiment: str, pod: str, place: tuple[str, str], dataset: str, training: str, failure: str | None = None
) -> tuple[str, str, dict[str, Any]]:
    """Train as a custom job.

    Vertex AI assigns each task another URI for its output `training`. The outputs of the job are next to those of the
    tasks, in a folder that is named after the experiment, so that every job of this training run finds them.

    Args:
        experiment: Experiment as JSON.
        pod: Settings of the job's processes as JSON.
        place: Project and location of the pipeline run.
        dataset: URI of the dataset.
        training: URI of the output that Vertex AI assigned to this task.
        failure: Folder for the reason of a failed training, for a trial of a study. The returned training URI is then
            that of this task. None: raise an error.

    Returns:
        The URIs of training and logs, and the metadata of both.
    """
    config = from_json(experiment)
    settings = pod_settings(json.loads(pod))
    run_folder, run = run_of(training)
    location = VertexLocation(*place, endpoint_of(os.environ))
    job = vertex_job(config, run_folder, settings, dataset=dataset)
    request = custom_job(job, JobIdentity(run, _TASK), location)
    uris = outputs(job, request)
    metadata = provenance(config)
    logger.info("the custom job writes to %s", posixpath.dirname(uris["training"]))
    with failure_kept(config, Path(failure)) if failure else contextlib.nullcontext():
        trained = launch(request, location, restarts=job.restarts)
        if board := request.job_spec.tensorboard:
            metadata[PAGE] = tensorboard_page(board, trained.id)
    failed = load_failure(Path(failure)) if failure else None
    return training if failed else uris["training"], uris["logs"], metadata


def run_of(output: str) -> tuple[str, str]:
    """Return the folder and the ID of the run that an output belongs to.

    Vertex AI builds the URI of an output as ROOT/{job_id}/{task_id}/{output_key} (google.cloud.aiplatform_v1,
    PipelineJob.RuntimeConfig.gcs_output_directory). A run ID as a parameter would disable the cache of this step.

    Raises:
        ConfigError: If the output is not in a Cloud Storage bucket.
    """
    uri = parse_bucket_uri(output)
    folder, *parts = output.rsplit("/", 2)
    if uri is None or uri.scheme != _SCHEME or len(parts) != 2 or parse_bucket_uri(folder) is None:
        raise ConfigError(f"pipeline root: must be in a bucket of Cloud Storage, gs://BUCKET/FOLDER. Given: {output}")
    return folder, posixpath.basename(folder)
