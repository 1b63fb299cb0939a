"""Runs of an experiment of a backend: listed, compared, and their logs."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import ArtifactError
from qcnn.targets.artifacts import Artifact, LogSource, run_fields, run_logs, run_metrics
from qcnn.targets.base import ComparedRun, Say
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
    """Return the runs of an experiment but for archived ones, the newest last.

    Raises:
        BackendError: there is no such experiment; or the backend refuses, or does not answer.
    """
    owner = find_experiment(client, backend, experiment)
    with translate_errors(backend.address):
        found = list(pages(client.list_runs, "runs", experiment_id=owner.experiment_id))
    return _shown(found)


def own_runs(client: kfp.Client, backend: KfpConnection) -> list[kfp_server_api.V2beta1Run]:
    """Return the runs of all experiments whose pipeline is one of this package, but for archived ones, the newest last.

    Raises:
        BackendError: the backend refuses, or does not answer.
    """
    with translate_errors(backend.address):
        found = list(pages(client.list_runs, "runs", namespace=backend.namespace))
    return _shown([run for run in found if _is_own(specification_of(run))])


def _shown(runs: Sequence[kfp_server_api.V2beta1Run]) -> list[kfp_server_api.V2beta1Run]:
    return sorted((run for run in runs if run.storage_state != "ARCHIVED"), key=creation_time)


def _is_own(specification: Mapping[str, Any]) -> bool:
    name = str(specification.get("pipelineInfo", {}).get("name", ""))
    return name == EXPERIMENT or name.startswith(f"{EXPERIMENT}-")


def compared_runs(experiment: str, backend: KfpConnection, warn: Say) -> list[ComparedRun]:
    """Return the runs of an experiment; without a metadata store they have no metrics, which `warn` is told.

    Raises:
        BackendError: there is no such experiment; or the backend refuses, or does not answer.
    """
    client = connect(backend)
    found = runs_of(client, backend, experiment)
    store = MetadataStore(client, backend)
    artifacts: dict[str, list[Artifact]] = {}
    try:
        artifacts = {run.run_id: store.artifacts(run.run_id) for run in found}
    except BackendError as error:
        warn(f"no metrics: {error}")
    return [_compared(run, artifacts.get(run.run_id, [])) for run in found]


def _compared(run: kfp_server_api.V2beta1Run, artifacts: Sequence[Artifact]) -> ComparedRun:
    """Return a run of the API with the artifacts that it has made so far."""
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
    """Return the logs of the runs with these ids, and of the runs of an experiment with these ids or names (none: all).

    Raises:
        BackendError: there is no such run or experiment; or the backend refuses, or does not answer.
        ArtifactError: nothing of what was asked for has logs.
    """
    if not ids and not experiment:
        return []
    client = connect(backend)
    chosen = [find_run(client, backend, identity) for identity in ids]
    if experiment:
        chosen += _named(runs_of(client, backend, experiment), names, experiment)
    store = MetadataStore(client, backend)
    counts = collections.Counter(run.display_name for run in chosen)
    all_logs = []
    for run in chosen:
        name = run.display_name if counts[run.display_name] == 1 else f"{run.display_name}-{run.run_id[:8]}"
        all_logs += run_logs(name.replace("/", "-"), run.run_id, store.artifacts(run.run_id), ended=run.state in ENDED)
    if not all_logs:
        raise ArtifactError(f"run: nothing is logged yet. Given: {', '.join([*ids, *names]) or experiment}")
    return all_logs


def _named(
    known: Sequence[kfp_server_api.V2beta1Run], names: Sequence[str], experiment: str
) -> list[kfp_server_api.V2beta1Run]:
    for name in names:
        if not any(name in (run.run_id, run.display_name) for run in known):
            shown = ", ".join(sorted({run.display_name for run in known})) or "none"
            raise ArtifactError(f"run: experiment {experiment} has {shown}. Given: {name}")
    return [run for run in known if not names or run.run_id in names or run.display_name in names]
