"""Training survives: whatever is killed at whatever moment, starting again ends with the very same weights.

`make test-long` runs five of the moments; `make test-faults` runs all.
"""

import contextlib
import dataclasses
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from trainer import data
from trainer.config import ExperimentConfig, from_mapping
from trainer.training import checkpoints
from trainer.training.checkpoints import Checkpoint

EPOCHS = 25
CONFIG = from_mapping({"qubits": 4, "rounds": 10, "epochs": EPOCHS, "batch_size": 8, "options": {"restarts": 1}})
VICTIMS = ("worker 0", "worker 1", "launcher", "everything")
PHASES = ("start-up", "epoch", "checkpoint")


@dataclasses.dataclass(frozen=True)
class Moment:
    """What is killed when, drawn with a fixed seed."""

    seed: int
    victim: str
    phase: str
    delay: float
    epoch: int

    @classmethod
    def draw(cls, seed: int) -> "Moment":
        dice = random.Random(seed)
        # Every pair of victim and phase comes twice in 24 moments.
        victim, phase = VICTIMS[seed % 4], PHASES[seed // 4 % 3]
        delay = dice.uniform(0, 4) if phase == "start-up" else dice.uniform(0, 0.04)
        return cls(seed, victim, phase, delay, dice.randrange(1, EPOCHS - 5))

    def __str__(self) -> str:
        return f"{self.seed}: {self.victim}, {self.phase}".replace(" ", "-")


# One of each victim, all phases among them.
ALWAYS = (0, 5, 10, 7, 8)
MOMENTS = [
    pytest.param(moment, id=str(moment), marks=() if moment.seed in ALWAYS else pytest.mark.faults)
    for moment in map(Moment.draw, range(24))
]


class Launcher:
    """The train step as a process of its own, in a session of its own."""

    def __init__(self, folder: Path, config: ExperimentConfig) -> None:
        arguments = [config.to_json(), *(str(folder / name) for name in ("dataset", "training", "logs"))]
        program = f"""
        from components.train.local.step import train
        train(*{arguments!r})
        """
        self._popen = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        self.output = ""

    def read_until(self, pattern: str) -> None:
        assert self._popen.stdout
        for line in self._popen.stdout:
            self.output += line
            if re.search(pattern, line):
                return
        raise AssertionError(f"{pattern} never came:\n{self.output}")

    def workers(self) -> dict[str, psutil.Process]:
        """The worker processes by name."""
        found = {}
        for process in psutil.Process(self._popen.pid).children():
            # One that has just been forked, or has just ended, has no such environment.
            with contextlib.suppress(psutil.Error, KeyError):
                task = json.loads(process.environ()["TF_CONFIG"])["task"]
                found[f"{task['type']} {task['index']}"] = process
        return found

    def kill(self, victim: str) -> None:
        if victim == "everything":
            os.killpg(self._popen.pid, signal.SIGKILL)
        elif victim == "launcher":
            self._popen.kill()
        else:
            self.workers()[victim].kill()

    def finish(self) -> int:
        """Read to the end; return the exit code."""
        assert self._popen.stdout
        if not self._popen.stdout.closed:
            with self._popen:
                self.output += self._popen.stdout.read()
        return self._popen.returncode


@contextlib.contextmanager
def _launched(folder: Path, config: ExperimentConfig = CONFIG) -> Iterator[Launcher]:
    launcher = Launcher(folder, config)
    session = launcher._popen.pid
    try:
        yield launcher
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)
        launcher.finish()


def _folder(folder: Path) -> Path:
    data.save(data.generate(CONFIG), folder / "dataset")
    return folder


def _checkpoint(folder: Path) -> Checkpoint:
    checkpoint = checkpoints.load_latest(folder / "training" / checkpoints.FOLDER)
    assert checkpoint
    return checkpoint


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = _folder(tmp_path_factory.mktemp("undisturbed"))
    with _launched(folder) as launcher:
        assert launcher.finish() == 0, launcher.output
    return _checkpoint(folder)


def _assert_same(checkpoint: Checkpoint, undisturbed: Checkpoint) -> None:
    losses = [[(e.epoch, e.train_loss, e.val_loss) for e in run.history] for run in (checkpoint, undisturbed)]
    assert losses[0] == losses[1]
    for one, other in zip(
        checkpoint.line.weights + checkpoint.line.optimizer,
        undisturbed.line.weights + undisturbed.line.optimizer,
        strict=True,
    ):
        assert np.array_equal(one, other)


def _wait_for(moment: Moment, launcher: Launcher, folder: Path) -> int:
    """Let training come to the moment; return the epochs that were reported by then."""
    if moment.phase == "start-up":
        end = time.monotonic() + moment.delay
        while time.monotonic() < end:
            pass
        # A worker can only be killed once it is there.
        while len(launcher.workers()) < 2:
            pass
        return 0
    launcher.read_until(rf"epoch {moment.epoch}/")
    if moment.phase == "checkpoint":
        while not list((folder / "training" / checkpoints.FOLDER).glob(".unfinished-*")):
            pass
        return moment.epoch
    end = time.monotonic() + moment.delay
    while time.monotonic() < end:
        pass
    return moment.epoch


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_it_ends_with_the_same_weights(
    tmp_path: Path, undisturbed: Checkpoint, moment: Moment
) -> None:
    folder = _folder(tmp_path)
    with _launched(folder) as launcher:
        reported = _wait_for(moment, launcher, folder)
        launcher.kill(moment.victim)
        exit_code = launcher.finish()
        output = launcher.output
    if moment.victim.startswith("worker"):
        assert exit_code == 0, output
        assert f"{moment.victim} was killed by SIGKILL; starting all workers again (1 of 1)" in output
    else:
        assert exit_code == -signal.SIGKILL
        with _launched(folder) as launcher:
            assert launcher.finish() == 0, launcher.output
            output = launcher.output
    continued = [int(epoch) for epoch in re.findall(r"continuing after epoch (\d+)", output)]
    assert max(continued, default=0) >= reported - 1
    _assert_same(_checkpoint(folder), undisturbed)
    assert not list(folder.rglob(".unfinished-*"))


@pytest.mark.long
def test_a_worker_that_hangs_is_noticed_and_replaced(tmp_path: Path, undisturbed: Checkpoint) -> None:
    options = CONFIG.options.model_copy(update={"hang_seconds": 20.0})
    with _launched(_folder(tmp_path), CONFIG.model_copy(update={"options": options})) as launcher:
        launcher.read_until("epoch 3/")
        launcher.workers()["worker 1"].suspend()
        assert launcher.finish() == 0, launcher.output
    # TensorFlow's own heartbeat may notice before ours does; both name the worker.
    noticed = r"(worker 1 gave no sign of life for 20 s|lost worker 1: .*); starting all workers again \(1 of 1\)"
    assert re.search(noticed, launcher.output)
    _assert_same(_checkpoint(tmp_path), undisturbed)


@pytest.mark.long
def test_a_port_taken_between_choosing_and_binding_is_replaced(tmp_path: Path, undisturbed: Checkpoint) -> None:
    program = """
    import socket, sys
    from launchers.local import run
    from components.train.local.step import train
    write, taken = run.tf_config, []
    def write_then_lose(addresses, role, index):
        if not taken:
            host, port = addresses["worker"][0].split(":")
            taken.append(socket.create_server((host, int(port))))
        return write(addresses, role, index)
    run.tf_config = write_then_lose
    train(*sys.argv[1:])
    """
    folders = [str(path) for path in (_folder(tmp_path) / "dataset", tmp_path / "training", tmp_path / "logs")]
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), CONFIG.to_json(), *folders],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.search(r"cannot listen on this worker's address; is it taken\? Given: 127.0.0.1:\d+", finished.stdout)
    _assert_same(_checkpoint(tmp_path), undisturbed)
