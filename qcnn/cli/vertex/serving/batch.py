"""Batch prediction: samples of a file in a bucket, predicted by machines that live as long as that takes."""

from __future__ import annotations

import datetime
import json
import posixpath
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qcnn.cli.following import INTERVAL
from qcnn.cli.target_errors import StepError
from qcnn.cli.vertex.service.connection import Vertex
from qcnn.cli.vertex.serving.endpoint import Machines
from qcnn.cli.vertex.serving.registry import get_version, model_name
from qcnn.cli.vertex.serving.samples import Samples
from qcnn.errors import one_line
from qcnn.jobs.vertex.client import ENDED
from qcnn.storage.copies import new_copy

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import BatchPredictionJob

INSTANCES = "instances.jsonl"


def begin(vertex: Vertex, model: str, samples: Samples, output: str, machines: Machines) -> BatchPredictionJob:
    """Write samples to a folder in a bucket as a model takes them, and have them predicted; return the job.

    A folder of its own, named by the time, keeps them apart from those of another call.

    Raises:
        BackendError: there is no such model; or Vertex AI refuses, or does not answer.
        ConfigError: the bucket refuses.
    """
    folder, job = described(vertex, model, output, machines)
    with new_copy(folder, INSTANCES) as copied:
        copied.mkdir()
        (copied / INSTANCES).write_text("".join(f"{json.dumps(each)}\n" for each in samples.instances()))
    found: BatchPredictionJob = vertex.ask(
        "JobService.create_batch_prediction_job", again=False, parent=vertex.place.parent, batch_prediction_job=job
    )
    return found


def described(vertex: Vertex, model: str, output: str, machines: Machines) -> tuple[str, dict[str, Any]]:
    """Return the folder in a bucket for the samples of a job, named by the time, and the job; nothing is sent.

    Raises:
        BackendError: there is no such model.
    """
    version = get_version(vertex, model_name(vertex, model))
    folder = f"{output.rstrip('/')}/{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    return folder, {
        "display_name": f"{version.display_name}-{version.version_id}",
        "model": f"{version.name}@{version.version_id}",
        "input_config": {"instances_format": "jsonl", "gcs_source": {"uris": [posixpath.join(folder, INSTANCES)]}},
        "output_config": {"predictions_format": "jsonl", "gcs_destination": {"output_uri_prefix": folder}},
        "dedicated_resources": {
            "machine_spec": {"machine_type": machines.machine_type},
            "starting_replica_count": machines.least,
            "max_replica_count": machines.most,
        },
    }


def follow(vertex: Vertex, job: BatchPredictionJob, say: Callable[[str], None]) -> BatchPredictionJob:
    """Wait for the end of a job, and say how its state changes.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
        StepError: it failed.
    """
    known = ""
    while True:
        state = str(job.state.name).removeprefix("JOB_STATE_")
        if state != known:
            say(f"batch prediction: {state.lower()}")
            known = state
        if state in ENDED:
            break
        time.sleep(INTERVAL)
        job = vertex.ask("JobService.get_batch_prediction_job", name=job.name)
    if state not in ("SUCCEEDED", "PARTIALLY_SUCCEEDED"):
        raise StepError(f"batch prediction: {state.lower()} ({one_line(job.error.message)}). Given: {job.name}")
    return job
