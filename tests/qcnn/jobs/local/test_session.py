"""Processes that a session keeps for its next runs."""

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from qcnn.jobs.local.fork_protocol import VARIABLE
from qcnn.jobs.local.session import Session
from qcnn.process.library_loading import loading
from tests.qcnn.jobs.local.reusable import parse_lines, reusable_job

ROOT = Path(__file__).parents[4]


# Returns the child processes that a test has started.
Children = Callable[[], list[psutil.Process]]


@pytest.fixture
def children() -> Children:
    """Function that returns the child processes of this process that did not exist before the test."""
    before = psutil.Process().children()
    return lambda: [child for child in psutil.Process().children() if child not in before]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv(VARIABLE, raising=False)
    with contextlib.closing(Session(())) as session:
        yield session


def _run(session: Session, argument: str = "a", *, is_reusable: bool = True) -> set[str]:
    """Run a job, and return the IDs of its processes."""
    printed: list[str] = []
    with session.processes(is_reusable=is_reusable) as processes:
        processes.run(reusable_job(Path.cwd(), argument), lambda *_: None, printed.append)
    return {process for *_, process in parse_lines("\n".join(printed))}


def test_next_run_has_processes_of_previous_one(session: Session) -> None:
    first = _run(session)
    assert len(first) == 2
    assert _run(session) == first


def test_run_that_is_not_reusable_has_new_processes(session: Session) -> None:
    first = _run(session)
    other = _run(session, "exits", is_reusable=False)
    assert not other & first
    # The idle processes are kept.
    assert _run(session) == first


@pytest.mark.parametrize("change", ["folder", "environment"])
def test_other_folder_or_environment_has_new_processes(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    first = _run(session)
    if change == "folder":
        (other := tmp_path / "other").mkdir()
        monkeypatch.chdir(other)
    else:
        monkeypatch.setenv("MINE", "x")
    assert not _run(session) & first
    assert not any(psutil.pid_exists(int(process)) for process in first)


def test_variable_of_loaded_library_keeps_processes(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _run(session)
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    before = dict(os.environ)
    with loading():
        # TensorFlow sets variables, too.
        monkeypatch.setenv("SET_BY_A_LIBRARY", "1")
    assert os.environ == {**before, "SET_BY_A_LIBRARY": "1"}
    assert _run(session) == first


def test_run_after_failed_one_has_new_processes(session: Session) -> None:
    first = _run(session)
    with pytest.raises(Exception, match="out of luck"):
        _run(session, "fails")
    second = _run(session)
    assert len(second) == 2
    assert not second & first


def test_server_that_was_killed_is_replaced(children: Children, session: Session) -> None:
    first = _run(session)
    (server,) = children()
    server.kill()
    server.wait()
    second = _run(session)
    assert len(second) == 2
    assert not second & first


def test_server_that_was_killed_is_replaced_for_processes_in_use(children: Children, session: Session) -> None:
    """As for the trials of a study."""
    with session.processes(is_reusable=True) as processes:
        for _ in range(2):
            processes.run(reusable_job(Path.cwd(), "a"), lambda *_: None, lambda _: None)
            (server,) = children()
            assert len(server.children()) == 2
            server.kill()
            server.wait()


def test_only_server_that_loads_is_closed(children: Children, session: Session, tmp_path: Path) -> None:
    first = _run(session)
    servers = children()
    session.close_loading()
    assert _run(session) == first
    (tmp_path / "endless.py").write_text("import signal\nsignal.pause()\n")
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(Session(("endless",))) as other:
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{tmp_path}")
        other.start()
        assert len(children()) == len(servers) + 1
        other.close_loading()
        assert children() == servers


def test_runs_in_threads_have_separate_processes_and_one_stays(children: Children, session: Session) -> None:
    barrier, found = threading.Barrier(2), list[set[str]]()

    def run() -> None:
        with session.processes(is_reusable=True) as processes:
            printed: list[str] = []
            barrier.wait()
            processes.run(reusable_job(Path.cwd(), "a"), lambda *_: None, printed.append)
            found.append({process for *_, process in parse_lines("\n".join(printed))})
            barrier.wait()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not found[0] & found[1]
    assert _run(session) in found
    (server,) = children()
    assert len(server.children()) == 2


def test_closed_session_has_no_process_and_can_be_used_again(children: Children, session: Session) -> None:
    first = _run(session)
    session.close()
    assert not children()
    assert not _run(session) & first


# Runs a job in a session, and prints the lines of its processes.
PROGRAM = """
    import os, signal, sys
    from pathlib import Path
    from qcnn.jobs.local.session import Session
    from tests.qcnn.jobs.local.reusable import reusable_job
    session = Session(())
    def run(argument):
        with session.processes(is_reusable=True) as processes:
            processes.run(reusable_job(Path.cwd(), argument), lambda *_: None)
    run("first")
    """


def _program(folder: Path, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(program)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("is_killed", [True, False])
def test_processes_end_with_process_of_session(tmp_path: Path, is_killed: bool) -> None:
    with _program(tmp_path, "print('up', flush=True); sys.stdin.read()") as process:
        assert process.stdin
        assert process.stdout
        assert "up\n" in iter(process.stdout.readline, "")
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) == 3
        if is_killed:
            process.kill()
        else:
            process.stdin.close()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


def test_forked_process_has_a_session_of_its_own(tmp_path: Path) -> None:
    program = """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        run("last")
    else:
        run("forked")
    """
    with _program(tmp_path, program) as process:
        printed, _ = process.communicate()
    assert process.returncode == 0
    by_argument: dict[str, set[str]] = {}
    for argument, _, number in parse_lines(printed):
        by_argument.setdefault(argument, set()).add(number)
    assert by_argument["first"] == by_argument["last"]
    assert len(by_argument["forked"] - by_argument["first"]) == 2
