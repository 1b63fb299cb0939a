"""The process launcher, with real processes."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from components.train.job import Job
from components.train.local import run_processes
from trainer.errors import TrainingError


def _job(program: str, **replicas: int) -> Job:
    return Job(argv=(sys.executable, "-c", textwrap.dedent(program)), replicas=replicas)


def test_every_process_gets_its_own_place_in_one_cluster(capfd: pytest.CaptureFixture[str]) -> None:
    program = """
    import json, os
    config = json.loads(os.environ["TF_CONFIG"])
    print(config["task"]["type"], config["task"]["index"], *sorted(sum(config["cluster"].values(), [])))
    """
    run_processes(_job(program, chief=1, worker=2))
    lines = sorted(capfd.readouterr().out.splitlines())
    assert [line.split("] ")[0] for line in lines] == ["[chief 0", "[worker 0", "[worker 1"]
    assert [line.split("] ")[1].split()[:2] for line in lines] == [["chief", "0"], ["worker", "0"], ["worker", "1"]]
    (addresses,) = {tuple(line.split()[4:]) for line in lines}
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_a_single_process_has_no_cluster(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "of the shell around")
    run_processes(_job("import os; print(os.environ.get('TF_CONFIG'))", worker=1))
    assert capfd.readouterr().out == "[worker 0] None\n"


def test_the_first_failure_ends_the_others_and_is_named() -> None:
    program = """
    import json, os, signal, sys
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        signal.pause()
    sys.exit("out of luck")
    """
    with pytest.raises(TrainingError, match=r"^worker 1 ended with exit code 1: out of luck$"):
        run_processes(_job(program, worker=2))
    assert not psutil.Process().children()


def test_a_process_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.train.local._GRACE", 0.2)
    program = """
    import json, os, signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        signal.pause()
    sys.exit(3)
    """
    with pytest.raises(TrainingError, match=r"^worker 1 ended with exit code 3"):
        run_processes(_job(program, worker=2))
    assert not psutil.Process().children()


def test_a_terminated_launcher_leaves_no_process(tmp_path: Path) -> None:
    program = f"""
    import sys
    from components.train.job import Job
    from components.train.local import run_processes
    child = "import signal; print('up', flush=True); signal.pause()"
    run_processes(Job(argv=({sys.executable!r}, "-c", child), replicas={{"worker": 2}}))
    """
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    launcher = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=tmp_path,
    )
    with launcher:
        assert launcher.stdout
        for _ in range(2):
            assert launcher.stdout.readline().endswith(b"up\n")
        children = psutil.Process(launcher.pid).children()
        assert len(children) == 2
        launcher.terminate()
        assert launcher.wait(20) != 0
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
