"""qcnn tensorboard --target kubeflow: the logs of a backend's runs, also of runs that have not ended."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from qcnn.cli.artifacts import logs_of
from qcnn.cli.kubeflow.backend import Backend, connect
from qcnn.cli.kubeflow.deployment import Deployment, deployment_options
from qcnn.cli.kubeflow.follow import ENDED
from qcnn.cli.kubeflow.ml_metadata import MetadataStore
from qcnn.cli.kubeflow.refusals import explained
from qcnn.cli.kubeflow.runs import find_experiment, find_run, is_id, pages
from qcnn.cli.local.tensorboard import Logs
from qcnn.cli.options.backend import backend_options, metadata_host_option
from qcnn.cli.options.pod import PodFlags, pod_options
from qcnn.cli.tensorboard import tensorboard_command
from qcnn.cli.tfjob.tensorboard import logs_of_jobs
from qcnn.errors import ArtifactError, ConfigError
from qcnn.jobs.kubernetes.tensorboard import ACCOUNT

if TYPE_CHECKING:
    import kfp_server_api


def logs_of_runs(
    backend: Backend, ids: Sequence[str], experiment: str | None, names: Sequence[str], metadata_host: str | None
) -> list[Logs]:
    """Return the logs of the runs with these ids, and of the runs of an experiment with these ids or names (none: all).

    Raises:
        BackendError: there is no such run or experiment; or the backend refuses, or does not answer.
        ArtifactError: nothing of what was asked for has logs.
    """
    if not ids and not experiment:
        return []
    client = connect(backend)
    runs = [find_run(client, backend, identity) for identity in ids]
    if experiment:
        found = find_experiment(client, backend, experiment)
        with explained(backend.address):
            known = list(pages(client.list_runs, "runs", experiment_id=found.experiment_id))
        runs += _chosen([run for run in known if run.storage_state != "ARCHIVED"], names, experiment)
    store = MetadataStore(client, backend, metadata_host)
    counts = collections.Counter(run.display_name for run in runs)
    all_logs = []
    for run in runs:
        name = run.display_name if counts[run.display_name] == 1 else f"{run.display_name}-{run.run_id[:8]}"
        all_logs += logs_of(name.replace("/", "-"), run.run_id, store.artifacts(run.run_id), ended=run.state in ENDED)
    if not all_logs:
        raise ArtifactError(f"run: nothing is logged yet. Given: {', '.join([*ids, *names]) or experiment}")
    return all_logs


def _chosen(
    known: Sequence[kfp_server_api.V2beta1Run], names: Sequence[str], experiment: str
) -> list[kfp_server_api.V2beta1Run]:
    for name in names:
        if not any(name in (run.run_id, run.display_name) for run in known):
            shown = ", ".join(sorted({run.display_name for run in known})) or "none"
            raise ArtifactError(f"run: experiment {experiment} has {shown}. Given: {name}")
    return [run for run in known if not names or run.run_id in names or run.display_name in names]


def _logs_there(
    ids: Sequence[str],
    experiment: str | None,
    names: Sequence[str],
    *,
    jobs: tuple[str, ...],
    backend: Backend,
    metadata_host: str | None,
    deployment: Deployment,
    **_: object,
) -> list[Logs]:
    of_runs = logs_of_runs(backend, ids, experiment, names, metadata_host)
    return [*of_runs, *logs_of_jobs(jobs, backend.namespace, in_a_pod=deployment.deploy)]


def _on_the_cluster(
    find: Callable[[], list[Logs]], *, deployment: Deployment, pod: PodFlags, backend: Backend, **_: object
) -> bool:
    """Deploy a TensorBoard or take it away, where that is asked for; return whether it was."""
    if pod.is_given and not deployment.deploy:
        raise ConfigError("tensorboard: takes settings of a pod with --deploy alone. Given: --pod or one of its words")
    if deployment.undeploy:
        deployment.take_away(backend.namespace)
    elif deployment.deploy:
        # What is wrong in the settings is said before anything is looked for.
        # A file is that of the trainings, whose account writes.
        account = pod.flags["service_account"] or ACCOUNT
        settings = pod.settings().model_copy(update={"service_account": account})
        deployment.bring(find(), settings, backend.namespace)
    return deployment.deploy or deployment.undeploy


tensorboard = tensorboard_command(
    "a Kubeflow backend",
    is_id,
    _logs_there,
    click.option("--job", "jobs", metavar="NAME", multiple=True, help="TFJob of the cluster; may come often."),
    metadata_host_option,
    backend_options,
    deployment_options,
    pod_options,
    elsewhere=_on_the_cluster,
)
