"""Local training jobs in a separate process, and times at which a process is killed."""

import contextlib
import dataclasses
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from qcnn import data
from qcnn.experiment.config import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint

EPOCHS = 25
PHASES = ("start-up", "epoch", "checkpoint")


@dataclasses.dataclass(frozen=True)
class Moment:
    """Process to kill and the time, sampled with a fixed seed."""

    seed: int
    victim: str
    phase: str
    delay: float
    epoch: int

    @classmethod
    def draw(cls, seed: int, victims: Sequence[str]) -> "Moment":
        """Return the moment of a seed. All pairs of victim and phase have equal frequency."""
        generator = random.Random(seed)
        victim, phase = victims[seed % len(victims)], PHASES[seed // len(victims) % 3]
        delay = generator.uniform(0, 4) if phase == "start-up" else generator.uniform(0, 0.04)
        return cls(seed, victim, phase, delay, generator.randrange(1, EPOCHS - 5))

    def __str__(self) -> str:
        return f"{self.seed}: {self.victim}, {self.phase}".replace(" ", "-")


class Launcher:
    """Command that starts the processes of a training job in a new session."""

    def __init__(self, command: Sequence[str], replicas: Mapping[str, int]) -> None:
        self._names = [f"{role} {index}" for role, count in replicas.items() for index in range(count)]
        self._popen = subprocess.Popen(
            command,
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
        raise AssertionError(f"{pattern} was not printed:\n{self.output}")

    def workers(self) -> dict[str, psutil.Process]:
        """Return the training processes by name, in the order in which they were started."""
        found: list[psutil.Process] = []
        # A process may end meanwhile.
        with contextlib.suppress(psutil.Error):
            # The only child is the fork server, once it has started.
            for server in psutil.Process(self._popen.pid).children():
                found += sorted(server.children(), key=lambda process: process.create_time())
        return dict(zip(self._names, found, strict=False))

    @property
    def has_started(self) -> bool:
        """Whether all training processes have started."""
        return len(self.workers()) == len(self._names)

    @property
    def has_ended(self) -> bool:
        """Whether the command has ended."""
        return self._popen.poll() is not None

    def kill(self, victim: str) -> None:
        if victim == "everything":
            os.killpg(self._popen.pid, signal.SIGKILL)
        elif victim == "launcher":
            self._popen.kill()
        else:
            self.workers()[victim].kill()

    def finish(self) -> int:
        """Read the remaining output and return the exit code."""
        assert self._popen.stdout
        if not self._popen.stdout.closed:
            with self._popen:
                self.output += self._popen.stdout.read()
        return self._popen.returncode


def train_step(folder: Path, config: ExperimentConfig) -> list[str]:
    """Return the command of the train step with dataset and outputs in a folder."""
    arguments = [config.to_json(), *(str(folder / name) for name in ("dataset", "training", "logs"))]
    program = f"""
    from qcnn.components.steps.train_local import train
    from qcnn.process.error_lines import one_line_errors
    with one_line_errors():
        train(*{arguments!r})
    """
    return [sys.executable, "-c", textwrap.dedent(program)]


@contextlib.contextmanager
def launched(command: Sequence[str], replicas: Mapping[str, int]) -> Iterator[Launcher]:
    """Context manager that runs a command and kills its processes at the end.

    Args:
        command: Command that trains.
        replicas: Number of its processes by role.
    """
    launcher = Launcher(command, replicas)
    session = launcher._popen.pid
    try:
        yield launcher
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)
        launcher.finish()


def with_dataset(folder: Path, config: ExperimentConfig) -> Path:
    """Write the dataset of an experiment into a folder and return the folder."""
    data.save(data.generate(config), folder / "dataset")
    return folder


def last_checkpoint(folder: Path) -> Checkpoint:
    """Return the last checkpoint in a folder."""
    checkpoint = checkpoints.load_latest(folder / "training" / checkpoints.FOLDER)
    assert checkpoint
    return checkpoint


def wait_for(moment: Moment, launcher: Launcher, folder: Path) -> int:
    """Wait for the moment and return the number of reported epochs."""
    if moment.phase == "start-up":
        time.sleep(moment.delay)
        # All processes must have started before one can be killed.
        while not launcher.has_started:
            assert not launcher.has_ended, "training ended before all processes were seen"
            time.sleep(0.01)
        return 0
    launcher.read_until(rf"epoch {moment.epoch}/")
    if moment.phase == "checkpoint":
        # Without a pause, because a checkpoint is written in milliseconds.
        while not list((folder / "training" / checkpoints.FOLDER).glob(".unfinished-*")):
            assert not launcher.has_ended, "training ended before a checkpoint was seen"
        return moment.epoch
    time.sleep(moment.delay)
    return moment.epoch
