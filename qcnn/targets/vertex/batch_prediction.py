"""Batch prediction jobs for the rows of a table, in the input format of the exported model."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.data.file_data import check, features_of, warn_once
from qcnn.data.labels import check_real, first_text_label
from qcnn.data.samples import EXCITATIONS, LABEL, Column
from qcnn.errors import ArtifactError, service_message
from qcnn.jobs.vertex.location import ENDED
from qcnn.run_names import timestamp
from qcnn.storage.copies import new_copy
from qcnn.tables.chunks import Chunk
from qcnn.tables.table import open_input
from qcnn.targets.errors import StepError
from qcnn.targets.following import INTERVAL
from qcnn.targets.vertex.client import VertexClient
from qcnn.targets.vertex.endpoints import ReplicaSettings
from qcnn.targets.vertex.model_registry import get_version, model_name

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import BatchPredictionJob


@dataclasses.dataclass(frozen=True)
class EndpointSamples:
    """Model inputs by column, each of shape (samples,), and labels, numbers or text, or None if they are unknown."""

    columns: Mapping[str, Column]
    label: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def instances(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield samples as model inputs: excitations, or features in the column order of the file."""
        rows = zip(*(values[start:stop].tolist() for values in self.columns.values()), strict=True)
        if tuple(self.columns) == EXCITATIONS.columns:
            yield from ({"qubit": int(qubit), "angle": angle} for qubit, angle in rows)
        else:
            yield from ({"features": list(row)} for row in rows)


def read_samples(data: str) -> EndpointSamples:
    """Return the samples of a file: columns qubit and angle, or features.

    Raises:
        ArtifactError: If the file is unreadable or empty, or a row is invalid. The message names the row.
        ConfigError: If the file extension is unknown, or the bucket denies access.
    """
    with open_input(data) as table:
        excited = set(EXCITATIONS.columns) <= set(table.names)
        names = EXCITATIONS.columns if excited else features_of(table)
        if unused := table.unused_index_warning((*names, LABEL)):
            warn_once(unused)
        labels = (LABEL,) if LABEL in table.names else ()
        try:
            chunks = [_validate_chunk(chunk, excited) for chunk in table.pieces((*names, *labels))]
        except ArtifactError:
            if not labels or first_text_label(table) is None:
                raise
            chunks = [_validate_chunk(chunk, excited) for chunk in table.pieces((*names, LABEL), (LABEL,))]
    columns = {name: np.concatenate([chunk.columns[name] for chunk in chunks]) for name in (*names, *labels)}
    label: npt.NDArray[Any] | None = columns.pop(LABEL, None)
    return EndpointSamples(columns, label)


def _validate_chunk(chunk: Chunk, excited: bool) -> Chunk:
    if excited:
        # The API does not report the model's number of qubits.
        check(chunk, EXCITATIONS, MAX_QUBITS)
    if LABEL in chunk.columns and chunk.columns[LABEL].dtype != object:
        check_real(chunk, LABEL)
    return chunk


INSTANCES = "instances.jsonl"


def begin(
    vertex: VertexClient, model: str, samples: EndpointSamples, output: str, machines: ReplicaSettings
) -> BatchPredictionJob:
    """Write samples to a new folder in a bucket, create a batch prediction job, and return it.

    The folder is named by the time, so that calls do not share files.

    Args:
        vertex: Vertex AI client.
        model: Name of the model, with an optional version.
        samples: Samples to predict.
        output: URI of the parent folder.
        machines: Machine type and replicas.

    Raises:
        BackendError: If the model does not exist, or Vertex AI rejects the request or is unavailable.
        ConfigError: If the bucket denies access.
    """
    folder, job = job_request(vertex, model, output, machines)
    with new_copy(folder, INSTANCES) as copied:
        copied.mkdir()
        (copied / INSTANCES).write_text("".join(f"{json.dumps(each)}\n" for each in samples.instances()))
    found: BatchPredictionJob = vertex.call(
        "JobService.create_batch_prediction_job", retry=False, parent=vertex.place.parent, batch_prediction_job=job
    )
    return found


def job_request(vertex: VertexClient, model: str, output: str, machines: ReplicaSettings) -> tuple[str, dict[str, Any]]:
    """Return the folder for the samples of a job, named by the time, and the job. No job is created.

    Args:
        vertex: Vertex AI client.
        model: Name of the model, with an optional version.
        output: URI of the parent folder.
        machines: Machine type and replicas.

    Raises:
        BackendError: If the model does not exist.
    """
    version = get_version(vertex, model_name(vertex, model))
    folder = f"{output.rstrip('/')}/{timestamp()}"
    return folder, {
        "display_name": f"{version.display_name}-{version.version_id}",
        "model": f"{version.name}@{version.version_id}",
        "input_config": {"instances_format": "jsonl", "gcs_source": {"uris": [posixpath.join(folder, INSTANCES)]}},
        "output_config": {"predictions_format": "jsonl", "gcs_destination": {"output_uri_prefix": folder}},
        "dedicated_resources": {
            "machine_spec": {"machine_type": machines.machine_type},
            "starting_replica_count": machines.min_replicas,
            "max_replica_count": machines.max_replicas,
        },
    }


def follow(vertex: VertexClient, job: BatchPredictionJob, report: Callable[[str], None]) -> BatchPredictionJob:
    """Wait for a batch prediction job to end.

    Args:
        vertex: Vertex AI client.
        job: The job.
        report: Callback for state changes.

    Raises:
        BackendError: If Vertex AI rejects a request or is unavailable.
        StepError: If the job failed.
    """
    known = ""
    while True:
        state = str(job.state.name).removeprefix("JOB_STATE_")
        if state != known:
            report(f"batch prediction: {state.lower()}")
            known = state
        if state in ENDED:
            break
        time.sleep(INTERVAL)
        job = vertex.call("JobService.get_batch_prediction_job", name=job.name)
    if state not in ("SUCCEEDED", "PARTIALLY_SUCCEEDED"):
        raise StepError(f"batch prediction: {state.lower()} ({service_message(job.error.message)}). Given: {job.name}")
    return job
