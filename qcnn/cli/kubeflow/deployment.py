"""qcnn tensorboard --deploy: a TensorBoard on the cluster, beside the runs that it shows."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import click
from tabulate import tabulate

from qcnn.cli.local.tensorboard import Logs, distinct, logs_here
from qcnn.cli.options.group import options_as
from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.tensorboard import PORT, Board, check_name, deployment, service
from qcnn.jobs.pod_settings import Pod
from qcnn.jobs.tfjob.manifest import PROFILER_PORT
from qcnn.storage.uri import SCHEMES, in_bucket

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
        from qcnn.cli.tfjob.connection import cluster
        from qcnn.cli.tfjob.printing import FORMS, as_text
        from qcnn.jobs.kubernetes.tensorboard import deploy

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
        from qcnn.cli.tfjob.connection import cluster
        from qcnn.jobs.kubernetes.tensorboard import undeploy

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
