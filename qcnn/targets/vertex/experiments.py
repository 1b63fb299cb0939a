"""Runs of an experiment on Vertex AI: compared, and their logs."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import ArtifactError
from qcnn.targets.artifacts import LogSource, run_fields, run_logs, run_metrics
from qcnn.targets.base import ComparedRun
from qcnn.targets.errors import BackendError
from qcnn.targets.vertex.client import VertexClient, id_of, seconds_of
from qcnn.targets.vertex.runs import ENDED, EXPERIMENT_LABEL, artifacts_of, find_run, get_run, list_runs, state_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob


def compared_runs(vertex: VertexClient, experiment: str) -> list[ComparedRun]:
    """Return the runs of an experiment, the newest last.

    Raises:
        BackendError: there are none; or Vertex AI refuses, or does not answer.
    """
    # A list leaves out what the steps have made.
    found = [get_run(vertex, id_of(run)) for run in list_runs(vertex, experiment)]
    if not found:
        known = sorted({run.labels[EXPERIMENT_LABEL] for run in list_runs(vertex)})
        where = f"{vertex.place.project} in {vertex.place.location}"
        raise BackendError(f"experiment: {where} has {', '.join(known) or 'none'}. Given: {experiment}")
    return [_compared(run) for run in found]


def _compared(run: PipelineJob) -> ComparedRun:
    """Return a run with what its steps have made so far."""
    artifacts = artifacts_of(run)
    return ComparedRun(
        name=run.display_name,
        state=state_of(run).lower(),
        parameters=run_fields(artifacts, _submitted(run)),
        metrics=run_metrics(artifacts),
        history=(),
        duration=seconds_of(run),
    )


def logs_of_runs(
    vertex: VertexClient, ids: Sequence[str], experiment: str | None, names: Sequence[str]
) -> list[LogSource]:
    """Return the logs of the runs with these ids, and of the runs of an experiment with these ids or names (none: all).

    Raises:
        BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        ArtifactError: nothing of what was asked for has logs.
    """
    chosen = [find_run(vertex, identity) for identity in ids]
    if experiment:
        chosen += _named(vertex, experiment, names)
    counts = collections.Counter(run.display_name for run in chosen)
    found: list[LogSource] = []
    for run in chosen:
        name = run.display_name.replace("/", "-") if counts[run.display_name] == 1 else id_of(run)
        found += run_logs(name, id_of(run), artifacts_of(run), ended=state_of(run) in ENDED)
    if (chosen or experiment) and not found:
        raise ArtifactError(f"run: nothing is logged yet. Given: {', '.join([*ids, *names]) or experiment}")
    return found


def _named(vertex: VertexClient, experiment: str, names: Sequence[str]) -> list[PipelineJob]:
    known = list_runs(vertex, experiment)
    for name in names:
        if not any(name in (id_of(run), run.display_name) for run in known):
            shown = ", ".join(sorted({run.display_name for run in known})) or "none"
            raise ArtifactError(f"run: experiment {experiment} has {shown}. Given: {name}")
    # A list leaves out what the steps have made.
    chosen = [run for run in known if not names or id_of(run) in names or run.display_name in names]
    return [get_run(vertex, id_of(run)) for run in chosen]


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
