"""Process of a framework: parse arguments, train for a few steps, and print one line of JSON."""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.frameworks.network import StepTask

CHECKED_SAMPLES = 4
_SECONDS = 1.0
_MAX_REPEATS = 200
# Number of losses in the result, which show whether two frameworks train the same network.
_LOSSES = 6


class Framework(Protocol):
    """Network in a framework, with its optimizer."""

    def prepare(self, batch: Any) -> Any:
        """Convert a batch of the task to the input format of the framework, which is not measured."""

    def step(self, prepared: Any) -> float:
        """Train on a batch, and return the loss before the update.

        Forward pass, gradient and Adam update are complete when the method returns.
        """

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return the readouts (batch, readouts) and the gradients of the loss with respect to all weights."""


def parser(*, features: bool = False) -> argparse.ArgumentParser:
    """Return a parser of the arguments that all processes accept.

    Args:
        features: Whether the framework also trains on samples with one feature per qubit, on states and on classes.
    """
    arguments = argparse.ArgumentParser(description="Measure a training step. Prints one line of JSON.")
    arguments.add_argument("model", choices=("hybrid", "deep", "layers", "reuploading"))
    arguments.add_argument("qubits", type=int)
    arguments.add_argument("--batch", type=int, default=32)
    arguments.add_argument("--repeats", type=int, default=5, help="Minimum number of steps to measure.")
    arguments.set_defaults(features=False, amplitudes=False, classes=0)
    if features:
        arguments.add_argument("--features", action="store_true", help="Samples have one feature per qubit.")
        arguments.add_argument("--amplitudes", action="store_true", help="Samples are states.")
        arguments.add_argument("--classes", type=int, default=0, help="Number of classes. 0: regression on signs.")
    arguments.add_argument(
        "--check", action="store_true", help="Print readouts and gradients of a few samples instead."
    )
    return arguments


def run(name: str, arguments: argparse.Namespace, create: Callable[[StepTask], Framework]) -> None:
    """Measure a framework, or print its readouts and gradients if `--check` is set.

    Args:
        name: Name of the framework in the result.
        arguments: Arguments of `parser`.
        create: Function that creates the network of a task.
    """
    task = task_of(arguments)
    if arguments.check:
        _check(name, task, create)
    else:
        _measure(name, task, create, arguments.repeats)


def task_of(arguments: argparse.Namespace) -> StepTask:
    """Return the task of the arguments of `parser`."""
    size = CHECKED_SAMPLES if arguments.check else arguments.batch
    samples = {"features": arguments.features, "amplitudes": arguments.amplitudes}
    return StepTask(arguments.model, arguments.qubits, size, **samples, classes=arguments.classes)


def should_repeat(seconds: Sequence[float], repeats: int) -> bool:
    """Return whether to measure another step.

    Short steps are repeated for a second, for a reliable median.
    """
    return len(seconds) < repeats or (sum(seconds) < _SECONDS and len(seconds) < _MAX_REPEATS)


def repeat(step: Callable[[], object], repeats: int) -> list[float]:
    """Run a step as often as `should_repeat` says, and return the seconds of each run."""
    seconds: list[float] = []
    while should_repeat(seconds, repeats):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def _check(name: str, task: StepTask, create: Callable[[StepTask], Framework]) -> None:
    framework = create(task)
    readouts, gradients = framework.gradients(framework.prepare(task.samples(0)))
    listed = [np.asarray(gradient).tolist() for gradient in gradients]
    _report(name, task, readouts=np.asarray(readouts).tolist(), gradients=listed)


def _measure(name: str, task: StepTask, create: Callable[[StepTask], Framework], repeats: int) -> None:
    start = time.perf_counter()
    framework = create(task)
    built = time.perf_counter() - start
    seconds: list[float] = []
    losses: list[float] = []

    def step() -> float:
        prepared = framework.prepare(task.samples(len(losses)))
        start = time.perf_counter()
        losses.append(framework.step(prepared))
        return time.perf_counter() - start

    # Includes the construction of the network, which also delays the first result.
    first = built + step()
    since_start = seconds_since_start()
    while should_repeat(seconds, repeats):
        seconds.append(step())
    report_steps(name, task, first, since_start, seconds, losses)


def seconds_since_start() -> float:
    """Return the seconds since this process was started (Linux)."""
    # Field 22 of proc_pid_stat(5), starttime. The name of the program before it may have spaces.
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def report_steps(
    name: str,
    task: StepTask,
    compile_seconds: float,
    first_seconds: float,
    step_seconds: list[float],
    losses: list[float],
) -> None:
    """Print the measured steps as one line of JSON.

    Args:
        name: Name of the framework.
        task: Network and batches.
        compile_seconds: Seconds to the end of the first step, without the start of the process and imports.
        first_seconds: Seconds from the start of the process to the end of the first step.
        step_seconds: Seconds of the other steps.
        losses: Losses of all steps, in order.
    """
    _report(
        name,
        task,
        compile_seconds=compile_seconds,
        first_seconds=first_seconds,
        step_seconds=step_seconds,
        median_step_seconds=statistics.median(step_seconds),
        loss_first_step=losses[0],
        losses=losses[:_LOSSES],
    )


def _report(name: str, task: StepTask, **values: Any) -> None:
    """Print one line of JSON."""
    header = {"framework": name, "model": task.model, "qubits": task.qubits, "batch": task.batch_size}
    print(json.dumps({**header, **values}))
