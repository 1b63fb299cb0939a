"""Local processes of a job: decisions, restarts, termination and reuse."""

import contextlib
import os
import subprocess
import sys
import textwrap
import time
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import pytest

from qcnn.errors import RetryableError, TrainingError
from qcnn.jobs.job import JobSpec
from qcnn.jobs.local.processes import StopHandler
from qcnn.jobs.local.runner import Action, ProcessObservation, ProcessPool, decide, explain, run_processes
from qcnn.process.library_loading import START_TIMEOUT_SECONDS
from tests.qcnn.jobs.local.reusable import parse_lines, reusable_job

TIMEOUT = 60.0
KILLED, ABORTED, PEER_FAILED, PERMANENT = -9, -6, 138, 1


def _workers(*exit_codes: int | None, seconds_since_heartbeat: float = 0) -> list[ProcessObservation]:
    return [
        ProcessObservation(f"worker {index}", code, seconds_since_heartbeat) for index, code in enumerate(exit_codes)
    ]


def _by_role(seconds_since_heartbeat: float = 0, **exit_codes: int | None) -> list[ProcessObservation]:
    """Return the observed processes of strategy parameter_server."""
    return [
        ProcessObservation(role, code, seconds_since_heartbeat, role != "chief", role in ("worker", "evaluator"))
        for role, code in exit_codes.items()
    ]


def _starting(seconds: float, seconds_of_other: float = 0) -> list[ProcessObservation]:
    """Return a worker that has sent heartbeats, and one that has not."""
    return [
        ProcessObservation("worker 0", None, seconds_of_other),
        ProcessObservation("worker 1", None, seconds, is_starting=True),
    ]


@pytest.mark.parametrize(
    ("processes", "action", "cause"),
    [
        (_workers(None, None), Action.CONTINUE, None),
        (_workers(None, 0), Action.CONTINUE, None),
        (_workers(0, 0), Action.RETURN, None),
        (_workers(None, PERMANENT), Action.FAIL, "worker 1"),
        (_workers(0, 127), Action.FAIL, "worker 1"),
        (_workers(0, 128), Action.RESTART_ALL, "worker 1"),
        (_workers(KILLED, None), Action.RESTART_ALL, "worker 0"),
        (_workers(PEER_FAILED, None), Action.RESTART_ALL, "worker 0"),
        # Simultaneous failures.
        (_workers(PEER_FAILED, KILLED), Action.RESTART_ALL, "worker 1"),
        (_workers(KILLED, PEER_FAILED), Action.RESTART_ALL, "worker 0"),
        (_workers(PEER_FAILED, KILLED, PERMANENT), Action.FAIL, "worker 2"),
        (_workers(KILLED, KILLED), Action.RESTART_ALL, "worker 0"),
        # Heartbeat timeouts.
        (_workers(None, None, seconds_since_heartbeat=TIMEOUT), Action.CONTINUE, None),
        (_workers(None, None, seconds_since_heartbeat=TIMEOUT + 1), Action.RESTART_ALL, "worker 0"),
        (_workers(0, None, seconds_since_heartbeat=TIMEOUT + 1), Action.RESTART_ALL, "worker 1"),
        (_workers(0, 0, seconds_since_heartbeat=TIMEOUT + 1), Action.RETURN, None),
        (_workers(None, PERMANENT, seconds_since_heartbeat=TIMEOUT + 1), Action.FAIL, "worker 1"),
        # Processes that have sent no heartbeat yet.
        (_starting(TIMEOUT + 1), Action.CONTINUE, None),
        (_starting(START_TIMEOUT_SECONDS), Action.CONTINUE, None),
        (_starting(START_TIMEOUT_SECONDS + 1), Action.RESTART_ALL, "worker 1"),
        (_starting(0, seconds_of_other=TIMEOUT + 1), Action.RESTART_ALL, "worker 0"),
        # Only the exit code of the chief counts.
        (_by_role(chief=0, worker=None, ps=None), Action.RETURN, None),
        (_by_role(chief=0, worker=KILLED, ps=PEER_FAILED, evaluator=PERMANENT), Action.RETURN, None),
        (_by_role(chief=None, worker=None, ps=None, evaluator=0), Action.CONTINUE, None),
        # Processes that are restarted individually.
        (_by_role(chief=None, worker=KILLED, ps=None), Action.RESTART_ONE, "worker"),
        (_by_role(chief=None, worker=PEER_FAILED, evaluator=KILLED), Action.RESTART_ONE, "evaluator"),
        (
            _by_role(chief=None, worker=None, ps=None, seconds_since_heartbeat=TIMEOUT + 1),
            Action.RESTART_ALL,
            "chief",
        ),
        (
            _by_role(chief=0, worker=0, evaluator=None, seconds_since_heartbeat=TIMEOUT + 1),
            Action.RETURN,
            None,
        ),
        (_by_role(chief=PEER_FAILED, worker=KILLED, ps=None), Action.RESTART_ALL, "chief"),
        (_by_role(chief=PEER_FAILED, worker=PEER_FAILED, ps=KILLED), Action.RESTART_ALL, "ps"),
        (_by_role(chief=None, worker=PERMANENT, ps=KILLED), Action.FAIL, "worker"),
    ],
)
def test_decide_returns_action_and_root_cause(
    processes: list[ProcessObservation], action: Action, cause: str | None
) -> None:
    decision = decide(processes, TIMEOUT)
    assert (decision.action, decision.process and decision.process.name) == (action, cause)


@pytest.mark.parametrize(
    ("exit_code", "last_line", "message"),
    [
        (None, "still here", "worker 0 sent no heartbeat for 60 s"),
        (KILLED, "still here", "worker 0 was killed by SIGKILL"),
        (ABORTED, "unknown flag", "worker 0 was killed by SIGABRT: unknown flag"),
        (ABORTED, "", "worker 0 was killed by SIGABRT"),
        (PEER_FAILED, "gone", "worker 0 ended with exit code 138: gone"),
        (PEER_FAILED, "error: gone. Given: /", "worker 0 ended with exit code 138: gone. Given: /"),
        (PERMANENT, "", "worker 0 ended with exit code 1: it printed nothing"),
    ],
)
def test_explain_returns_single_line(exit_code: int | None, last_line: str, message: str) -> None:
    assert explain(ProcessObservation("worker 0", exit_code, 61), last_line, TIMEOUT) == message


@pytest.mark.parametrize(("timeout", "seconds"), [(TIMEOUT, 600), (900.0, 900)])
def test_explain_names_timeout_of_start(timeout: float, seconds: int) -> None:
    process = ProcessObservation("worker 0", None, seconds + 1, is_starting=True)
    assert explain(process, "", timeout) == f"worker 0 sent no heartbeat for {seconds} s"
    assert decide([process], timeout).action is Action.RESTART_ALL


ROOT = Path(__file__).parents[4]


Children: TypeAlias = Callable[[], list[psutil.Process]]


@pytest.fixture
def children() -> Children:
    """Return a function that lists the children started since, because servers of other tests may still run."""
    before = psutil.Process().children()
    return lambda: [process for process in psutil.Process().children() if process not in before]


def _run(
    program: str, restarts: int = 0, heartbeat_timeout_seconds: float = 60, **replicas: int
) -> list[tuple[str, str]]:
    """Run a program in every process of a job, and return the events in the order of their arrival."""
    argv = (sys.executable, "-c", textwrap.dedent(program))
    events: list[tuple[str, str]] = []
    job = JobSpec(argv=argv, replicas=replicas, restarts=restarts, heartbeat_timeout_seconds=heartbeat_timeout_seconds)
    run_processes(job, lambda name, event: events.append((name, event["event"])))
    return events


def test_run_sets_role_index_and_cluster_in_tf_config(capfd: pytest.CaptureFixture[str]) -> None:
    program = """
    import json, os
    config = json.loads(os.environ["TF_CONFIG"])
    print(config["task"]["type"], config["task"]["index"], *sorted(sum(config["cluster"].values(), [])))
    """
    _run(program, chief=1, worker=2)
    lines = sorted(capfd.readouterr().out.splitlines())
    assert [line.split("] ")[0] for line in lines] == ["[chief 0", "[worker 0", "[worker 1"]
    assert [line.split("] ")[1].split()[:2] for line in lines] == [["chief", "0"], ["worker", "0"], ["worker", "1"]]
    (addresses,) = {tuple(line.split()[4:]) for line in lines}
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_run_single_process_has_no_tf_config(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", "of the calling shell")
    _run("import os; print(os.environ.get('TF_CONFIG'))", worker=1)
    assert capfd.readouterr().out == "[worker 0] None\n"


def test_run_permanent_error_terminates_other_processes(children: Children) -> None:
    program = """
    import json, os, signal, sys
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        signal.pause()
    sys.exit("out of luck")
    """
    with pytest.raises(TrainingError, match=r"^worker 1 ended with exit code 1: out of luck$"):
        _run(program, worker=2)
    assert not children()


def test_run_process_ignoring_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch, children: Children) -> None:
    monkeypatch.setattr("qcnn.jobs.local.processes.GRACE", 0.2)
    program = """
    import json, os, signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        signal.pause()
    sys.exit(3)
    """
    with pytest.raises(TrainingError, match=r"^worker 1 ended with exit code 3"):
        _run(program, worker=2)
    assert not children()


SLEEPERS = f"""
    from qcnn.jobs.job import JobSpec
    from qcnn.jobs.local.runner import ProcessPool, run_processes
    child = "import signal; print('up', flush=True); signal.pause()"
    job = JobSpec(argv=({sys.executable!r}, "-c", child), replicas={{"worker": 2}}, restarts=0,
              heartbeat_timeout_seconds=60)
    run_processes(job, lambda name, event: None)
    """


@contextlib.contextmanager
def _launcher(program: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """Context manager that starts a launcher process, and yields it and its two children once both run."""
    launcher = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        cwd=folder,
    )
    with launcher:
        assert launcher.stdout
        for _ in range(2):
            assert launcher.stdout.readline().endswith(b"up\n")
        children = psutil.Process(launcher.pid).children()
        assert len(children) == 2
        yield launcher, children


def test_run_launcher_terminated_ends_workers(tmp_path: Path) -> None:
    with _launcher(SLEEPERS, tmp_path) as (launcher, children):
        launcher.terminate()
        assert launcher.wait(20) != 0
        _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def test_run_retryable_error_restarts_all_processes(tmp_path: Path) -> None:
    program = f"""
    import json, os, pathlib, signal, time
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    starts = pathlib.Path({str(tmp_path / "starts")!r})
    if index == 1:
        with starts.open("a") as file:
            file.write("x")
        if starts.stat().st_size < 3:
            os.kill(os.getpid(), signal.SIGKILL)
    while not starts.exists() or starts.stat().st_size < 3:
        time.sleep(0.01)
    """
    _run(program, restarts=2, worker=2)
    assert (tmp_path / "starts").read_text() == "xxx"


def test_run_too_many_restarts_raises_retryable_error() -> None:
    with pytest.raises(RetryableError, match=r"^worker 0 ended with exit code 138: gone, after 1 restarts$"):
        _run("import sys; print('gone'); sys.exit(138)", restarts=1, worker=1)


def test_run_permanent_error_is_not_retried(tmp_path: Path) -> None:
    program = f"open({str(tmp_path / 'starts')!r}, 'a').write('x'); raise SystemExit(2)"
    with pytest.raises(TrainingError, match=r"^worker 0 ended with exit code 2"):
        _run(program, restarts=3, worker=1)
    assert (tmp_path / "starts").read_text() == "x"


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.abort()", "was killed by SIGABRT"),
        ("sys.exit(1)", "ended with exit code 1"),
        ("sys.exit(138)", "ended with exit code 138"),
    ],
)
def test_run_reached_limit_is_permanent_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, reason: str
) -> None:
    """The message of the library is not in the last line."""
    monkeypatch.setattr("qcnn.jobs.local.runner.process_limits", lambda: {"-v": 4_000_000 * 1024})
    program = f"""
    import os, sys
    open({str(tmp_path / "starts")!r}, "a").write("x")
    print("Thread tf_Compute creation via pthread_create() failed.")
    print("the last line", flush=True)
    {end}
    """
    with pytest.raises(TrainingError, match=rf"^worker 0 {reason}: ulimit -v: must be .* Given: 4000000 KiB$"):
        _run(program, restarts=3, worker=1)
    assert (tmp_path / "starts").read_text() == "x"


def test_run_killed_process_with_limit_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.jobs.local.runner.process_limits", lambda: {"-v": 4_000_000 * 1024})
    program = "import os; print('std::bad_alloc', flush=True); os.kill(os.getpid(), 9)"
    with pytest.raises(RetryableError, match=r"^worker 0 was killed by SIGKILL, after 1 restarts$"):
        _run(program, restarts=1, worker=1)


def test_run_process_without_heartbeat_raises(children: Children) -> None:
    # Only events are heartbeats. This process prints a line, but sends only one event.
    program = """
    import os, signal, sys
    os.write(int(sys.argv[-1]), b'{"event": "alive"}\\n')
    print("still here", flush=True)
    signal.pause()
    """
    with pytest.raises(RetryableError, match=r"^worker 0 sent no heartbeat for 0.5 s, after 0 restarts$"):
        _run(program, heartbeat_timeout_seconds=0.5, worker=1)
    assert not children()


def test_run_start_is_longer_than_heartbeat_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is restarted has sent no heartbeat either."""
    program = f"""
    import os, pathlib, signal, sys, time
    start = time.monotonic()
    while time.monotonic() - start < 0.3:
        pass
    starts = pathlib.Path({str(tmp_path / "starts")!r})
    with starts.open("a") as file:
        file.write("x")
    os.write(int(sys.argv[-1]), b'{{"event": "alive"}}\\n')
    if starts.stat().st_size == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    """
    _run(program, restarts=1, heartbeat_timeout_seconds=0.1, worker=1)
    assert (tmp_path / "starts").read_text() == "xx"


def test_run_process_that_does_not_start_is_restarted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, children: Children
) -> None:
    monkeypatch.setattr("qcnn.jobs.local.runner.START_TIMEOUT_SECONDS", 0.3)
    with pytest.raises(RetryableError, match=r"^worker 0 sent no heartbeat for 0.3 s, after 1 restarts$"):
        _run("import signal; signal.pause()", restarts=1, heartbeat_timeout_seconds=0.1, worker=1)
    assert [record.getMessage() for record in caplog.records] == [
        "worker 0 sent no heartbeat for 0.3 s; restarting all workers (1 of 1)"
    ]
    assert not children()


def test_run_suspended_launcher_reads_heartbeats_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher is suspended for 1,000 s, in which the process sends heartbeats."""
    program = f"""
    import os, pathlib, sys, time
    folder = pathlib.Path({str(tmp_path)!r})
    for state in ("suspended", "resumed"):
        while not (folder / state).exists():
            time.sleep(0.001)
        os.write(int(sys.argv[-1]), b'{{"event": "alive"}}\\n')
        (folder / "sent").touch()
    """
    offsets = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + offsets[-1])
    monkeypatch.setattr("qcnn.jobs.local.processes.time", clock)

    def suspend() -> None:
        (tmp_path / ("suspended" if len(offsets) == 1 else "resumed")).touch()
        while not (tmp_path / "sent").exists():
            time.sleep(0.001)
        offsets.append(1000.0)

    monkeypatch.setattr("qcnn.jobs.local.runner._check_output_pipe", suspend)
    _run(program, worker=1)
    assert len(offsets) > 2


# Waits after each of three epochs. Worker 0 reports the epoch before.
_CONFIRMING = """
import json, os, sys
from qcnn.trainer.events import stop_requests, to_pipe
assert sys.argv[-1] == "--confirm-epochs"
send = to_pipe(int(sys.argv[-2]))
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
should_stop = stop_requests(send)
for epoch in (1, 2, 3):
    if not index:
        send("epoch", epoch=epoch)
    if should_stop(epoch):
        break
print(f"ended after {epoch}")
"""


def _run_confirming(handler: StopHandler, reported: list[int]) -> list[str]:
    """Run two processes that wait after each epoch, and return their output."""

    def handle(_: str, event: Mapping[str, Any]) -> None:
        if event["event"] == "epoch":
            reported.append(event["epoch"])

    printed: list[str] = []
    job = JobSpec((sys.executable, "-c", _CONFIRMING), {"worker": 2}, 0, 60)
    with contextlib.closing(ProcessPool(lives_on=False)) as pool:
        pool.run(job, handle, printed.append, handler)
    return sorted(line.partition("] ")[2] for line in printed)


def test_run_all_processes_stop_after_same_epoch() -> None:
    """A process waits until the chief has reported the epoch."""
    reported: list[int] = []
    printed = _run_confirming(lambda epoch: None if epoch not in reported else epoch == 2, reported)
    assert printed == ["ended after 2"] * 2
    assert reported == [1, 2]


def test_run_error_of_handler_ends_processes(children: Children) -> None:
    error = ValueError("mine")

    def handler(epoch: int) -> bool:
        if epoch == 2:
            raise error
        return False

    with pytest.raises(ValueError, match=r"^mine$") as caught:
        _run_confirming(handler, [])
    assert caught.value is error
    assert not children()


def test_run_handler_may_take_longer_than_heartbeat_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler takes 1,000 s, in which the process sends heartbeats."""
    program = f"""
    import os, pathlib, sys, time
    folder = pathlib.Path({str(tmp_path)!r})
    for epoch in ("1", "2"):
        os.write(int(sys.argv[-2]), b'{{"event": "epoch_end", "epoch": %s}}\\n' % epoch.encode())
        while not (folder / f"called {{epoch}}").exists():
            time.sleep(0.001)
        os.write(int(sys.argv[-2]), b'{{"event": "alive"}}\\n')
        (folder / f"sent {{epoch}}").touch()
        print(sys.stdin.readline())
    """
    offsets = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + offsets[-1])
    monkeypatch.setattr("qcnn.jobs.local.processes.time", clock)

    def handler(epoch: int) -> bool:
        (tmp_path / f"called {epoch}").touch()
        while not (tmp_path / f"sent {epoch}").exists():
            time.sleep(0.001)
        offsets.append(offsets[-1] + 1000.0)
        return False

    job = JobSpec((sys.executable, "-c", textwrap.dedent(program)), {"worker": 1}, 0, TIMEOUT)
    with contextlib.closing(ProcessPool(lives_on=False)) as pool:
        pool.run(job, lambda *_: None, should_stop=handler)
    assert offsets == [0, 1000, 2000]


def test_interrupt_of_another_thread_ends_processes() -> None:
    lines: list[str] = []
    program = "import signal; print('up', flush=True); signal.pause()"
    job = JobSpec((sys.executable, "-c", program), {"worker": 2}, 3, TIMEOUT)
    before = psutil.Process().children(recursive=True)
    with contextlib.closing(ProcessPool(lives_on=True)) as pool, pytest.raises(KeyboardInterrupt):
        pool.run(job, lambda *_: None, lines.append, is_interrupted=lambda: len(lines) == 2)
    assert sorted(line.split()[-1] for line in lines) == ["up", "up"]
    assert psutil.Process().children(recursive=True) == before


def test_signal_that_ends_a_process_first_is_no_failure() -> None:
    """SIGTERM of all processes of a job without restarts, which another thread handles a little later."""
    questions: list[None] = []

    def is_interrupted() -> bool:
        if pool._processes[0].exit_code:
            questions.append(None)
        return len(questions) > 1

    job = JobSpec((sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"), {"worker": 1}, 0, TIMEOUT)
    with contextlib.closing(ProcessPool(lives_on=True)) as pool, pytest.raises(KeyboardInterrupt):
        pool.run(job, lambda *_: None, is_interrupted=is_interrupted)


def test_run_forwards_events_in_order() -> None:
    program = """
    import sys
    from qcnn.trainer.events import to_pipe
    send = to_pipe(int(sys.argv[-1]))
    for kind in ("first", "second"):
        send(kind, value=1)
    """
    events = _run(program, worker=2)
    assert [kind for name, kind in events if name == "worker 1"] == ["first", "second"]


def test_run_launcher_killed_ends_workers(tmp_path: Path) -> None:
    program = f"""
    from qcnn.jobs.job import JobSpec
    from qcnn.jobs.local.runner import ProcessPool, run_processes
    child = "import signal, sys; from qcnn.trainer.events import to_pipe; send = to_pipe(int(sys.argv[-1]));"
    child += "print('up', flush=True); signal.pause()"
    job = JobSpec(argv=({sys.executable!r}, "-c", child), replicas={{"worker": 2}}, restarts=3,
              heartbeat_timeout_seconds=60)
    run_processes(job, lambda name, event: None)
    """
    with _launcher(program, tmp_path) as (launcher, children):
        launcher.kill()
        ended, alive = psutil.wait_procs(children, timeout=20)
    assert len(ended) == 2
    assert not alive


def test_run_output_pipe_closed_ends_workers(tmp_path: Path) -> None:
    with _launcher(SLEEPERS, tmp_path) as (launcher, children):
        assert launcher.stdout
        launcher.stdout.close()
        assert launcher.wait(20) != 0
        _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def test_pool_replaces_processes_that_have_exited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    processes = []
    with contextlib.closing(ProcessPool(lives_on=True)) as pool:
        for argument in ("first", "exits", "third"):
            pool.run(reusable_job(tmp_path, argument), lambda *_: None)
            printed = parse_lines(capfd.readouterr().out)
            assert [line[0] for line in printed] == [argument] * 2
            processes.append([line[2] for line in printed])
    first, second, third = processes
    assert first == second
    assert not set(second) & set(third)


def test_pool_reuses_processes_for_next_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], children: Children
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pids = []
    with contextlib.closing(ProcessPool(lives_on=True)) as pool:
        for number, argument in enumerate(("first", "second", "third")):
            pool.run(reusable_job(tmp_path, argument), lambda *_: None)
            lines = parse_lines(capfd.readouterr().out)
            assert [line[:2] for line in lines] == [[argument, str(number)]] * 2
            pids.append([pid for *_, pid in lines])
        assert pids[0] == pids[1] == pids[2]
        assert len(children()) == 2
    assert not children()


@pytest.mark.parametrize(
    ("argument", "error"),
    [("fails", r"^worker [01] ended with exit code 1: out of luck$"), ("is killed", r"was killed by SIGKILL")],
)
def test_pool_starts_new_processes_after_failed_job(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    argument: str,
    error: str,
    children: Children,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with contextlib.closing(ProcessPool(lives_on=True)) as pool:
        pool.run(reusable_job(tmp_path, "first"), lambda *_: None)
        with pytest.raises((TrainingError, RetryableError), match=error):
            pool.run(reusable_job(tmp_path, argument), lambda *_: None)
        assert not children()
        capfd.readouterr()
        pool.run(reusable_job(tmp_path, "next"), lambda *_: None)
        assert [line[:2] for line in parse_lines(capfd.readouterr().out)] == [["next", "0"]] * 2


def test_pool_restarts_if_process_exited_or_job_kind_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], children: Children
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with contextlib.closing(ProcessPool(lives_on=True)) as pool:
        pool.run(reusable_job(tmp_path, "first"), lambda *_: None)
        (child, _) = children()
        child.kill()
        psutil.wait_procs([child])
        for job, count in (
            (reusable_job(tmp_path, "second"), 2),
            (reusable_job(tmp_path, "third", kind="other"), 2),
            (reusable_job(tmp_path, "fourth", kind="other", worker=1), 1),
        ):
            capfd.readouterr()
            pool.run(job, lambda *_: None)
            assert [jobs for _, jobs, _ in parse_lines(capfd.readouterr().out)] == ["0"] * count
            assert len(children()) == count


def _run_roles(program: str, tmp_path: Path, restarts: int, **replicas: int) -> None:
    """Run a program in every process of a job whose workers restart individually.

    The program has the variables `role` and `folder`.
    """
    begin = "import json, os, pathlib, signal, sys, time\nrole = json.loads(os.environ['TF_CONFIG'])['task']['type']\n"
    begin += f"folder = pathlib.Path({str(tmp_path)!r})\n"
    argv = (sys.executable, "-c", begin + textwrap.dedent(program))
    job = JobSpec(argv, replicas, restarts, 60, ignore_exit=("worker", "evaluator"), restart_individually=("worker",))
    run_processes(job, lambda *_: None)


def test_run_restarts_one_process_at_same_address(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = """
    print(role, os.environ["TF_CONFIG"] if role == "worker" else "", flush=True)
    if role == "worker":
        if not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / "again").touch()
        signal.pause()
    while not (folder / "again").exists():
        time.sleep(0.01)
    """
    monkeypatch.setattr("qcnn.jobs.local.runner._LAST_SECONDS", 0.1)
    _run_roles(program, tmp_path, 1, chief=1, worker=1)
    lines = capfd.readouterr().out.splitlines()
    assert lines.count("[chief 0] chief") == 1
    first, second = (line for line in lines if line.startswith("[worker 0]"))
    assert first == second
    assert [record.getMessage() for record in caplog.records] == [
        "worker 0 was killed by SIGKILL; restarting worker 0 (1 of 1)"
    ]


def test_run_counts_individual_restarts(tmp_path: Path, children: Children) -> None:
    program = """
    if role == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
    """
    with pytest.raises(RetryableError, match=r"^worker 0 was killed by SIGKILL, after 2 restarts$"):
        _run_roles(program, tmp_path, 2, chief=1, worker=1)
    assert not children()


def test_run_waits_for_processes_with_ignore_exit(
    tmp_path: Path, children: Children, capfd: pytest.CaptureFixture[str]
) -> None:
    program = """
    if role == "chief":
        (folder / "over").touch()
        sys.exit()
    while not (folder / "over").exists():
        time.sleep(0.01)
    print("last line", flush=True)
    """
    _run_roles(program, tmp_path, 0, chief=1, evaluator=1)
    assert capfd.readouterr().out == "[evaluator 0] last line\n"
    assert not children()


def test_run_assigns_distinct_ports(capfd: pytest.CaptureFixture[str]) -> None:
    program = """
    import json, os, sys
    addresses = sum(json.loads(os.environ["TF_CONFIG"])["cluster"].values(), [])
    print(*(address.split(":")[1] for address in addresses), sys.argv[2])
    """
    argv = (sys.executable, "-c", textwrap.dedent(program))
    run_processes(JobSpec(argv, {"worker": 8}, 0, 60, port_flags=("--profiler-port",)), lambda *_: None)
    lines = [line.split("] ")[1].split() for line in capfd.readouterr().out.splitlines()]
    assert len({port for ports in lines for port in ports}) == 16
