"""qcnn tensorboard: look at runs in TensorBoard."""

import collections
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from cli.errors import StepError
from trainer.errors import ArtifactError, ConfigError

_LOGS = Path("train", "logs")
_ADDRESS = re.compile(r"TensorBoard \S+ at (http\S+)")


@click.command()
@click.argument("chosen", nargs=-1, metavar="[RUN]...")
@click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs."
)
@click.option("--host", default="localhost", show_default=True, help="Name or address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes any. [default: the first free from 6006]"
)
def tensorboard(chosen: tuple[str, ...], runs: Path, host: str, port: int | None) -> None:
    """Open TensorBoard on RUNs, each a folder or its name in the folder of runs; by default on all of them.

    It shows what the runs log while it is open, until Ctrl-C. Runs that begin later are seen when it is opened again.
    """
    logs = find_logs(chosen, runs)
    if port:
        _check_free(host, port)
    with tempfile.TemporaryDirectory(prefix="qcnn-tensorboard-") as folder:
        # One folder of links, named as the runs are: hparams compares only what lies under one --logdir.
        for name, path in logs.items():
            Path(folder, name).symlink_to(path.absolute())
        _serve(["--logdir", folder, "--host", host, *(["--port", str(port)] if port is not None else [])])


def find_logs(chosen: Sequence[str], runs: Path) -> dict[str, Path]:
    """Return the logs folder of each run by the run's name; all runs of the folder `runs` where none is chosen.

    Raises:
        ArtifactError: a folder is no run, two runs have one name, or there is none.
    """
    if not chosen:
        found = {path.name: path / _LOGS for path in sorted(runs.glob("*")) if (path / _LOGS).is_dir()}
        if not found:
            raise ArtifactError(f"runs: the folder holds no run with logs; `qcnn run` makes one. Given: {runs}")
        return found
    folders = [Path(run) if (Path(run) / _LOGS).is_dir() else runs / run for run in chosen]
    for run, folder in zip(chosen, folders, strict=True):
        if not (folder / _LOGS).is_dir():
            raise ArtifactError(f"run: neither a folder nor a name in {runs} with {_LOGS} in it. Given: {run}")
    names = collections.Counter(folder.resolve().name for folder in {folder.resolve() for folder in folders})
    if twice := [name for name, count in names.items() if count > 1]:
        raise ArtifactError(f"run: two different runs have the same name. Given: {twice[0]}")
    return {folder.resolve().name: folder / _LOGS for folder in folders}


def _check_free(host: str, port: int) -> None:
    """TensorBoard takes many seconds to notice, and more than a line to say so."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise ConfigError(f"port: cannot be used on {host} ({reason}). Given: {port}") from None


def _serve(arguments: list[str]) -> None:
    """Run TensorBoard until it or this process is told to end; print its address once it answers."""
    command = [sys.executable, "-m", "tensorboard.main", *arguments]
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
