"""Functions of the user that a local run calls after each epoch, in the thread that has started the run."""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from qcnn.errors import QcnnError, single_line
from qcnn.model.history import EpochMetrics

# Called with the metrics of an epoch. Training stops after this epoch if it returns True.
EpochCallback: TypeAlias = Callable[[EpochMetrics], object]

_FIELDS = dataclasses.fields(EpochMetrics)


class CallbackError(QcnnError):
    """Error with the exception of a callback, which would be translated itself, for example that of a missing library.

    Attributes:
        error: Exception of the callback.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(f"a callback has raised {type(error).__name__}: {single_line(error)}")
        self.error = error


class EpochCallbacks:
    """Callbacks of a run, which are called once for each epoch of its history.

    Epochs that are trained again after a restart are not reported again. Their losses are the same.
    """

    def __init__(self, functions: Sequence[EpochCallback]) -> None:
        self._functions = functions
        self._reported: collections.deque[Mapping[str, Any]] = collections.deque()
        # Last epoch for which they were called, and the first one after which training stops.
        self._last_epoch = 0
        self._stopped_at: int | None = None

    def __bool__(self) -> bool:
        return bool(self._functions)

    def report(self, event: Mapping[str, Any]) -> None:
        """Store an event of a training process until `should_stop` handles it."""
        if event["event"] == "epoch":
            self._reported.append(event)

    def should_stop(self, epoch: int) -> bool | None:
        """Call the functions for all reported epochs, and return whether training stops after an epoch.

        Args:
            epoch: Number of the epoch after which a process waits.

        Returns:
            None if the chief has not reported the epoch yet.

        Raises:
            CallbackError: If a function raises an exception.
        """
        while self._reported:
            self._call(self._reported.popleft())
        if epoch > self._last_epoch:
            return None
        return self._stopped_at is not None and epoch >= self._stopped_at

    def _call(self, event: Mapping[str, Any]) -> None:
        if event["epoch"] <= self._last_epoch:
            return
        # A regression has no accuracies.
        values: dict[str, Any] = {field.name: event.get(field.name) for field in _FIELDS}
        metrics = EpochMetrics(**values)
        try:
            # All functions are called, also after one that stops training.
            results = [function(metrics) for function in self._functions]
        except Exception as error:
            raise CallbackError(error) from error
        self._last_epoch = metrics.epoch
        # Functions may return other objects, such as a response of a tracking server.
        if self._stopped_at is None and any(isinstance(each, bool | np.bool) and each for each in results):
            self._stopped_at = metrics.epoch
