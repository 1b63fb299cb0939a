"""Process of a framework: parse arguments, train for a few steps, and print one line of JSON."""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.frameworks.network import Batch, StepTask

CHECKED_SAMPLES = 4
_SECONDS = 1.0
_MAX_REPEATS = 200
# Number of losses in the result, which show whether two frameworks train the same network.
_LOSSES = 6


class Framework(Protocol):
    """Network in a framework, with its optimizer."""

    def prepare(self, batch: Batch) -> Any:
        """Convert a batch to the input format of the framework, which is not measured."""

    def step(self, prepared: Any) -> float:
        """Train on a batch, and return the loss before the update.

        Forward pass, gradient and Adam update are complete when the method returns.
        """

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return the readouts (batch, readouts) and the gradients of the loss with respect to all weights."""


def parser() -> argparse.ArgumentParser:
    """Return a parser of the arguments that all processes accept."""
    arguments = argparse.ArgumentParser(description="Measure a training step. Prints one line of JSON.")
    arguments.add_argument("model", choices=("hybrid", "deep"))
    arguments.add_argument("qubits", type=int)
    arguments.add_argument("--batch", type=int, default=32)
    arguments.add_argument("--repeats", type=int, default=5, help="Minimum number of steps to measure.")
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
    if arguments.check:
        _check(name, StepTask(arguments.model, arguments.qubits, CHECKED_SAMPLES), create)
    else:
        _measure(name, StepTask(arguments.model, arguments.qubits, arguments.batch), create, arguments.repeats)


def should_repeat(seconds: Sequence[float], repeats: int) -> bool:
    """Return whether to measure another step.

    Short steps are repeated for a second, for a reliable median.
    """
    return len(seconds) < repeats or (sum(seconds) < _SECONDS and len(seconds) < _MAX_REPEATS)


def _check(name: str, task: StepTask, create: Callable[[StepTask], Framework]) -> None:
    framework = create(task)
    readouts, gradients = framework.gradients(framework.prepare(task.batch(0)))
    listed = [np.asarray(gradient).tolist() for gradient in gradients]
    _report(name, task, readouts=np.asarray(readouts).tolist(), gradients=listed)


def _measure(name: str, task: StepTask, create: Callable[[StepTask], Framework], repeats: int) -> None:
    start = time.perf_counter()
    framework = create(task)
    built = time.perf_counter() - start
    seconds: list[float] = []
    losses: list[float] = []

    def step() -> float:
        prepared = framework.prepare(task.batch(len(losses)))
        start = time.perf_counter()
        losses.append(framework.step(prepared))
        return time.perf_counter() - start

    # Includes the construction of the network, which also delays the first result.
    first = built + step()
    while should_repeat(seconds, repeats):
        seconds.append(step())
    report_steps(name, task, first, seconds, losses)


def report_steps(
    name: str, task: StepTask, compile_seconds: float, step_seconds: list[float], losses: list[float]
) -> None:
    """Print the measured steps as one line of JSON.

    Args:
        name: Name of the framework.
        task: Network and batches.
        compile_seconds: Seconds to the end of the first step.
        step_seconds: Seconds of the other steps.
        losses: Losses of all steps, in order.
    """
    _report(
        name,
        task,
        compile_seconds=compile_seconds,
        step_seconds=step_seconds,
        median_step_seconds=statistics.median(step_seconds),
        loss_first_step=losses[0],
        losses=losses[:_LOSSES],
    )


def _report(name: str, task: StepTask, **values: Any) -> None:
    """Print one line of JSON."""
    header = {"framework": name, "model": task.model, "qubits": task.qubits, "batch": task.batch_size}
    print(json.dumps({**header, **values}))
