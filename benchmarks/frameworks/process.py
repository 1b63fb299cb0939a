"""What every peer's process does: read its arguments, train a few steps, print one JSON line."""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.frameworks.network import Batch, Task

CHECKED_SAMPLES = 4
_SECONDS = 1.0
_MAX_REPEATS = 200
# Enough to tell whether two processes train the same network in the same way.
_LOSSES = 6


class Peer(Protocol):
    """A network under training."""

    def prepare(self, batch: Batch) -> Any:
        """Return a batch as the library wants it; not measured."""

    def step(self, prepared: Any) -> float:
        """Train on a batch: forward, gradient and Adam, all finished on return. Return the loss before the update."""

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return the readouts (batch, readouts) and the gradient of the loss in every weight."""


def parser() -> argparse.ArgumentParser:
    """Return the arguments that all processes take."""
    arguments = argparse.ArgumentParser(description="Measure a training step; prints one JSON line.")
    arguments.add_argument("model", choices=("hybrid", "deep"))
    arguments.add_argument("qubits", type=int)
    arguments.add_argument("--batch", type=int, default=32)
    arguments.add_argument("--repeats", type=int, default=5, help="steps to measure, at least")
    arguments.add_argument("--check", action="store_true", help="print readouts and gradients of a few samples instead")
    return arguments


def run(name: str, arguments: argparse.Namespace, create: Callable[[Task], Peer]) -> None:
    """Measure a peer, or print what it computes, as the arguments say."""
    if arguments.check:
        _check(name, Task(arguments.model, arguments.qubits, CHECKED_SAMPLES), create)
    else:
        _measure(name, Task(arguments.model, arguments.qubits, arguments.batch), create, arguments.repeats)


def goes_on(seconds: Sequence[float], repeats: int) -> bool:
    """Whether to measure once more: short steps are repeated for a second, because five of them say little."""
    return len(seconds) < repeats or (sum(seconds) < _SECONDS and len(seconds) < _MAX_REPEATS)


def _check(name: str, task: Task, create: Callable[[Task], Peer]) -> None:
    peer = create(task)
    readouts, gradients = peer.gradients(peer.prepare(task.batch(0)))
    listed = [np.asarray(gradient).tolist() for gradient in gradients]
    _report(name, task, readouts=np.asarray(readouts).tolist(), gradients=listed)


def _measure(name: str, task: Task, create: Callable[[Task], Peer], repeats: int) -> None:
    start = time.perf_counter()
    peer = create(task)
    built = time.perf_counter() - start
    seconds: list[float] = []
    losses: list[float] = []

    def step() -> float:
        prepared = peer.prepare(task.batch(len(losses)))
        start = time.perf_counter()
        losses.append(peer.step(prepared))
        return time.perf_counter() - start

    # Building counts: a user waits for it too.
    first = built + step()
    while goes_on(seconds, repeats):
        seconds.append(step())
    measured(name, task, first, seconds, losses)


def measured(name: str, task: Task, compile_seconds: float, step_seconds: list[float], losses: list[float]) -> None:
    """Print what was measured."""
    _report(
        name,
        task,
        compile_seconds=compile_seconds,
        step_seconds=step_seconds,
        median_step_seconds=statistics.median(step_seconds),
        loss_first_step=losses[0],
        losses=losses[:_LOSSES],
    )


def _report(name: str, task: Task, **values: Any) -> None:
    """Print one JSON line."""
    described = {"peer": name, "model": task.model, "qubits": task.qubits, "batch": task.batch_size}
    print(json.dumps({**described, **values}))
