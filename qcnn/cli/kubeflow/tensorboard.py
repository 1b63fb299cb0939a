"""qcnn tensorboard: on the logs of a backend's runs, here or as a Deployment on the cluster."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tabulate import tabulate

from qcnn.cli.options.base import options_as
from qcnn.cli.options.pod import PodFlags, pod_options
from qcnn.cli.options.settings import backend_options, metadata_host_option
from qcnn.cli.tensorboard import tensorboard_command
from qcnn.errors import ArtifactError, ConfigError
from qcnn.jobs.kubernetes.tensorboard import ACCOUNT, PORT, Board, check_name, deployment, service
from qcnn.jobs.pod_settings import Pod
from qcnn.jobs.tfjob.manifest import PROFILER_PORT
from qcnn.storage.uri import SCHEMES, in_bucket
from qcnn.targets.artifacts import Logs, distinct, logs_here, logs_of
from qcnn.targets.kubeflow.client import Backend, connect, explained
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.runs import ENDED, find_experiment, find_run, is_id, pages
from qcnn.targets.tfjob.client import logs_of_jobs

if TYPE_CHECKING:
    import kfp_server_api


_NAME = "tensorboard"


@dataclasses.dataclass(frozen=True)
class Deployment:
    """Whether a TensorBoard of this name is to be brought to the cluster, or taken away, and who reaches it.

    Raises:
        ConfigError: both are asked for, or other words without either.
    """

    deploy: bool
    undeploy: bool
    name: str | None
    public: bool
    dry_run: bool

    def __post_init__(self) -> None:
        if self.deploy and self.undeploy:
            raise ConfigError("tensorboard: takes one of --deploy, --undeploy. Given: both")
        if self.name is not None and not (self.deploy or self.undeploy):
            raise ConfigError(f"name: needs --deploy or --undeploy. Given: {self.name}")
        if self.name is not None:
            check_name(self.name)
        if self.public and not self.deploy:
            raise ConfigError("public: needs --deploy. Given: --public")
        if self.dry_run and not (self.deploy or self.undeploy):
            raise ConfigError("dry_run: needs --deploy or --undeploy. Given: --dry-run")

    def bring(self, found: Sequence[Logs], settings: Pod, namespace: str | None) -> None:
        """Deploy a TensorBoard on these logs, in a pod with these settings, and print how to look at it.

        Raises:
            ConfigError: logs are where its pod does not reach them; or as qcnn.jobs.kubernetes.tensorboard.
            ArtifactError: two of them would have one name.
        """
        for logs in found:
            if not in_bucket(logs.address) and not settings.keeps(logs.address):
                known = ", ".join(f"{scheme}://BUCKET/FOLDER" for scheme in SCHEMES)
                raise ConfigError(
                    f"tensorboard: the logs must be at {known}, or on a volume of the pod. Given: {logs.address}"
                )
        from qcnn.cli.tfjob.printing import FORMS, as_text
        from qcnn.jobs.kubernetes.tensorboard import deploy
        from qcnn.targets.tfjob.client import cluster

        # The pod names them by their addresses.
        distinct(named for logs in found if (named := logs_here(logs.address, Path())))
        board = Board(self.name or _NAME, [logs.address for logs in found], settings, self.public)
        if self.public:
            click.echo("warning: everybody who finds its address can look at these logs", err=True)
        if self.dry_run:
            click.echo(as_text([deployment(board), service(board)], FORMS[0]), nl=False)
            return
        with cluster(namespace) as api:
            deploy(api, board)
            where = f"--namespace {api.namespace}"
            click.echo(f"TensorBoard {board.name} answers in namespace {api.namespace}")
            rows = {
                "look at it": f"kubectl {where} port-forward service/{board.name} {PORT}",
                "and open": f"http://localhost:{PORT}",
                "capture profiles": f"of a worker by the name of its pod, such as JOB-worker-0:{PROFILER_PORT}",
                "delete it": f"qcnn tensorboard --undeploy --name {board.name} {where}",
            }
            click.echo(tabulate(rows.items(), tablefmt="plain", disable_numparse=True))

    def take_away(self, namespace: str | None) -> None:
        """Delete a TensorBoard, and say so.

        Raises:
            ArtifactError: there is none of this name.
        """
        from qcnn.jobs.kubernetes.tensorboard import undeploy
        from qcnn.targets.tfjob.client import cluster

        name = self.name or _NAME
        if self.dry_run:
            click.echo(f"TensorBoard {name} would be deleted")
            return
        with cluster(namespace) as api:
            undeploy(api, name)
            click.echo(f"TensorBoard {name} is deleted from namespace {api.namespace}")


# Gives a command --deploy, --undeploy and what belongs to them, and hands it `deployment`.
deployment_options = options_as(
    "deployment",
    lambda deploy, undeploy, board, public, dry_run: Deployment(deploy, undeploy, board, public, dry_run),
    click.option(
        "--deploy", is_flag=True, help="Let it run on the cluster instead, with --image: a Deployment and a Service."
    ),
    click.option("--undeploy", is_flag=True, help="Delete the one that runs there."),
    click.option("--name", "board", metavar="NAME", help=f"Its name there.  [default: {_NAME}]"),
    click.option("--public", is_flag=True, help="Let it be reached from everywhere (a LoadBalancer), by everybody."),
    click.option(
        "--dry-run", is_flag=True, help="Print what --deploy would create, for kubectl apply -f -, and send nothing."
    ),
)


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
