"""Vertex AI runs of an experiment: comparisons and logs."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from qcnn.errors import ArtifactError
from qcnn.targets.artifacts import LogSource, run_fields, run_logs, run_metrics
from qcnn.targets.base import ComparedRun, ComparesRuns, FindsLogs, ReportLine
from qcnn.targets.errors import BackendError
from qcnn.targets.lookup import select_runs
from qcnn.targets.vertex.bound import VertexBound
from qcnn.targets.vertex.client import Connection, id_of, seconds_of
from qcnn.targets.vertex.runs import (
    ENDED,
    EXPERIMENT_LABEL,
    artifacts_of,
    find_run,
    get_run,
    is_id,
    list_runs,
    state_of,
)

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob


class VertexExperiments(VertexBound, ComparesRuns, FindsLogs[Connection]):
    """Comparisons and logs of the target vertex."""

    logs_settings: ClassVar[type[Connection]] = Connection

    @override
    def experiment_runs(self, experiment: str, warn: ReportLine) -> Sequence[ComparedRun]:
        # Lists omit task details.
        found = [get_run(self.vertex, id_of(run)) for run in list_runs(self.vertex, experiment)]
        if not found:
            known = sorted({run.labels[EXPERIMENT_LABEL] for run in list_runs(self.vertex)})
            raise BackendError(f"experiment: {self.place()} has {', '.join(known) or 'none'}. Given: {experiment}")
        return [_compared_run(run) for run in found]

    @override
    def named_runs(self, names: Sequence[str], warn: ReportLine) -> Sequence[ComparedRun]:
        return [_compared_run(find_run(self.vertex, name)) for name in names]

    @override
    def is_job_id(self, text: str) -> bool:
        return is_id(text)

    @override
    def find_logs(
        self, ids: Sequence[str], experiment: str | None, names: Sequence[str], settings: Connection, *, in_a_pod: bool
    ) -> list[LogSource]:
        chosen = [find_run(self.vertex, identity) for identity in ids]
        if experiment:
            listed = select_runs(list_runs(self.vertex, experiment), id_of, names, experiment)
            # Lists omit task details.
            chosen += [get_run(self.vertex, id_of(run)) for run in listed]
        counts = collections.Counter(run.display_name for run in chosen)
        found: list[LogSource] = []
        for run in chosen:
            name = run.display_name.replace("/", "-") if counts[run.display_name] == 1 else id_of(run)
            found += run_logs(name, id_of(run), artifacts_of(run), ended=state_of(run) in ENDED)
        if (chosen or experiment) and not found:
            raise ArtifactError(f"run: nothing is logged yet. Given: {', '.join([*ids, *names]) or experiment}")
        return found


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
