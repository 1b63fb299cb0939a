"""What is done about the processes of a job, by how they ended."""

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import psutil
import pytest

from qcnn.errors import RetryableError, TrainingError
from qcnn.jobs.job import Job
from qcnn.jobs.local.runner import Action, ProcessObservation, ProcessPool, decide, explain, run_processes

HANG = 60.0
KILLED, ABORTED, LOST_A_PEER, OWN_FAULT = -9, -6, 138, 1


def _seen(*exit_codes: int | None, seconds_since_heartbeat: float = 0) -> list[ProcessObservation]:
    return [
        ProcessObservation(f"worker {index}", code, seconds_since_heartbeat) for index, code in enumerate(exit_codes)
    ]


def _by_role(seconds_since_heartbeat: float = 0, **exit_codes: int | None) -> list[ProcessObservation]:
    """The processes of strategy parameter_server."""
    return [
        ProcessObservation(role, code, seconds_since_heartbeat, role != "chief", role in ("worker", "evaluator"))
        for role, code in exit_codes.items()
    ]


@pytest.mark.parametrize(
    ("processes", "action", "blamed"),
    [
        (_seen(None, None), Action.GO_ON, None),
        (_seen(None, 0), Action.GO_ON, None),
        (_seen(0, 0), Action.SUCCEEDED, None),
        (_seen(None, OWN_FAULT), Action.FAILED, "worker 1"),
        (_seen(0, 127), Action.FAILED, "worker 1"),
        (_seen(0, 128), Action.LOST, "worker 1"),
        (_seen(KILLED, None), Action.LOST, "worker 0"),
        (_seen(LOST_A_PEER, None), Action.LOST, "worker 0"),
        # Of those that ended at the same moment.
        (_seen(LOST_A_PEER, KILLED), Action.LOST, "worker 1"),
        (_seen(KILLED, LOST_A_PEER), Action.LOST, "worker 0"),
        (_seen(LOST_A_PEER, KILLED, OWN_FAULT), Action.FAILED, "worker 2"),
        (_seen(KILLED, KILLED), Action.LOST, "worker 0"),
        # Silent.
        (_seen(None, None, seconds_since_heartbeat=HANG), Action.GO_ON, None),
        (_seen(None, None, seconds_since_heartbeat=HANG + 1), Action.LOST, "worker 0"),
        (_seen(0, None, seconds_since_heartbeat=HANG + 1), Action.LOST, "worker 1"),
        (_seen(0, 0, seconds_since_heartbeat=HANG + 1), Action.SUCCEEDED, None),
        (_seen(None, OWN_FAULT, seconds_since_heartbeat=HANG + 1), Action.FAILED, "worker 1"),
        # The training is over with its chief, whatever became of the others.
        (_by_role(chief=0, worker=None, ps=None), Action.SUCCEEDED, None),
        (_by_role(chief=0, worker=KILLED, ps=LOST_A_PEER, evaluator=OWN_FAULT), Action.SUCCEEDED, None),
        (_by_role(chief=None, worker=None, ps=None, evaluator=0), Action.GO_ON, None),
        # Some are not needed by the others.
        (_by_role(chief=None, worker=KILLED, ps=None), Action.ONE_LOST, "worker"),
        (_by_role(chief=None, worker=LOST_A_PEER, evaluator=KILLED), Action.ONE_LOST, "evaluator"),
        (_by_role(chief=None, worker=None, ps=None, seconds_since_heartbeat=HANG + 1), Action.LOST, "chief"),
        (_by_role(chief=0, worker=0, evaluator=None, seconds_since_heartbeat=HANG + 1), Action.SUCCEEDED, None),
        (_by_role(chief=LOST_A_PEER, worker=KILLED, ps=None), Action.LOST, "chief"),
        (_by_role(chief=LOST_A_PEER, worker=LOST_A_PEER, ps=KILLED), Action.LOST, "ps"),
        (_by_role(chief=None, worker=OWN_FAULT, ps=KILLED), Action.FAILED, "worker"),
    ],
)
def test_a_verdict_follows_from_how_processes_ended(
    processes: list[ProcessObservation], action: Action, blamed: str | None
) -> None:
    verdict = decide(processes, HANG)
    assert (verdict.action, verdict.process and verdict.process.name) == (action, blamed)


@pytest.mark.parametrize(
    ("exit_code", "last_line", "said"),
    [
        (None, "still here", "worker 0 gave no sign of life for 60 s"),
        (KILLED, "still here", "worker 0 was killed by SIGKILL"),
        (ABORTED, "unknown flag", "worker 0 was killed by SIGABRT: unknown flag"),
        (ABORTED, "", "worker 0 was killed by SIGABRT"),
        (LOST_A_PEER, "gone", "worker 0 ended with exit code 138: gone"),
        (LOST_A_PEER, "error: gone. Given: /", "worker 0 ended with exit code 138: gone. Given: /"),
        (OWN_FAULT, "", "worker 0 ended with exit code 1: it printed nothing"),
    ],
)
def test_how_a_process_ended_is_one_line(exit_code: int | None, last_line: str, said: str) -> None:
    assert explain(ProcessObservation("worker 0", exit_code, 61), last_line, HANG) == said


ROOT = Path(__file__).parents[4]


Children: TypeAlias = Callable[[], list[psutil.Process]]


@pytest.fixture
def children() -> Children:
    """Return a function that returns what this process has started since: servers of other tests may live on."""
    before = psutil.Process().children()
    return lambda: [process for process in psutil.Process().children() if process not in before]


def _run(
    program: str, restarts: int = 0, heartbeat_timeout_seconds: float = 60, **replicas: int
) -> list[tuple[str, str]]:
    """Run a program as every process of a job; return the events that came, in order."""
    argv = (sys.executable, "-c", textwrap.dedent(program))
    events: list[tuple[str, str]] = []
    job = Job(argv=argv, replicas=replicas, restarts=restarts, heartbeat_timeout_seconds=heartbeat_timeout_seconds)
    run_processes(job, lambda name, event: events.append((name, event["event"])))
    return events


def test_every_process_gets_its_own_place_in_one_cluster(capfd: pytest.CaptureFixture[str]) -> None:
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


def test_a_single_process_has_no_cluster(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "of the shell around")
    _run("import os; print(os.environ.get('TF_CONFIG'))", worker=1)
    assert capfd.readouterr().out == "[worker 0] None\n"


def test_the_first_failure_ends_the_others_and_is_named(children: Children) -> None:
    program = """
    import json, os, signal, sys
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        signal.pause()
    sys.exit("out of luck")
    """
    with pytest.raises(TrainingError, match=r"^worker 1 ended with exit code 1: out of luck$"):
        _run(program, worker=2)
    assert not children()


def test_a_process_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch, children: Children) -> None:
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
    from qcnn.jobs.job import Job
    from qcnn.jobs.local.runner import ProcessPool, run_processes
    child = "import signal; print('up', flush=True); signal.pause()"
    job = Job(argv=({sys.executable!r}, "-c", child), replicas={{"worker": 2}}, restarts=0,
              heartbeat_timeout_seconds=60)
    run_processes(job, lambda name, event: None)
    """


@contextlib.contextmanager
def _launcher(program: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """Start a launcher of its own process; yield it with its two children once both are up."""
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


def test_a_terminated_launcher_leaves_no_process(tmp_path: Path) -> None:
    with _launcher(SLEEPERS, tmp_path) as (launcher, children):
        launcher.terminate()
        assert launcher.wait(20) != 0
        _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def test_lost_processes_are_started_again_all_together(tmp_path: Path) -> None:
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


def test_losses_beyond_the_restarts_are_the_jobs_end_and_worth_a_retry() -> None:
    with pytest.raises(RetryableError, match=r"^worker 0 ended with exit code 138: gone, after 1 restarts$"):
        _run("import sys; print('gone'); sys.exit(138)", restarts=1, worker=1)


def test_a_processs_own_fault_is_not_tried_again(tmp_path: Path) -> None:
    program = f"open({str(tmp_path / 'starts')!r}, 'a').write('x'); raise SystemExit(2)"
    with pytest.raises(TrainingError, match=r"^worker 0 ended with exit code 2"):
        _run(program, restarts=3, worker=1)
    assert (tmp_path / "starts").read_text() == "x"


def test_a_process_without_a_sign_of_life_is_lost(children: Children) -> None:
    # Only an event is a sign of life: this one prints, but sends none.
    program = """
    import signal
    print("still here", flush=True)
    signal.pause()
    """
    with pytest.raises(RetryableError, match=r"^worker 0 gave no sign of life for 0.5 s, after 0 restarts$"):
        _run(program, heartbeat_timeout_seconds=0.5, worker=1)
    assert not children()


def test_events_are_passed_on_in_order() -> None:
    program = """
    import sys
    from qcnn.trainer.events import to_pipe
    send = to_pipe(int(sys.argv[-1]))
    for kind in ("first", "second"):
        send(kind, value=1)
    """
    events = _run(program, worker=2)
    assert [kind for name, kind in events if name == "worker 1"] == ["first", "second"]


def test_workers_end_when_their_launcher_is_killed(tmp_path: Path) -> None:
    program = f"""
    from qcnn.jobs.job import Job
    from qcnn.jobs.local.runner import ProcessPool, run_processes
    child = "import signal, sys; from qcnn.trainer.events import to_pipe; send = to_pipe(int(sys.argv[-1]));"
    child += "print('up', flush=True); signal.pause()"
    job = Job(argv=({sys.executable!r}, "-c", child), replicas={{"worker": 2}}, restarts=3,
              heartbeat_timeout_seconds=60)
    run_processes(job, lambda name, event: None)
    """
    with _launcher(program, tmp_path) as (launcher, children):
        launcher.kill()
        gone, alive = psutil.wait_procs(children, timeout=20)
    assert len(gone) == 2
    assert not alive


def test_a_launcher_whose_reader_is_gone_ends_its_workers(tmp_path: Path) -> None:
    with _launcher(SLEEPERS, tmp_path) as (launcher, children):
        assert launcher.stdout
        launcher.stdout.close()
        assert launcher.wait(20) != 0
        _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


# Trains, as far as a crew can see: prints its arguments, and its process's number of trainings.
LIVING = """
    import json, os, signal, sys
    from qcnn.trainer.events import to_pipe
    send = to_pipe(int(sys.argv[sys.argv.index("--events") + 1]))
    arguments, trained = sys.argv, 0
    while True:
        print(arguments[1], trained, os.getpid())
        if arguments[1].startswith("fails"):
            sys.exit("out of luck")
        if arguments[1].startswith("is killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        trained += 1
        sys.stdout.flush()
        send("finished")
        line = sys.stdin.readline()
        if not line:
            break
        arguments = ["", *json.loads(line)]
    """


def _crews_job(folder: Path, words: str, restarts: int = 0, kind: str = "", **replicas: int) -> Job:
    (folder / "living.py").write_text(textwrap.dedent(LIVING))
    argv = (sys.executable, "-m", "living", words)
    return Job(
        argv=argv, replicas=replicas or {"worker": 2}, restarts=restarts, heartbeat_timeout_seconds=60, kind=kind
    )


def _ran(printed: str) -> list[list[str]]:
    """Words, number of trainings before in that process, and its number, by worker."""
    return [line.partition("] ")[2].rsplit(" ", 2) for line in sorted(printed.splitlines())]


def test_a_crew_lives_on_from_one_job_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], children: Children
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pids = []
    with contextlib.closing(ProcessPool(lives_on=True)) as crew:
        for number, words in enumerate(("first", "second", "third")):
            crew.run(_crews_job(tmp_path, words), lambda *_: None)
            ran = _ran(capfd.readouterr().out)
            assert [line[:2] for line in ran] == [[words, str(number)]] * 2
            pids.append([pid for *_, pid in ran])
        assert pids[0] == pids[1] == pids[2]
        assert len(children()) == 2
    assert not children()


@pytest.mark.parametrize(
    ("words", "error"),
    [("fails", r"^worker [01] ended with exit code 1: out of luck$"), ("is killed", r"was killed by SIGKILL")],
)
def test_after_a_job_that_failed_a_crew_is_another(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: str,
    error: str,
    children: Children,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with contextlib.closing(ProcessPool(lives_on=True)) as crew:
        crew.run(_crews_job(tmp_path, "first"), lambda *_: None)
        with pytest.raises((TrainingError, RetryableError), match=error):
            crew.run(_crews_job(tmp_path, words), lambda *_: None)
        assert not children()
        capfd.readouterr()
        crew.run(_crews_job(tmp_path, "next"), lambda *_: None)
        assert [line[:2] for line in _ran(capfd.readouterr().out)] == [["next", "0"]] * 2


def test_a_crew_of_which_one_died_in_between_or_of_another_kind_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], children: Children
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with contextlib.closing(ProcessPool(lives_on=True)) as crew:
        crew.run(_crews_job(tmp_path, "first"), lambda *_: None)
        (child, _) = children()
        child.kill()
        psutil.wait_procs([child])
        for job, count in (
            (_crews_job(tmp_path, "second"), 2),
            (_crews_job(tmp_path, "third", kind="other"), 2),
            (_crews_job(tmp_path, "fourth", kind="other", worker=1), 1),
        ):
            capfd.readouterr()
            crew.run(job, lambda *_: None)
            assert [trained for _, trained, _ in _ran(capfd.readouterr().out)] == ["0"] * count
            assert len(children()) == count


def _run_roles(program: str, tmp_path: Path, restarts: int, **replicas: int) -> None:
    """Run a program as every process of a job whose workers are started alone; it finds its role, and a folder."""
    begin = "import json, os, pathlib, signal, sys, time\nrole = json.loads(os.environ['TF_CONFIG'])['task']['type']\n"
    place = f"folder = pathlib.Path({str(tmp_path)!r})\n"
    argv = (sys.executable, "-c", begin + place + textwrap.dedent(program))
    job = Job(argv, replicas, restarts, 60, ignore_exit=("worker", "evaluator"), restart_individually=("worker",))
    run_processes(job, lambda *_: None)


def test_a_process_that_is_started_alone_leaves_the_others_as_they_are(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the address at which it was."""
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
        "worker 0 was killed by SIGKILL; starting worker 0 again (1 of 1)"
    ]


def test_what_is_started_alone_counts_as_a_restart(tmp_path: Path, children: Children) -> None:
    program = """
    if role == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
    """
    with pytest.raises(RetryableError, match=r"^worker 0 was killed by SIGKILL, after 2 restarts$"):
        _run_roles(program, tmp_path, 2, chief=1, worker=1)
    assert not children()


def test_those_that_end_with_others_get_time_for_it(
    tmp_path: Path, children: Children, capfd: pytest.CaptureFixture[str]
) -> None:
    program = """
    if role == "chief":
        (folder / "over").touch()
        sys.exit()
    while not (folder / "over").exists():
        time.sleep(0.01)
    print("said in the end", flush=True)
    """
    _run_roles(program, tmp_path, 0, chief=1, evaluator=1)
    assert capfd.readouterr().out == "[evaluator 0] said in the end\n"
    assert not children()


def test_the_ports_of_a_job_all_differ(capfd: pytest.CaptureFixture[str]) -> None:
    program = """
    import json, os, sys
    addresses = sum(json.loads(os.environ["TF_CONFIG"])["cluster"].values(), [])
    print(*(address.split(":")[1] for address in addresses), sys.argv[2])
    """
    argv = (sys.executable, "-c", textwrap.dedent(program))
    run_processes(Job(argv, {"worker": 8}, 0, 60, port_flags=("--profiler-port",)), lambda *_: None)
    lines = [line.split("] ")[1].split() for line in capfd.readouterr().out.splitlines()]
    assert len({port for ports in lines for port in ports}) == 16
