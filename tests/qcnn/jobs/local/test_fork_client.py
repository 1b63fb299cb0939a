"""Processes forked from the fork server behave like processes started by subprocess.Popen."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import psutil
import pytest

from qcnn.jobs.local.fork_client import ChildProcess, ForkServer, start_process
from qcnn.jobs.local.fork_protocol import VARIABLE

# Modules that Python does not load at startup.
LOADED = ("colorsys", "chunk_of_the_user")
ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Working folder of all processes, with a module that the server loads."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "chunk_of_the_user.py").write_text("import sys; print('greetings', file=sys.stderr)")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # Bytecode of the previous program would be used for one of the same size that is written in the same second.
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        yield folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ForkServer]:
    with contextlib.closing(ForkServer(LOADED)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, server.address)
        yield server


@dataclasses.dataclass(frozen=True)
class ProcessResult:
    """Exit code and output of a process, and whether it was forked."""

    exit_code: int
    lines: list[str]
    forked: bool


@contextlib.contextmanager
def _started(
    program: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    folder: Path | None = None,
    address: str | None = None,
) -> Iterator[tuple[ChildProcess, TextIO]]:
    """Context manager that runs a program as a module of a folder, and yields the process and its output."""
    ((folder or Path()) / "program.py").write_text(textwrap.dedent(program))
    output, write_end = os.pipe()
    with os.fdopen(output) as printed, Path(os.devnull).open() as devnull:
        process = start_process(
            (sys.executable, "-m", "program", *arguments),
            {**os.environ, **(environment or {})},
            stdin=devnull.fileno(),
            stdout=write_end,
            stderr=write_end,
            pass_fds=pass_fds,
            folder=folder,
            address=address,
        )
        os.close(write_end)
        try:
            yield process, printed
        finally:
            process.kill()
            process.wait()


def _run(
    program: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    address: str | None = None,
) -> ProcessResult:
    with _started(program, *arguments, environment=environment, address=address) as (process, printed):
        lines = printed.read().splitlines()
        return ProcessResult(process.wait(), lines, not isinstance(process, subprocess.Popen))


PROCESS_STATE = """
    import os, random, signal, sys, tempfile
    print(__name__, *sys.argv[1:], sys.stdin.read())
    print(os.getcwd() == os.path.dirname(sys.argv[0]), sys.path.count(os.getcwd()))
    print(sorted(item for item in os.environ.items() if item[0] != "QCNN_FORK_SERVER"))
    print(sorted(name for name in os.listdir("/proc/self/fd") if int(name) > 2))
    print([signal.getsignal(number) for number in range(1, 32) if number != signal.SIGKILL])
    print(signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getpgrp(), os.getsid(0), tempfile.gettempdir())
    print([(s.name, s.mode, s.encoding, s.errors, s.line_buffering) for s in (sys.stdin, sys.stdout, sys.stderr)])
    print("an error", file=sys.stderr)
    """


def test_forked_process_state_equals_that_of_popen(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"MINE": "x", "TF_CONFIG": "{}"}
    forked = _run(PROCESS_STATE, "a", "b c", environment=variables)
    monkeypatch.delenv(VARIABLE)
    started = _run(PROCESS_STATE, "a", "b c", environment=variables)
    assert (forked.forked, started.forked) == (True, False)
    assert forked.lines == started.lines
    assert forked.lines[0] == "__main__ a b c "


def test_forked_process_has_modules_without_their_output(server: ForkServer) -> None:
    result = _run("import sys; print(*(name in sys.modules for name in ('colorsys', 'chunk_of_the_user', 'wave')))")
    assert result == ProcessResult(0, ["True True False"], forked=True)
    assert server.is_ready


def test_forked_processes_sample_different_random_numbers(server: ForkServer) -> None:
    program = "import random, tempfile, uuid; print(random.random(), uuid.uuid4(), tempfile.mktemp())"
    assert set(_run(program).lines[0].split()).isdisjoint(_run(program).lines[0].split())


@pytest.mark.parametrize("forked", [True, False])
def test_process_runs_in_its_folder(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: bool
) -> None:
    if not forked:
        monkeypatch.delenv(VARIABLE)
    with _started("import os; print(os.getcwd())", folder=tmp_path) as (process, printed):
        assert printed.read() == f"{tmp_path}\n"
        assert isinstance(process, subprocess.Popen) is not forked


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("import sys; sys.exit('out of luck')", 1),
        ("raise RuntimeError", 1),
        ("import os; os._exit(138)", 138),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("import os; os.kill(os.getpid(), 15)", -15),
        ("raise KeyboardInterrupt", -2),
    ],
)
def test_forked_process_exit_code_is_reported(server: ForkServer, program: str, code: int) -> None:
    result = _run(program)
    assert (result.forked, result.exit_code) == (True, code)


@pytest.mark.parametrize(("ignore", "method"), [("", "terminate"), ("signal.signal(15, signal.SIG_IGN);", "kill")])
def test_forked_process_receives_signals(server: ForkServer, ignore: str, method: str) -> None:
    program = f"import signal; {ignore} print('up', flush=True)\nwhile True: signal.pause()"
    with _started(program) as (process, printed):
        assert printed.readline() == "up\n"
        assert process.poll() is None
        process.terminate()
        if ignore:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0)
        getattr(process, method)()
        code = process.wait()
        assert code == -(signal.SIGKILL if ignore else signal.SIGTERM)
        assert process.poll() == code


def test_forked_process_inherits_pass_fds(server: ForkServer) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as pipe:
        program = "import os, sys; os.write(int(sys.argv[1]), b'written')"
        with _started(program, str(write_end), pass_fds=(write_end,)) as (process, _):
            os.close(write_end)
            # read() returns at the end of the file, so no other process has the write end.
            assert pipe.read() == "written"
            assert process.wait() == 0


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "TF_XLA_FLAGS", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"])
def test_start_process_other_library_settings_does_not_fork(server: ForkServer, name: str) -> None:
    result = _run(f"import os; print(os.environ[{name!r}])", environment={name: "1"})
    assert result == ProcessResult(0, ["1"], forked=False)


def test_server_killed_ends_children_and_next_uses_popen(folder: Path) -> None:
    with contextlib.closing(ForkServer(())) as server:
        program = "import signal; print('up', flush=True); signal.pause()"
        with _started(program, address=server.address) as (process, printed):
            assert printed.readline() == "up\n"
            assert server.pid
            os.kill(server.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            assert printed.read() == ""
        assert _run("print('up')", address=server.address) == ProcessResult(0, ["up"], forked=False)
        assert server.has_exited


def test_server_with_missing_module_does_not_fork(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(ForkServer(("no_such_module",))) as server:
        assert _run("print('up')", address=server.address) == ProcessResult(0, ["up"], forked=False)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.usefixtures("interruptible")
def test_server_and_children_end_with_parent(folder: Path, number: signal.Signals) -> None:
    """SIGINT is sent to the whole session, the other signals only to the parent process."""
    (folder / "sleeper.py").write_text("import os, signal; os.write(1, b'up\\n'); signal.pause()")
    program = """
    import os, sys
    from qcnn.jobs.local.fork_client import ForkServer, start_process
    server = ForkServer(())
    command = (sys.executable, "-m", "sleeper")
    options = dict(stdin=0, stdout=1, stderr=2, address=server.address)
    started = [start_process(command, os.environ, **options) for _ in range(2)]
    started[0].wait()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as parent:
        assert parent.stdout
        printed = [parent.stdout.readline() for _ in range(2)]
        descendants = psutil.Process(parent.pid).children(recursive=True)
        if number == signal.SIGINT:
            os.killpg(parent.pid, number)
        else:
            parent.send_signal(number)
    assert parent.returncode == -number
    assert (printed, len(descendants)) == ([b"up\n"] * 2, 3)
    _, alive = psutil.wait_procs(descendants, timeout=20)
    assert not alive


def test_server_outlives_thread_that_started_it(folder: Path) -> None:
    servers: list[ForkServer] = []
    thread = threading.Thread(target=lambda: servers.append(ForkServer(())))
    thread.start()
    thread.join()
    with contextlib.closing(servers[0]) as server:
        assert _run("print('up')", address=server.address) == ProcessResult(0, ["up"], forked=True)


def test_server_ends_with_parent_that_has_forked(folder: Path) -> None:
    """A process that the parent has forked, such as one of multiprocessing, holds the descriptors of the parent."""
    program = """
    import os, signal, sys
    from qcnn.jobs.local.fork_client import ForkServer
    server = ForkServer(())
    if os.fork():
        os.write(1, f"{server.pid}\\n".encode())
    signal.pause()
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout
        server = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        try:
            server.wait(20)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
