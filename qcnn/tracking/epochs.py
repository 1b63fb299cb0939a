"""Epochs to send, from the events of a training process and from its history file."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from qcnn.errors import ArtifactError
from qcnn.model.checkpoints import FOLDER, load_latest
from qcnn.model.history import EpochMetrics

# Events that are stored while the server does not respond. The history file has all epochs.
_MAX_EVENTS = 10_000


@dataclasses.dataclass(frozen=True)
class TimedEpoch:
    """Epoch, and the training time at its end in seconds, which does not depend on pauses of the run."""

    metrics: EpochMetrics
    seconds: float


class Epochs:
    """Epochs of a training folder in order, each once.

    Args:
        training: Training folder.
    """

    def __init__(self, training: Path) -> None:
        self._training = training
        self._events: dict[int, EpochMetrics] = {}
        self._last, self._seconds = 0, 0.0

    def add(self, epoch: EpochMetrics) -> None:
        """Add the epoch of an event. An epoch that was trained again after a restart has the same losses."""
        if epoch.epoch > self._last and len(self._events) < _MAX_EVENTS:
            self._events[epoch.epoch] = epoch

    def take(self, *, is_complete: bool = False) -> Iterator[TimedEpoch]:
        """Yield the next epochs.

        Args:
            is_complete: Whether training has ended, so that the file has epochs whose events were dropped.
        """
        yield from self._take_events()
        if is_complete or self._events:
            yield from self._take(self._stored()[self._last :])
            yield from self._take_events()

    def _take_events(self) -> Iterator[TimedEpoch]:
        while self._last + 1 in self._events:
            yield from self._take([self._events.pop(self._last + 1)])
        self._events = {number: epoch for number, epoch in self._events.items() if number > self._last}

    def _take(self, epochs: Sequence[EpochMetrics]) -> Iterator[TimedEpoch]:
        for epoch in epochs:
            self._last, self._seconds = epoch.epoch, self._seconds + epoch.seconds
            yield TimedEpoch(epoch, self._seconds)

    def _stored(self) -> tuple[EpochMetrics, ...]:
        """Return the epochs of the newest checkpoint, which has none of the run while initializations are tried."""
        # A checkpoint may be replaced while it is read, and the run may have none.
        with contextlib.suppress(ArtifactError):
            saved = load_latest(self._training / FOLDER)
            return saved.history if saved and not saved.is_undecided else ()
        return ()
