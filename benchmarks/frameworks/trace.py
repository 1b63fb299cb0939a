"""Input and output files of training runs to the MSE lower bound, in NumPy format.

Both environments read these files.
"""

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_COLUMNS = ("seconds", "cpu_seconds", "undecided")


class BenchmarkTask(NamedTuple):
    """Training run as NumPy arrays.

    Attributes:
        model: "hybrid" or "deep".
        qubits: Number of qubits.
        batch_size: Batch size.
        trial_epochs: Epochs to train each of several initializations before the best continues.
        centered: Whether the readouts are centered.
        order: Sample order of each epoch (epochs, samples).
        rates: Learning rates (updates,).
        train: Training samples, with the columns of `network.Batch`.
        validation: Validation samples, with the same columns.
        weights: Initial weights, each with shape (initializations, ...).
    """

    model: str
    qubits: int
    batch_size: int
    trial_epochs: int
    centered: bool
    order: Array
    rates: Array
    train: tuple[Array, ...]
    validation: tuple[Array, ...]
    weights: tuple[Array, ...]

    @property
    def initializations(self) -> int:
        """Number of initializations."""
        return len(self.weights[0])


def save_task(task: BenchmarkTask, path: Path) -> None:
    """Write a task to an npz file."""
    values = task._asdict()
    groups = {name: value for name, value in values.items() if isinstance(value, tuple)}
    plain: dict[str, Any] = {name: np.asarray(value) for name, value in values.items() if name not in groups}
    columns: dict[str, Any] = {
        f"{name} {index}": array for name, group in groups.items() for index, array in enumerate(group)
    }
    np.savez(path, **plain, **columns)


def load_task(path: Path) -> BenchmarkTask:
    """Read a file of `save_task`."""
    values: dict[str, Any] = {}
    with np.load(path) as arrays:
        # Arrays are listed in the order in which they were written.
        for name in arrays.files:
            array = arrays[name]
            group, _, index = name.partition(" ")
            if index:
                values[group] = (*values.get(group, ()), array)
            else:
                values[name] = array if array.ndim else array.item()
    return BenchmarkTask(**values)


class EpochSnapshot(NamedTuple):
    """State at the end of an epoch.

    Attributes:
        seconds: Wall-clock seconds since the start of the process.
        cpu_seconds: User and system CPU seconds of the process.
        undecided: Whether several initializations are still being compared.
        weights: Weights, float64, in the order of the trainable variables of the model.
    """

    seconds: float
    cpu_seconds: float
    undecided: bool
    weights: Sequence[Array]


class TrainingTrace:
    """Snapshots of the epochs of the current process.

    Args:
        started: Start time of the process on the monotonic clock.
        limit: Time limit in seconds.
    """

    def __init__(self, started: float, limit: float) -> None:
        self._started, self._limit = started, limit
        self._snapshots: list[EpochSnapshot] = []

    @property
    def is_over(self) -> bool:
        """Whether the last epoch ended after the time limit."""
        return bool(self._snapshots) and self._snapshots[-1].seconds > self._limit

    def record(self, weights: Iterable[npt.ArrayLike], *, undecided: bool) -> None:
        """Add a snapshot at the end of an epoch. Converting the weights waits for their computation."""
        arrays = tuple(np.array(values) for values in weights)
        self._snapshots.append(EpochSnapshot(time.monotonic() - self._started, time.process_time(), undecided, arrays))

    def save(self, path: Path) -> None:
        """Write all snapshots to an npz file."""
        *columns, weights = zip(*self._snapshots, strict=True)
        arrays: dict[str, Any] = dict(zip(_COLUMNS, map(np.array, columns), strict=True))
        for index, values in enumerate(zip(*weights, strict=True)):
            arrays[f"weights {index}"] = np.stack(values)
        np.savez(path, **arrays)


def load_trace(path: Path) -> Sequence[EpochSnapshot]:
    """Read a file of `TrainingTrace.save`."""
    with np.load(path) as arrays:
        seconds, cpu_seconds, undecided = (arrays[name].tolist() for name in _COLUMNS)
        weights = [arrays[name].astype(np.float64) for name in arrays.files if name not in _COLUMNS]
    return list(map(EpochSnapshot, seconds, cpu_seconds, undecided, zip(*weights, strict=True)))


def parser() -> argparse.ArgumentParser:
    """Return a parser of the arguments that all training processes accept."""
    arguments = argparse.ArgumentParser(description="Train, and record the end of each epoch.")
    arguments.add_argument("task", type=Path, help="File with the task or experiment.")
    arguments.add_argument("trace", type=Path, help="Output file for the snapshots of the epochs.")
    arguments.add_argument("started", type=float, help="Start time of the process on the monotonic clock.")
    arguments.add_argument("limit", type=float, help="Seconds after which no further epoch starts.")
    return arguments
