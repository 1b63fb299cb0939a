"""qcnn tensorboard: runs of a target, and of this machine, in TensorBoard, here or on a cluster."""

import contextlib
import dataclasses
import functools
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from qcnn.cli.options.experiment import complete_run
from qcnn.cli.options.settings import options_as, runs_option, settings_options
from qcnn.cli.output import as_text, show_rows
from qcnn.errors import ArtifactError, ConfigError
from qcnn.extras import check_library
from qcnn.jobs.kubernetes.tensorboard import check_name
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import FolderDownloader, open_store
from qcnn.targets.artifacts import LogSource, deduplicate, local_run_logs, resolve_logs
from qcnn.targets.base import FindsLogs, HostsTensorBoard
from qcnn.targets.errors import StepError

# Events, and what plugins keep beside them.
_READ = re.compile(r"tfevents[^/]*$|(^|/)plugins/")
_NAME = "tensorboard"
_ADDRESS = re.compile(r"TensorBoard \S+ at (http\S+)")


@dataclasses.dataclass(frozen=True)
class TensorBoardDeployment:
    """Whether a TensorBoard of this name is to be brought to the cluster, or taken away, and who reaches it.

    Raises:
        ConfigError: both are asked for, or other words without either.
    """

    deploy: bool = False
    undeploy: bool = False
    name: str | None = None
    public: bool = False
    dry_run: bool = False

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


# Gives a command --deploy, --undeploy and what belongs to them, and hands it `board`.
_board_options = options_as(
    "board",
    lambda deploy, undeploy, board_name, public, dry_run: TensorBoardDeployment(
        deploy, undeploy, board_name, public, dry_run
    ),
    click.option(
        "--deploy", is_flag=True, help="Let it run on the cluster instead, with --image: a Deployment and a Service."
    ),
    click.option("--undeploy", is_flag=True, help="Delete the one that runs there."),
    click.option("--name", "board_name", metavar="NAME", help=f"Its name there.  [default: {_NAME}]"),
    click.option("--public", is_flag=True, help="Let it be reached from everywhere (a LoadBalancer), by everybody."),
    click.option(
        "--dry-run", is_flag=True, help="Print what --deploy would create, for kubectl apply -f -, and send nothing."
    ),
)


def tensorboard_command(target: FindsLogs) -> click.Command:
    """Return the command of a target."""

    @click.argument("chosen", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
    @runs_option
    @click.option("--experiment", metavar="NAME", help=f"RUNs are those of this experiment of {target.title}.")
    @click.option(
        "--port",
        type=click.IntRange(0, 65535),
        help="Port to listen on; 0 takes any. [default: the first free from 6006]",
    )
    @click.option(
        "--bind-address", default="localhost", show_default=True, metavar="HOST", help="Host name or IP to listen on."
    )
    @click.option("--wait", is_flag=True, help="Open it even if nothing is logged yet in a bucket.")
    @settings_options(target.logs_settings, target.name)
    @(_board_options if isinstance(target, HostsTensorBoard) else _without_board)
    def tensorboard(
        chosen: tuple[str, ...],
        runs: Path,
        experiment: str | None,
        port: int | None,
        bind_address: str,
        wait: bool,
        settings: Any,
        board: TensorBoardDeployment,
    ) -> None:
        def find() -> list[LogSource]:
            here, ids = ([], []) if experiment else _sorted(chosen, runs, target.is_job_id)
            names = chosen if experiment else ()
            there = target.find_logs(ids, experiment, names, settings, in_a_pod=board.deploy)
            return deduplicate([*here, *there] or local_run_logs(runs))

        if isinstance(target, HostsTensorBoard) and _on_the_cluster(target, find, settings, board):
            return
        check_library("tensorboard")
        found = find()
        if port:
            _check_free(bind_address, port)
        with contextlib.ExitStack() as stack:
            # One folder, named as the runs are: hparams compares only what lies under one --logdir.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qcnn-tensorboard-")))
            for logs in found:
                stack.enter_context(_shown(logs, folder, wait=wait))
            _serve(
                ["--logdir", str(folder), "--host", bind_address, *(["--port", str(port)] if port is not None else [])]
            )

    return click.command("tensorboard", help=_HELP.format(title=target.title))(tensorboard)


def _without_board(command: Callable[..., Any]) -> Callable[..., Any]:
    """Hand a command a `board` that is not asked for."""

    @functools.wraps(command)
    def called(**values: Any) -> Any:
        return command(board=TensorBoardDeployment(), **values)

    return called


def _on_the_cluster(
    target: HostsTensorBoard, find: Callable[[], list[LogSource]], settings: Any, board: TensorBoardDeployment
) -> bool:
    """Deploy a TensorBoard or take it away, where that is asked for; return whether it was."""
    name = board.name or _NAME
    if settings.has_pod_settings and not board.deploy:
        raise ConfigError("tensorboard: takes settings of a pod with --deploy alone. Given: --pod or one of its words")
    if board.undeploy and board.dry_run:
        click.echo(f"TensorBoard {name} would be deleted")
    elif board.undeploy:
        click.echo(f"TensorBoard {name} is deleted from namespace {target.delete_board(name, settings)}")
    elif board.deploy:
        # What is wrong in the settings is said before anything is looked for.
        target.board_requests(name, (), settings, public=board.public)
        addresses = [logs.address for logs in find()]
        if board.public:
            click.echo("warning: everybody who finds its address can look at these logs", err=True)
        if board.dry_run:
            manifests = target.board_requests(name, addresses, settings, public=board.public)
            click.echo(as_text(manifests, "yaml"), nl=False)
            return True
        rows = dict(target.deploy_board(name, addresses, settings, public=board.public))
        click.echo(f"TensorBoard {name} answers in namespace {rows.pop('namespace')}")
        show_rows("text", rows)
    return board.deploy or board.undeploy


_HELP = """
Open TensorBoard on RUNs, by default on all of the folder of runs.

A RUN is a folder, its name in the folder of runs, an address in a bucket, or the id of a job of {title}; with
--experiment an id or a name, by default all of the experiment. What they log while it is open is shown, until Ctrl-C.
Runs that begin later are seen when it is opened again, those below an address in a bucket at once.
"""


def _sorted(chosen: Sequence[str], runs: Path, is_id: Callable[[str], bool]) -> tuple[list[LogSource], list[str]]:
    """Return the logs that are here or in a bucket, and the ids of other runs.

    Raises:
        ArtifactError: a text is neither.
    """
    here: list[LogSource] = []
    ids: list[str] = []
    for name in chosen:
        if logs := resolve_logs(name, runs):
            here.append(logs)
        elif is_id(name):
            ids.append(name)
        else:
            raise ArtifactError(
                f"run: must be a folder with logs, the name of one in {runs}, an address in a bucket, or the id of a "
                f"backend's run. Given: {name}"
            )
    return here, ids


@contextlib.contextmanager
def _shown(logs: LogSource, folder: Path, *, wait: bool) -> Iterator[None]:
    """Make logs appear in a folder, and keep them up to date until the block ends.

    Raises:
        ArtifactError: nothing is at their address, and that is not waited for.
    """
    place = parse_bucket_uri(logs.address)
    if place is None:
        (folder / logs.name).symlink_to(Path(logs.address).absolute())
        yield
        return
    click.echo(f"reading {place}", err=True)
    store = open_store(place)
    with contextlib.closing(FolderDownloader(store, folder, _Names(logs))) as follower:
        follower.update()
        if not (wait or logs.of_run or (folder / logs.name).exists()):
            raise ArtifactError(f"logs: nothing is there. Given: {place}")
        follower.start()
        yield


class _Names:
    """Names the files of logs in a bucket as they are shown; all trainings of a run but the first get a number."""

    def __init__(self, logs: LogSource) -> None:
        self._logs = logs
        self._numbers: dict[str, int] = {}

    def __call__(self, name: str) -> str | None:
        """Return the name of a file; None for one that TensorBoard does not read."""
        # An address may be that of a folder of many runs, with datasets and checkpoints beside their logs.
        if not _READ.search(name):
            return None
        if not self._logs.of_run:
            return f"{self._logs.name}/{name}"
        training, found, rest = name.partition("/logs/")
        if not found:
            return None
        number = self._numbers.setdefault(training, len(self._numbers) + 1)
        return f"{self._logs.name}/{rest}" if number == 1 else f"{self._logs.name}-{number}/{rest}"


def _check_free(host: str, port: int) -> None:
    """Refuse a port that is taken: TensorBoard takes many seconds to notice that, and reports it in many lines."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise ConfigError(f"port: cannot be used on {host} ({reason}). Given: {port}") from None


def _serve(arguments: list[str]) -> None:
    """Run TensorBoard until it or this process is told to end; print its address once it answers."""
    command = [sys.executable, "-m", "qcnn.run_module", "tensorboard.main", *arguments]
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A group of its own: Ctrl-C reaches it once, from here.
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )
    address, last = None, ""
    try:
        assert server.stderr
        for line in server.stderr:
            last = line.strip() or last
            if found := _ADDRESS.search(line):
                address = found[1]
                click.echo(f"TensorBoard at {address} (Ctrl-C ends it)")
    except KeyboardInterrupt:
        return
    finally:
        server.terminate()
        server.wait()
        signal.signal(signal.SIGTERM, previous)
    if address is None:
        raise StepError(f"TensorBoard did not start. Given: {last}")
    raise StepError(f"TensorBoard ended with exit code {server.returncode}. Given: {last}")
