"""Runs of a KFP experiment: lists, comparisons and logs."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import ArtifactError
from qcnn.targets.artifacts import Artifact, LogSource, run_fields, run_logs, run_metrics
from qcnn.targets.base import ComparedRun, ReportLine
from qcnn.targets.errors import BackendError
from qcnn.targets.kubeflow.client import KfpConnection, connect, translate_errors
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.runs import (
    ENDED,
    creation_time,
    duration_of,
    find_experiment,
    find_run,
    pages,
    specification_of,
)
from qcnn.targets.kubeflow.submission import EXPERIMENT

if TYPE_CHECKING:
    import kfp
    import kfp_server_api


def runs_of(client: kfp.Client, backend: KfpConnection, experiment: str) -> list[kfp_server_api.V2beta1Run]:
    """Return the runs of an experiment, newest last, except archived runs.

    Args:
        client: KFP client.
        backend: Connection settings.
        experiment: Name of the experiment.

    Raises:
        BackendError: If the experiment does not exist, or the backend rejects the request or is unavailable.
    """
    owner = find_experiment(client, backend, experiment)
    with translate_errors(backend.address):
        found = list(pages(client.list_runs, "runs", experiment_id=owner.experiment_id))
    return _current_runs(found)


def own_runs(client: kfp.Client, backend: KfpConnection) -> list[kfp_server_api.V2beta1Run]:
    """Return the runs of qcnn pipelines in all experiments, newest last, except archived runs.

    Raises:
        BackendError: If the backend rejects the request or is unavailable.
    """
    with translate_errors(backend.address):
        found = list(pages(client.list_runs, "runs", namespace=backend.namespace))
    return _current_runs([run for run in found if _is_own(specification_of(run))])


def _current_runs(runs: Sequence[kfp_server_api.V2beta1Run]) -> list[kfp_server_api.V2beta1Run]:
    return sorted((run for run in runs if run.storage_state != "ARCHIVED"), key=creation_time)


def _is_own(specification: Mapping[str, Any]) -> bool:
    name = str(specification.get("pipelineInfo", {}).get("name", ""))
    return name == EXPERIMENT or name.startswith(f"{EXPERIMENT}-")


def compared_runs(
    client: kfp.Client, backend: KfpConnection, runs: Sequence[kfp_server_api.V2beta1Run], warn: ReportLine
) -> list[ComparedRun]:
    """Return runs for a comparison. Without a metadata store, they have no metrics.

    Args:
        client: KFP client.
        backend: Connection settings.
        runs: The runs.
        warn: Callback for a warning about missing metrics.
    """
    store = MetadataStore(client, backend)
    artifacts: dict[str, list[Artifact]] = {}
    try:
        artifacts = {run.run_id: store.artifacts(run.run_id) for run in runs}
    except BackendError as error:
        warn(f"no metrics: {error}")
    return [_compared_run(run, artifacts.get(run.run_id, [])) for run in runs]


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


def logs_of_runs(
    ids: Sequence[str], experiment: str | None, names: Sequence[str], backend: KfpConnection
) -> list[LogSource]:
    """Return the logs of runs by ID, and of runs of an experiment.

    Args:
        ids: Run IDs.
        experiment: Experiment whose runs are added, or None.
        names: IDs or names of runs of the experiment. Empty: all runs.
        backend: Connection settings.

    Raises:
        BackendError: If a run or the experiment does not exist, or the backend rejects the request or is unavailable.
        ArtifactError: If none of the requested runs has logs.
    """
    if not ids and not experiment:
        return []
    client = connect(backend)
    chosen = [find_run(client, backend, identity) for identity in ids]
    if experiment:
        chosen += _find_runs(runs_of(client, backend, experiment), names, experiment)
    store = MetadataStore(client, backend)
    counts = collections.Counter(run.display_name for run in chosen)
    all_logs = []
    for run in chosen:
        name = run.display_name if counts[run.display_name] == 1 else f"{run.display_name}-{run.run_id[:8]}"
        all_logs += run_logs(name.replace("/", "-"), run.run_id, store.artifacts(run.run_id), ended=run.state in ENDED)
    if not all_logs:
        raise ArtifactError(f"run: nothing is logged yet. Given: {', '.join([*ids, *names]) or experiment}")
    return all_logs


def _find_runs(
    known: Sequence[kfp_server_api.V2beta1Run], names: Sequence[str], experiment: str
) -> list[kfp_server_api.V2beta1Run]:
    for name in names:
        if not any(name in (run.run_id, run.display_name) for run in known):
            shown = ", ".join(sorted({run.display_name for run in known})) or "none"
            raise ArtifactError(f"run: experiment {experiment} has {shown}. Given: {name}")
    return [run for run in known if not names or run.run_id in names or run.display_name in names]
