"""The runs of an experiment on Vertex AI, as rows beside the runs of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qcnn.cli.run_table import Run
from qcnn.jobs.vertex.location import Place
from qcnn.targets.artifacts import metrics_of, words_of
from qcnn.targets.errors import BackendError
from qcnn.targets.vertex.client import Vertex, id_of, seconds_of
from qcnn.targets.vertex.runs import EXPERIMENT_LABEL, artifacts_of, get_run, list_runs, state_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob


def experiment_runs(name: str, place: Place) -> list[Run]:
    """Return the runs of an experiment, newest last.

    Raises:
        BackendError: there are none; or Vertex AI refuses, or does not answer.
    """
    vertex = Vertex(place)
    # A list leaves out what the steps have made.
    found = [get_run(vertex, id_of(run)) for run in list_runs(vertex, name)]
    if not found:
        known = sorted({run.labels[EXPERIMENT_LABEL] for run in list_runs(vertex)})
        where = f"{place.project} in {place.location}"
        raise BackendError(f"experiment: {where} has {', '.join(known) or 'none'}. Given: {name}")
    return [read(run) for run in found]


def read(run: PipelineJob) -> Run:
    """Return a run with what its steps have made so far."""
    artifacts = artifacts_of(run)

    return Run(
        name=run.display_name,
        state=state_of(run).lower(),
        parameters=words_of(artifacts, _submitted(run)),
        metrics=metrics_of(artifacts),
        history=(),
        duration=seconds_of(run),
    )


def _submitted(run: PipelineJob) -> dict[str, Any]:
    """Return the parameters of a run in their types: the API keeps every number as a float."""
    from google.protobuf import json_format

    message = type(run).pb(run)
    values = json_format.MessageToDict(message.runtime_config).get("parameterValues", {})
    return {name: _whole(value) for name, value in values.items()}


def _whole(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _whole(each) for name, each in value.items()}
        case list():
            return [_whole(each) for each in value]
    return value
