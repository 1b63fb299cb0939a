"""qcnn tensorboard: TensorBoard for local and remote runs, on the local machine or on a cluster."""

import contextlib
import dataclasses
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from qcnn.cli.options.experiment import complete_run
from qcnn.cli.options.settings import options_as, passing, runs_option, settings_options
from qcnn.cli.output import as_text, show_rows
from qcnn.errors import ArtifactError, ConfigError
from qcnn.jobs.kubernetes.deployments import check_name
from qcnn.process.extras import check_library
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import FolderDownloader, open_store
from qcnn.targets import has_capability
from qcnn.targets.artifacts import LogSource, deduplicate, local_run_logs, resolve_logs
from qcnn.targets.base import FindsLogs, HostsTensorBoard, TargetSettings
from qcnn.targets.errors import StepError
from qcnn.targets.settings import PodFields

# Event files, and files of plugins.
_TENSORBOARD_FILE = re.compile(r"tfevents[^/]*$|(^|/)plugins/")
_NAME = "tensorboard"
_URL = re.compile(r"TensorBoard \S+ at (http\S+)")


@dataclasses.dataclass(frozen=True)
class TensorBoardDeployment:
    """Options of a TensorBoard on a cluster.

    Attributes:
        deploy: Whether to deploy it.
        undeploy: Whether to delete it.
        name: Name on the cluster, or None for the default name.
        public: Whether to expose it with a LoadBalancer.
        dry_run: Whether to print the changes without applying them.

    Raises:
        ConfigError: If both changes are requested, or an option requires one of them.
    """

    deploy: bool = False
    undeploy: bool = False
    name: str | None = None
    public: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.deploy and self.undeploy:
            raise ConfigError("tensorboard: must have only one of --deploy and --undeploy. Given: both")
        if self.name is not None and not (self.deploy or self.undeploy):
            raise ConfigError(f"name: requires --deploy or --undeploy. Given: {self.name}")
        if self.name is not None:
            check_name(self.name)
        if self.public and not self.deploy:
            raise ConfigError("public: requires --deploy. Given: --public")
        if self.dry_run and not (self.deploy or self.undeploy):
            raise ConfigError("dry_run: requires --deploy or --undeploy. Given: --dry-run")


# Adds --deploy, --undeploy and their options to a command, and passes it `board`.
_board_options = options_as(
    "board",
    lambda deploy, undeploy, board_name, public, dry_run: TensorBoardDeployment(
        deploy, undeploy, board_name, public, dry_run
    ),
    click.option(
        "--deploy", is_flag=True, help="Run TensorBoard on the cluster with --image, as a Deployment and a Service."
    ),
    click.option("--undeploy", is_flag=True, help="Delete TensorBoard from the cluster."),
    click.option(
        "--name", "board_name", metavar="NAME", help=f"Name of TensorBoard on the cluster.  [default: {_NAME}]"
    ),
    click.option("--public", is_flag=True, help="Expose TensorBoard publicly with a LoadBalancer. No authentication."),
    click.option("--dry-run", is_flag=True, help="Print the manifests for kubectl apply -f - without creating them."),
)


def tensorboard_command(kind: type[FindsLogs[TargetSettings]]) -> click.Command:
    """Return the tensorboard command of a target."""

    @click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
    @runs_option
    @click.option("--experiment", metavar="NAME", help=f"Experiment of {kind.title} that contains RUNs.")
    @click.option(
        "--port",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        help="Port to listen on. 0: any free port.  [default: the first free port from 6006]",
    )
    @click.option(
        "--bind-address", default="localhost", show_default=True, metavar="HOST", help="Host name or IP to listen on."
    )
    @click.option("--wait", is_flag=True, help="Open TensorBoard even if a bucket does not contain logs yet.")
    @settings_options(kind.logs_settings, kind.name)
    @(_board_options if has_capability(kind, HostsTensorBoard) else passing(board=TensorBoardDeployment()))
    def tensorboard(
        names: tuple[str, ...],
        runs: Path,
        experiment: str | None,
        port: int | None,
        bind_address: str,
        wait: bool,
        settings: TargetSettings,
        board: TensorBoardDeployment,
    ) -> None:
        def find() -> list[LogSource]:
            local, ids = ([], []) if experiment else _resolve(names, runs, target.is_job_id)
            run_names = names if experiment else ()
            remote = target.find_logs(ids, experiment, run_names, settings, in_a_pod=board.deploy)
            return deduplicate([*local, *remote] or local_run_logs(runs))

        with kind(settings) as target:
            if (
                isinstance(target, HostsTensorBoard)
                and isinstance(settings, PodFields)
                and _change_deployment(target, find, settings, board)
            ):
                return
            check_library("tensorboard")
            sources = find()
        if port:
            _check_free(bind_address, port)
        with contextlib.ExitStack() as stack:
            # All runs are linked into one folder, because the hparams plugin compares only runs below one --logdir.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qcnn-tensorboard-")))
            for logs in sources:
                stack.enter_context(_linked_logs(logs, folder, wait=wait))
            _serve(
                ["--logdir", str(folder), "--host", bind_address, *(["--port", str(port)] if port is not None else [])]
            )

    return click.command("tensorboard", help=_HELP.format(title=kind.title))(tensorboard)


def _change_deployment(
    target: HostsTensorBoard[PodFields],
    find: Callable[[], list[LogSource]],
    settings: PodFields,
    board: TensorBoardDeployment,
) -> bool:
    """Deploy or delete a TensorBoard if it is requested.

    Args:
        target: Target of the TensorBoard.
        find: Returns the logs to display.
        settings: Settings of the target.
        board: Requested change.

    Returns:
        Whether a change was requested.
    """
    name = board.name or _NAME
    if settings.has_pod_settings and not board.deploy:
        raise ConfigError("tensorboard: --deploy must be given with pod settings. Given: --pod or one of its settings")
    if board.undeploy and board.dry_run:
        click.echo(f"TensorBoard {name} would be deleted")
    elif board.undeploy:
        click.echo(f"TensorBoard {name} is deleted from namespace {target.delete_board(name)}")
    elif board.deploy:
        # Validates the settings before the search for logs, which sends requests.
        target.board_requests(name, (), settings, public=board.public)
        addresses = [logs.address for logs in find()]
        if board.public:
            click.echo("warning: --public has no authentication, so anyone with the URL can read the logs", err=True)
        if board.dry_run:
            manifests = target.board_requests(name, addresses, settings, public=board.public)
            click.echo(as_text(manifests, "yaml"), nl=False)
            return True
        rows = dict(target.deploy_board(name, addresses, settings, public=board.public))
        click.echo(f"TensorBoard {name} runs in namespace {rows.pop('namespace')}")
        show_rows("text", rows)
    return board.deploy or board.undeploy


_HELP = """
Open TensorBoard on RUNs. By default, all runs in --runs.

RUN is a folder, its name in --runs, a bucket URI, or the ID of a job of {title}. With --experiment, RUN is an ID or a
name in the experiment, by default all of its runs. TensorBoard displays new log data until Ctrl-C. It displays runs
that start later only after a restart, except runs below a bucket URI.
"""


def _resolve(names: Sequence[str], runs: Path, is_id: Callable[[str], bool]) -> tuple[list[LogSource], list[str]]:
    """Return the logs of local folders and bucket URIs, and the remaining job IDs.

    Args:
        names: Values of RUN.
        runs: Folder of local runs.
        is_id: Returns whether a text can be a job ID of the target.

    Raises:
        ArtifactError: If a text is none of these.
    """
    local: list[LogSource] = []
    ids: list[str] = []
    for name in names:
        if logs := resolve_logs(name, runs):
            local.append(logs)
        elif is_id(name):
            ids.append(name)
        else:
            raise ArtifactError(
                f"run: must be a folder with logs, the name of a folder in {runs}, a bucket URI or the ID of a remote "
                f"run. Given: {name}"
            )
    return local, ids


# Folder with links to the profiles of all runs, below the folder that TensorBoard reads.
_PROFILES = "profiles"


@contextlib.contextmanager
def _linked_logs(logs: LogSource, folder: Path, *, wait: bool) -> Iterator[None]:
    """Context manager that links logs into a folder, or downloads them from a bucket and updates them.

    Args:
        logs: Logs of a run.
        folder: Folder that TensorBoard reads.
        wait: Whether the bucket may contain no logs yet.

    Raises:
        ArtifactError: If the bucket contains no logs and `wait` is not set.
    """
    uri = parse_bucket_uri(logs.address)
    if uri is None:
        source = Path(logs.address).absolute()
        (folder / logs.name).symlink_to(source)
        # The profile plugin (xprof 2.24) searches for folders plugins/profile without following links.
        profiles = folder / _PROFILES / logs.name / "train" / "plugins"
        profiles.mkdir(parents=True)
        (profiles / "profile").symlink_to(source / "train" / "plugins" / "profile")
        yield
        return
    click.echo(f"reading {uri}", err=True)
    store = open_store(uri)
    with contextlib.closing(FolderDownloader(store, folder, _LocalNames(logs))) as downloader:
        downloader.update()
        if not (wait or logs.of_run or (folder / logs.name).exists()):
            raise ArtifactError(f"logs: must exist, unless --wait is given. Given: {uri}")
        downloader.start()
        yield


class _LocalNames:
    """Mapping of log files in a bucket to local names, with numbers for further training runs of a run."""

    def __init__(self, logs: LogSource) -> None:
        self._logs = logs
        self._numbers: dict[str, int] = {}

    def __call__(self, name: str) -> str | None:
        """Return the local name of a file, or None if TensorBoard does not read it."""
        # A bucket URI may contain many runs, with datasets and checkpoints in addition to their logs.
        if not _TENSORBOARD_FILE.search(name):
            return None
        if not self._logs.of_run:
            return f"{self._logs.name}/{name}"
        training, separator, rest = name.partition("/logs/")
        if not separator:
            return None
        number = self._numbers.setdefault(training, len(self._numbers) + 1)
        return f"{self._logs.name}/{rest}" if number == 1 else f"{self._logs.name}-{number}/{rest}"


def _check_free(host: str, port: int) -> None:
    """Raise ConfigError if a port is in use, because TensorBoard reports it late and in many lines."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise ConfigError(f"port: cannot be used on {host} ({reason}). Given: {port}") from None


def _serve(arguments: list[str]) -> None:
    """Run TensorBoard until it exits or this process receives a signal, and print its URL."""
    command = [sys.executable, "-m", "qcnn.process.run_module", "tensorboard.main", *arguments]
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    # In a separate session, so that Ctrl-C reaches it only from this process.
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )
    url, last_line = None, ""
    try:
        assert server.stderr
        for line in server.stderr:
            last_line = line.strip() or last_line
            if match := _URL.search(line):
                url = match[1]
                click.echo(f"TensorBoard at {url} (Ctrl-C to stop)")
    except KeyboardInterrupt:
        return
    finally:
        server.terminate()
        server.wait()
        signal.signal(signal.SIGTERM, previous)
    if url is None:
        raise StepError(f"TensorBoard did not start. Given: {last_line}")
    raise StepError(f"TensorBoard failed with exit code {server.returncode}. Given: {last_line}")
