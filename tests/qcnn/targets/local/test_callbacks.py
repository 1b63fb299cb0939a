"""Order and number of calls of callbacks, and their answers to training processes."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from qcnn.model.history import EpochMetrics
from qcnn.targets.local.callbacks import CallbackError, EpochCallbacks

METRICS = EpochMetrics(1, 0.5, None, 0.25, None, 0.1)


def _event(number: int) -> dict[str, Any]:
    """Return the event of an epoch of a regression, which has no accuracies."""
    values = dataclasses.asdict(dataclasses.replace(METRICS, epoch=number))
    measured = {name: value for name, value in values.items() if value is not None}
    return {"event": "epoch", "epochs": 9, "samples_per_second": 1.0, "seconds_left": 1.0, **measured}


def _stops(result: object, at: int) -> EpochCallbacks:
    """Return callbacks, of which one returns a value after an epoch."""
    return EpochCallbacks([lambda epoch: result if epoch.epoch == at else None])


def test_callbacks_get_metrics_of_each_epoch_once() -> None:
    seen: list[EpochMetrics] = []
    callbacks = EpochCallbacks([seen.append, seen.append])
    for number in (1, 2, 1, 2, 3):
        callbacks.report(_event(number))
        callbacks.report({"event": "state", "state": "training"})
        assert callbacks.should_stop(number) is False
    assert seen == [dataclasses.replace(METRICS, epoch=number) for number in (1, 1, 2, 2, 3, 3)]


def test_answer_is_unknown_before_epoch_is_reported() -> None:
    callbacks = _stops(True, 1)
    assert callbacks.should_stop(1) is None
    callbacks.report(_event(1))
    assert callbacks.should_stop(1) is True
    assert callbacks.should_stop(2) is None


@pytest.mark.parametrize(
    ("result", "stops"), [(True, True), (np.True_, True), (False, False), (1, False), ("yes", False), (None, False)]
)
def test_only_true_stops(result: object, stops: bool) -> None:
    callbacks = _stops(result, 1)
    callbacks.report(_event(1))
    assert callbacks.should_stop(1) is stops


def test_epochs_before_the_stop_continue_after_restart() -> None:
    callbacks = _stops(True, 2)
    callbacks.report(_event(1))
    callbacks.report(_event(2))
    assert [callbacks.should_stop(number) for number in (1, 2)] == [False, True]


def test_all_functions_are_called_after_one_stops() -> None:
    called: list[int] = []
    callbacks = EpochCallbacks([lambda _: True, lambda epoch: called.append(epoch.epoch)])
    callbacks.report(_event(1))
    assert callbacks.should_stop(1) is True
    assert called == [1]


def test_error_of_function_is_kept() -> None:
    error = ValueError("mine")

    def fail(_: EpochMetrics) -> None:
        raise error

    callbacks = EpochCallbacks([fail])
    callbacks.report(_event(1))
    with pytest.raises(CallbackError, match=r"^a callback has raised ValueError: mine$") as caught:
        callbacks.should_stop(1)
    assert caught.value.error is error
