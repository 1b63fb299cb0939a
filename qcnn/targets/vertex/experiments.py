"""Vertex AI runs of an experiment: comparisons and logs."""

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
    """Return the runs of an experiment, newest last.

    Raises:
        BackendError: If there are no runs, or Vertex AI rejects the request or is unavailable.
    """
    # Lists omit task details.
    found = [get_run(vertex, id_of(run)) for run in list_runs(vertex, experiment)]
    if not found:
        known = sorted({run.labels[EXPERIMENT_LABEL] for run in list_runs(vertex)})
        where = f"{vertex.place.project} in {vertex.place.location}"
        raise BackendError(f"experiment: {where} has {', '.join(known) or 'none'}. Given: {experiment}")
    return [_compared_run(run) for run in found]


def named_runs(vertex: VertexClient, names: Sequence[str]) -> list[ComparedRun]:
    """Return the runs with these IDs or names, in this order.

    Raises:
        BackendError: If a run does not exist, its name is ambiguous, or Vertex AI rejects the request or is
            unavailable.
    """
    return [_compared_run(find_run(vertex, name)) for name in names]


def _compared_run(run: PipelineJob) -> ComparedRun:
    """Return a run with the metrics and fields in its artifacts."""
    artifacts = artifacts_of(run)
    return ComparedRun(
        name=run.display_name,
        state=state_of(run).lower(),
        parameters=run_fields(artifacts, _submitted_parameters(run)),
        metrics=run_metrics(artifacts),
        history=(),
        duration=seconds_of(run),
    )


def logs_of_runs(
    vertex: VertexClient, ids: Sequence[str], experiment: str | None, names: Sequence[str]
) -> list[LogSource]:
    """Return the logs of runs by ID, and of runs of an experiment.

    Args:
        vertex: Vertex AI client.
        ids: Run IDs.
        experiment: Experiment whose runs are added, or None.
        names: IDs or names of runs of the experiment. Empty: all runs.

    Raises:
        BackendError: If a run does not exist, or Vertex AI rejects the request or is unavailable.
        ArtifactError: If none of the requested runs has logs.
    """
    chosen = [find_run(vertex, identity) for identity in ids]
    if experiment:
        chosen += _find_runs(vertex, experiment, names)
    counts = collections.Counter(run.display_name for run in chosen)
    found: list[LogSource] = []
    for run in chosen:
        name = run.display_name.replace("/", "-") if counts[run.display_name] == 1 else id_of(run)
        found += run_logs(name, id_of(run), artifacts_of(run), ended=state_of(run) in ENDED)
    if (chosen or experiment) and not found:
        raise ArtifactError(f"run: nothing is logged yet. Given: {', '.join([*ids, *names]) or experiment}")
    return found


def _find_runs(vertex: VertexClient, experiment: str, names: Sequence[str]) -> list[PipelineJob]:
    known = list_runs(vertex, experiment)
    for name in names:
        if not any(name in (id_of(run), run.display_name) for run in known):
            shown = ", ".join(sorted({run.display_name for run in known})) or "none"
            raise ArtifactError(f"run: experiment {experiment} has {shown}. Given: {name}")
    # Lists omit task details.
    chosen = [run for run in known if not names or id_of(run) in names or run.display_name in names]
    return [get_run(vertex, id_of(run)) for run in chosen]


def _submitted_parameters(run: PipelineJob) -> dict[str, Any]:
    """Return the parameters of a run, with integers restored. The API stores all numbers as floats."""
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
