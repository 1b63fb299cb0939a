"""Makes the command qcnn tensorboard of a target: look at runs there, and of this machine, in TensorBoard."""

import contextlib
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

from qcnn.cli.options.base import Decorator
from qcnn.cli.options.experiment import complete_run
from qcnn.cli.options.settings import runs_option
from qcnn.errors import ArtifactError, ConfigError
from qcnn.extras import check_library
from qcnn.storage.sync import Follower, open_store
from qcnn.storage.uri import in_bucket
from qcnn.targets.artifacts import Logs, distinct, logs_here, runs_here
from qcnn.targets.errors import StepError

# Events, and what plugins keep beside them.
_READ = re.compile(r"tfevents[^/]*$|(^|/)plugins/")
_ADDRESS = re.compile(r"TensorBoard \S+ at (http\S+)")


def tensorboard_command(
    place: str,
    is_id: Callable[[str], bool],
    logs_there: Callable[..., list[Logs]],
    *options: Decorator,
    elsewhere: Callable[..., bool] | None = None,
) -> click.Command:
    """Return the command for a target's `place`, whose options it has.

    `is_id` tells whether a text can be the id of a run there. `logs_there` is given the ids of runs, an experiment or
    None, ids or names of its runs (none: all), and what these options make, and returns all logs that are asked for.
    `elsewhere` is given a function that finds all logs, and what these options make; it returns whether it has done
    what was asked for, so that nothing is shown here.
    """

    @click.argument("chosen", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
    @runs_option
    @click.option("--experiment", metavar="NAME", help=f"RUNs are those of this experiment of {place}.")
    @click.option(
        "--port",
        type=click.IntRange(0, 65535),
        help="Port to listen on; 0 takes any. [default: the first free from 6006]",
    )
    @click.option(
        "--listen", default="localhost", show_default=True, metavar="HOST", help="Name or address to listen on."
    )
    @click.option("--wait", is_flag=True, help="Open it even if nothing is logged yet in a bucket.")
    def tensorboard(
        chosen: tuple[str, ...],
        runs: Path,
        experiment: str | None,
        port: int | None,
        listen: str,
        wait: bool,
        **of_target: Any,
    ) -> None:
        def find() -> list[Logs]:
            here, ids = ([], []) if experiment else _sorted(chosen, runs, is_id)
            there = logs_there(ids, experiment, chosen if experiment else (), **of_target)
            return distinct([*here, *there] or runs_here(runs))

        if elsewhere and elsewhere(find, **of_target):
            return
        check_library("tensorboard")
        found = find()
        if port:
            _check_free(listen, port)
        with contextlib.ExitStack() as stack:
            # One folder, named as the runs are: hparams compares only what lies under one --logdir.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qcnn-tensorboard-")))
            for logs in found:
                stack.enter_context(_shown(logs, folder, wait=wait))
            _serve(["--logdir", str(folder), "--host", listen, *(["--port", str(port)] if port is not None else [])])

    for option in reversed(options):
        tensorboard = option(tensorboard)
    return click.command(name="tensorboard", help=_HELP.format(place=place))(tensorboard)


_HELP = """
Open TensorBoard on RUNs, by default on all of the folder of runs.

A RUN is a folder, its name in the folder of runs, an address in a bucket, or the id of a run of {place}; with
--experiment an id or a name, by default all of the experiment. What they log while it is open is shown, until Ctrl-C.
Runs that begin later are seen when it is opened again, those below an address in a bucket at once.
"""


def _sorted(chosen: Sequence[str], runs: Path, is_id: Callable[[str], bool]) -> tuple[list[Logs], list[str]]:
    """Return the logs that are here or in a bucket, and the ids of other runs.

    Raises:
        ArtifactError: a text is neither.
    """
    here: list[Logs] = []
    ids: list[str] = []
    for name in chosen:
        if logs := logs_here(name, runs):
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
def _shown(logs: Logs, folder: Path, *, wait: bool) -> Iterator[None]:
    """Make logs appear in a folder, and keep them up to date until the block ends.

    Raises:
        ArtifactError: nothing is at their address, and that is not waited for.
    """
    place = in_bucket(logs.address)
    if place is None:
        (folder / logs.name).symlink_to(Path(logs.address).absolute())
        yield
        return
    click.echo(f"reading {place}", err=True)
    store = open_store(place)
    with contextlib.closing(Follower(store, folder, _Names(logs))) as follower:
        follower.update()
        if not (wait or logs.of_run or (folder / logs.name).exists()):
            raise ArtifactError(f"logs: nothing is there. Given: {place}")
        follower.start()
        yield


class _Names:
    """Names the files of logs in a bucket as they are shown; all trainings of a run but the first get a number."""

    def __init__(self, logs: Logs) -> None:
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
