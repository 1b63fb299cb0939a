"""Predictions for the rows of a table by a batch job, in the form that the exported model takes."""

from __future__ import annotations

import dataclasses
import datetime
import json
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.data.file_data import check, check_real, features_of, warn_once
from qcnn.data.samples import EXCITATIONS, LABEL, Column
from qcnn.errors import single_line
from qcnn.jobs.vertex.location import ENDED
from qcnn.storage.copies import new_copy
from qcnn.tables.chunks import Chunk
from qcnn.tables.table import open_table
from qcnn.targets.errors import StepError
from qcnn.targets.following import INTERVAL
from qcnn.targets.vertex.client import VertexClient
from qcnn.targets.vertex.endpoints import ReplicaSettings
from qcnn.targets.vertex.model_registry import get_version, model_name

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import BatchPredictionJob


@dataclasses.dataclass(frozen=True)
class EndpointSamples:
    """What the model takes of samples, by column, each (samples,), and their labels, None where nobody knows them."""

    columns: Mapping[str, Column]
    label: Column | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def instances(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield samples by the names of the model's inputs: excitations, or features in the order of the file."""
        rows = zip(*(values[start:stop].tolist() for values in self.columns.values()), strict=True)
        if tuple(self.columns) == EXCITATIONS.columns:
            yield from ({"qubit": int(qubit), "angle": angle} for qubit, angle in rows)
        else:
            yield from ({"features": list(row)} for row in rows)


def read_samples(data: str) -> EndpointSamples:
    """Return the samples of a file, a path or an address: of columns qubit and angle, or its features.

    Raises:
        ArtifactError: it cannot be read, holds none, or a row is wrong; the message names the row.
        ConfigError: its name ends otherwise, or the bucket refuses.
    """
    with open_table(data) as table:
        excited = set(EXCITATIONS.columns) <= set(table.names)
        names = EXCITATIONS.columns if excited else features_of(table)
        if unused := table.unused_index((*names, LABEL)):
            warn_once(unused)
        labels = (LABEL,) if LABEL in table.names else ()
        pieces = [_checked(piece, excited) for piece in table.pieces((*names, *labels))]
    columns = {name: np.concatenate([piece.columns[name] for piece in pieces]) for name in (*names, *labels)}
    label: npt.NDArray[np.float64] | None = columns.pop(LABEL, None)
    return EndpointSamples(columns, label)


def _checked(piece: Chunk, excited: bool) -> Chunk:
    if excited:
        # How many qubits the model has, its endpoint does not tell.
        check(piece, EXCITATIONS, MAX_QUBITS)
    if LABEL in piece.columns:
        check_real(piece, LABEL)
    return piece


INSTANCES = "instances.jsonl"


def begin(
    vertex: VertexClient, model: str, samples: EndpointSamples, output: str, machines: ReplicaSettings
) -> BatchPredictionJob:
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


def described(vertex: VertexClient, model: str, output: str, machines: ReplicaSettings) -> tuple[str, dict[str, Any]]:
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


def follow(vertex: VertexClient, job: BatchPredictionJob, say: Callable[[str], None]) -> BatchPredictionJob:
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
        raise StepError(f"batch prediction: {state.lower()} ({single_line(job.error.message)}). Given: {job.name}")
    return job
