"""Processes that are forked from one that has loaded its modules are as if they had been started by themselves."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import psutil
import pytest

from qcnn.jobs.local.fork_client import ChildProcess, ForkServer, fork_server, start_process
from qcnn.jobs.local.fork_protocol import VARIABLE

# None of them is loaded by Python itself.
LOADED = ("colorsys", "chunk_of_the_user")
ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that all run in, with a module that the server loads."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "chunk_of_the_user.py").write_text("import sys; print('greetings', file=sys.stderr)")
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ForkServer]:
    with fork_server(LOADED) as server:
        yield server


@dataclasses.dataclass(frozen=True)
class Ran:
    """A process that has ended: how, what it printed, and whether it was forked."""

    exit_code: int
    lines: list[str]
    forked: bool


@contextlib.contextmanager
def _started(
    program: str, *arguments: str, environment: Mapping[str, str] | None = None, pass_fds: Sequence[int] = ()
) -> Iterator[tuple[ChildProcess, TextIO]]:
    """Start a program as a module of this folder; yield it with what it prints, and end it."""
    Path("program.py").write_text(textwrap.dedent(program))
    output, written = os.pipe()
    with os.fdopen(output) as printed, Path(os.devnull).open() as nothing:
        process = start_process(
            (sys.executable, "-m", "program", *arguments),
            {**os.environ, **(environment or {})},
            stdin=nothing.fileno(),
            stdout=written,
            stderr=written,
            pass_fds=pass_fds,
        )
        os.close(written)
        try:
            yield process, printed
        finally:
            process.kill()
            process.wait()


def _run(program: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Ran:
    with _started(program, *arguments, environment=environment) as (process, printed):
        lines = printed.read().splitlines()
        return Ran(process.wait(), lines, not isinstance(process, subprocess.Popen))


SURROUNDINGS = """
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


def test_all_that_a_process_sees_is_as_if_it_had_been_started_by_itself(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"MINE": "x", "TF_CONFIG": "{}"}
    forked = _run(SURROUNDINGS, "a", "b c", environment=variables)
    monkeypatch.delenv(VARIABLE)
    anew = _run(SURROUNDINGS, "a", "b c", environment=variables)
    assert (forked.forked, anew.forked) == (True, False)
    assert forked.lines == anew.lines
    assert forked.lines[0] == "__main__ a b c "


def test_what_the_server_has_loaded_is_there_and_its_greetings_are_not(server: ForkServer) -> None:
    ran = _run("import sys; print(*(name in sys.modules for name in ('colorsys', 'chunk_of_the_user', 'wave')))")
    assert ran == Ran(0, ["True True False"], forked=True)
    assert server.is_ready


def test_two_processes_draw_other_random_numbers(server: ForkServer) -> None:
    program = "import random, tempfile, uuid; print(random.random(), uuid.uuid4(), tempfile.mktemp())"
    assert set(_run(program).lines[0].split()).isdisjoint(_run(program).lines[0].split())


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
def test_a_process_ends_with_its_own_exit_code_or_signal(server: ForkServer, program: str, code: int) -> None:
    ran = _run(program)
    assert (ran.forked, ran.exit_code) == (True, code)


@pytest.mark.parametrize(("ignoring", "ended_by"), [("", "terminate"), ("signal.signal(15, signal.SIG_IGN);", "kill")])
def test_a_process_is_ended_by_those_who_asked_for_it(server: ForkServer, ignoring: str, ended_by: str) -> None:
    program = f"import signal; {ignoring} print('up', flush=True)\nwhile True: signal.pause()"
    with _started(program) as (process, printed):
        assert printed.readline() == "up\n"
        assert process.poll() is None
        process.terminate()
        if ignoring:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0)
        getattr(process, ended_by)()
        code = process.wait()
        assert code == -(signal.SIGKILL if ignoring else signal.SIGTERM)
        assert process.poll() == code


def test_a_pipe_is_passed_on_by_its_number(server: ForkServer) -> None:
    told, tells = os.pipe()
    with os.fdopen(told) as heard:
        program = "import os, sys; os.write(int(sys.argv[1]), b'told')"
        with _started(program, str(tells), pass_fds=(tells,)) as (process, _):
            os.close(tells)
            # To the end: nobody else holds the other one.
            assert heard.read() == "told"
            assert process.wait() == 0


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "TF_XLA_FLAGS", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"])
def test_where_libraries_would_be_loaded_with_other_settings_a_process_is_started_anew(
    server: ForkServer, name: str
) -> None:
    ran = _run(f"import os; print(os.environ[{name!r}])", environment={name: "1"})
    assert ran == Ran(0, ["1"], forked=False)


def test_a_process_ends_with_its_server_and_others_are_started_anew(folder: Path) -> None:
    with fork_server(()) as server:
        with _started("import signal; print('up', flush=True); signal.pause()") as (process, printed):
            assert printed.readline() == "up\n"
            assert server.pid
            os.kill(server.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            assert printed.read() == ""
        assert _run("print('up')") == Ran(0, ["up"], forked=False)


def test_what_cannot_be_loaded_is_left_to_those_who_need_it(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with fork_server(("no_such_module",)):
        assert _run("print('up')") == Ran(0, ["up"], forked=False)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.usefixtures("interruptible")
def test_nothing_outlives_the_process_that_started_the_server(folder: Path, number: signal.Signals) -> None:
    """Killed, terminated, or interrupted with all of its session: no process is left."""
    (folder / "sleeper.py").write_text("import os, signal; os.write(1, b'up\\n'); signal.pause()")
    program = """
    import os, sys
    from qcnn.jobs.local.fork_client import fork_server, start_process
    with fork_server(()):
        words = (sys.executable, "-m", "sleeper")
        started = [start_process(words, os.environ, stdin=0, stdout=1, stderr=2) for _ in range(2)]
        started[0].wait()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as asker:
        assert asker.stdout
        printed = [asker.stdout.readline() for _ in range(2)]
        below = psutil.Process(asker.pid).children(recursive=True)
        if number == signal.SIGINT:
            os.killpg(asker.pid, number)
        else:
            asker.send_signal(number)
    assert asker.returncode == -number
    assert (printed, len(below)) == ([b"up\n"] * 2, 3)
    _, alive = psutil.wait_procs(below, timeout=20)
    assert not alive
