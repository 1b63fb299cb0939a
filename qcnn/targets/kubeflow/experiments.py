"""Runs of a KFP experiment: lists, comparisons and logs."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from qcnn.errors import ArtifactError
from qcnn.jobs.engines import installed_engines
from qcnn.targets.artifacts import Artifact, LogSource, run_fields, run_logs, run_metrics
from qcnn.targets.base import ComparedRun, ComparesRuns, ReportLine
from qcnn.targets.errors import BackendError
from qcnn.targets.kubeflow.bound import KubeflowBound
from qcnn.targets.kubeflow.client import KfpBackend, KfpConnection, translate_errors
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.runs import (
    ENDED,
    creation_time,
    duration_of,
    find_experiment,
    find_run,
    is_id,
    pages,
    specification_of,
)
from qcnn.targets.kubeflow.submission import EXPERIMENT
from qcnn.targets.kubernetes.client import logs_of_jobs
from qcnn.targets.lookup import select_runs
from qcnn.targets.settings import PodFields, setting

if TYPE_CHECKING:
    import kfp_server_api


def runs_of(backend: KfpBackend, experiment: str) -> list[kfp_server_api.V2beta1Run]:
    """Return the runs of an experiment, newest last, except archived runs.

    Args:
        backend: KFP backend.
        experiment: Name of the experiment.

    Raises:
        BackendError: If the experiment does not exist, or the backend rejects the request or is unavailable.
    """
    owner = find_experiment(backend, experiment)
    with translate_errors(backend.address):
        found = list(pages(backend.client.list_runs, "runs", experiment_id=owner.experiment_id))
    return _current_runs(found)


def own_runs(backend: KfpBackend) -> list[kfp_server_api.V2beta1Run]:
    """Return the runs of qcnn pipelines in all experiments, newest last, except archived runs.

    Raises:
        BackendError: If the backend rejects the request or is unavailable.
    """
    with translate_errors(backend.address):
        found = list(pages(backend.client.list_runs, "runs", namespace=backend.namespace))
    return _current_runs([run for run in found if _is_own(specification_of(run))])


def _current_runs(runs: Sequence[kfp_server_api.V2beta1Run]) -> list[kfp_server_api.V2beta1Run]:
    return sorted((run for run in runs if run.storage_state != "ARCHIVED"), key=creation_time)


def _is_own(specification: Mapping[str, Any]) -> bool:
    name = str(specification.get("pipelineInfo", {}).get("name", ""))
    return name == EXPERIMENT or name.startswith(f"{EXPERIMENT}-")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogsSettings(PodFields, KfpConnection):
    """Training jobs whose logs are added to those of runs, and pod settings of a TensorBoard on the cluster."""

    jobs: Sequence[str] = setting("Training job whose logs are added.", (), flag="job", metavar="NAME")


class KubeflowExperiments(KubeflowBound[LogsSettings], ComparesRuns):
    """Comparisons and logs of the target kubeflow."""

    logs_settings: ClassVar[type[LogsSettings]] = LogsSettings

    @override
    def experiment_runs(self, experiment: str, warn: ReportLine) -> Sequence[ComparedRun]:
        """Return the runs of an experiment. Without a metadata store, they have no metrics."""
        return self._compared(runs_of(self.backend, experiment), warn)

    @override
    def named_runs(self, names: Sequence[str], warn: ReportLine) -> Sequence[ComparedRun]:
        """Return the runs with these IDs or names. Without a metadata store, they have no metrics."""
        return self._compared([find_run(self.backend, name) for name in names], warn)

    def _compared(self, runs: Sequence[kfp_server_api.V2beta1Run], warn: ReportLine) -> list[ComparedRun]:
        store = MetadataStore(self.backend)
        artifacts: dict[str, list[Artifact]] = {}
        try:
            artifacts = {run.run_id: store.artifacts(run.run_id) for run in runs}
        except BackendError as error:
            warn(f"no metrics: {error}")
        return [_compared_run(run, artifacts.get(run.run_id, [])) for run in runs]

    @override
    def is_job_id(self, text: str) -> bool:
        return is_id(text)

    @override
    def find_logs(
        self,
        ids: Sequence[str],
        experiment: str | None,
        names: Sequence[str],
        settings: LogsSettings,
        *,
        in_a_pod: bool,
    ) -> list[LogSource]:
        """Return the logs of runs and training jobs."""
        of_runs = self._logs_of_runs(ids, experiment, names) if ids or experiment else []
        if not settings.jobs:
            return of_runs
        return [*of_runs, *logs_of_jobs(self.api, installed_engines(self.api), settings.jobs, in_a_pod=in_a_pod)]

    def _logs_of_runs(self, ids: Sequence[str], experiment: str | None, names: Sequence[str]) -> list[LogSource]:
        chosen = [find_run(self.backend, identity) for identity in ids]
        if experiment:
            chosen += select_runs(runs_of(self.backend, experiment), lambda run: run.run_id, names, experiment)
        store = MetadataStore(self.backend)
        counts = collections.Counter(run.display_name for run in chosen)
        found = []
        for run in chosen:
            name = run.display_name if counts[run.display_name] == 1 else f"{run.display_name}-{run.run_id[:8]}"
            found += run_logs(name.replace("/", "-"), run.run_id, store.artifacts(run.run_id), ended=run.state in ENDED)
        if not found:
            raise ArtifactError(f"run: nothing is logged yet. Given: {', '.join([*ids, *names]) or experiment}")
        return found


def _compared_run(run: kfp_server_api.V2beta1Run, artifacts: Sequence[Artifact]) -> ComparedRun:
    """Return a run with the metrics and fields in its artifacts."""
    return ComparedRun(
        name=run.display_name,
        state=str(run.state).lower(),
        parameters=run_fields(artifacts, (run.runtime_config.parameters if run.runtime_config else None) or {}),
        metrics=run_metrics(artifacts),
        history=(),
        duration=duration_of(run),
    )
