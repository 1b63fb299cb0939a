"""What trainings to the floor are given, and what they leave behind: files of NumPy, which either environment reads."""

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_COLUMNS = ("seconds", "processor", "undecided")


class Exercise(NamedTuple):
    """A training as plain data.

    Columns of samples are those of `network.Batch`; `order` (epochs, samples) is that of each epoch, `rates` (updates,)
    the learning rates, and `weights` the initial ones, (starts, ...) each. Of several starts each is tried for `trial`
    epochs.
    """

    model: str
    qubits: int
    batch_size: int
    trial: int
    centred: bool
    order: Array
    rates: Array
    train: tuple[Array, ...]
    validation: tuple[Array, ...]
    weights: tuple[Array, ...]

    @property
    def starts(self) -> int:
        """Initial weights to start from."""
        return len(self.weights[0])


def save_exercise(exercise: Exercise, path: Path) -> None:
    """Write an exercise into one file."""
    values = exercise._asdict()
    groups = {name: value for name, value in values.items() if isinstance(value, tuple)}
    plain = {name: np.asarray(value) for name, value in values.items() if name not in groups}
    columns = {f"{name} {index}": array for name, group in groups.items() for index, array in enumerate(group)}
    np.savez(path, **plain, **columns)


def load_exercise(path: Path) -> Exercise:
    """Read what `save_exercise` wrote."""
    values: dict[str, Any] = {}
    with np.load(path) as arrays:
        # In the order in which they were written.
        for name in arrays.files:
            array = arrays[name]
            group, _, index = name.partition(" ")
            if index:
                values[group] = (*values.get(group, ()), array)
            else:
                values[name] = array if array.ndim else array.item()
    return Exercise(**values)


class Moment(NamedTuple):
    """The end of an epoch.

    `seconds` since the process was started, and of its `processor`, user and system; whether it was still `undecided`
    which start goes on; the weights, float64, in the order of the model's trainable variables.
    """

    seconds: float
    processor: float
    undecided: bool
    weights: Sequence[Array]


class Trace:
    """Notes the ends of epochs of this process, which was `started` at a moment of the monotonic clock."""

    def __init__(self, started: float, limit: float) -> None:
        self._started, self._limit = started, limit
        self._moments: list[Moment] = []

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return bool(self._moments) and self._moments[-1].seconds > self._limit

    def note(self, weights: Iterable[npt.ArrayLike], *, undecided: bool) -> None:
        """Note the end of an epoch, once its weights are there."""
        kept = tuple(np.array(values) for values in weights)
        self._moments.append(Moment(time.monotonic() - self._started, time.process_time(), undecided, kept))

    def save(self, path: Path) -> None:
        """Write all moments into one file."""
        *columns, weights = zip(*self._moments, strict=True)
        stacked = {f"weights {index}": np.stack(values) for index, values in enumerate(zip(*weights, strict=True))}
        np.savez(path, **dict(zip(_COLUMNS, map(np.array, columns), strict=True)), **stacked)


def load_trace(path: Path) -> Sequence[Moment]:
    """Read what `Trace.save` wrote."""
    with np.load(path) as arrays:
        seconds, processor, undecided = (arrays[name].tolist() for name in _COLUMNS)
        weights = [arrays[name].astype(np.float64) for name in arrays.files if name not in _COLUMNS]
    return list(map(Moment, seconds, processor, undecided, zip(*weights, strict=True)))


def parser() -> argparse.ArgumentParser:
    """Return the arguments that all these processes take."""
    arguments = argparse.ArgumentParser(description="Train, and note when each epoch ends.")
    arguments.add_argument("exercise", type=Path, help="file that says what to train")
    arguments.add_argument("trace", type=Path, help="file for the ends of the epochs")
    arguments.add_argument("started", type=float, help="when this process was started, by the monotonic clock")
    arguments.add_argument("limit", type=float, help="seconds after which no further epoch begins")
    return arguments
