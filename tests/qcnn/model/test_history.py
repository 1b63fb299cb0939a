import dataclasses
from typing import Any

import numpy as np
import pytest

from qcnn.experiment.parsing import from_mapping
from qcnn.model.history import (
    EpochMetrics,
    Progress,
    describe_search,
    epochs_left,
    epochs_of,
    exported_epoch,
    from_csv,
    history_columns,
    initializations,
    is_complete,
    is_undecided,
    plateau,
    to_csv,
    trial_epochs,
)

HISTORY: tuple[EpochMetrics, ...] = (
    EpochMetrics(1, 1 / 3, 0.5, 0.1, 0.25, 1e-3),
    EpochMetrics(2, 1e-17, 1.0, 2 / 3, 0.75, 12.5),
)


@pytest.mark.parametrize("has_accuracy", [True, False])
@pytest.mark.parametrize("has_staleness", [True, False])
def test_from_csv_returns_written_values_exactly(has_accuracy: bool, has_staleness: bool) -> None:
    history = HISTORY
    if not has_accuracy:
        history = tuple(dataclasses.replace(epoch, train_accuracy=None, val_accuracy=None) for epoch in history)
    if has_staleness:
        history = (history[0], dataclasses.replace(history[1], staleness=0.5, largest_staleness=3))
    columns = history_columns(has_accuracy=has_accuracy, has_staleness=has_staleness)
    assert from_csv(to_csv(history, columns, header=True)) == history
    appended = to_csv(history[:1], columns, header=True) + to_csv(history[1:], columns, header=False)
    assert from_csv(appended) == history


def test_history_columns_have_documented_names() -> None:
    columns = "epoch,train_loss,train_accuracy,val_loss,val_accuracy,seconds"
    assert ",".join(history_columns(has_accuracy=True, has_staleness=False)) == columns
    assert ",".join(history_columns(has_accuracy=True, has_staleness=True)) == f"{columns},staleness,largest_staleness"


def test_progress_has_first_best_and_last_epoch() -> None:
    assert Progress.of(()) == Progress()
    epochs = _epochs((0.9, 0.5), (0.7, 0.3), (0.8, 0.3), (0.75, 0.4))
    progress = Progress.of(epochs)
    assert (progress.epochs, progress.best, progress.last) == (4, epochs[1], epochs[3])
    assert (progress.lowest_val_loss, progress.lowest_train_loss) == (0.3, 0.7)
    assert [exported_epoch(progress, which).epoch for which in ("last", "best", "both")] == [4, 2, 2]


def test_epochs_of_older_rows_have_no_staleness() -> None:
    assert epochs_of([dataclasses.astuple(epoch)[:6] for epoch in HISTORY]) == HISTORY


@pytest.mark.parametrize("values", [0, 5, 7, 9])
def test_epochs_of_wrong_row_length_raises(values: int) -> None:
    with pytest.raises(ValueError, match="zip"):
        epochs_of([(*dataclasses.astuple(HISTORY[0]), 0.5)[:values]])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "epoch,train_loss\n1,0.5\n",
        "epoch,train_loss,train_accuracy,val_loss,val_accuracy,seconds\n1,0.5,0.5",
        "epoch,train_loss,train_accuracy,val_loss,val_accuracy,seconds\n1,a,b,c,d,e\n",
        "epoch,train_loss,train_accuracy,val_loss,val_accuracy,seconds\n1,nan,1,1,1,1\n",
        "epoch,train_loss,train_accuracy,val_loss,val_accuracy,seconds\n2,1,1,1,1,1\n",
    ],
)
def test_from_csv_damaged_raises(content: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        from_csv(content)


def _epochs(*losses: tuple[float, float]) -> list[EpochMetrics]:
    """Return epochs with the given training and validation losses."""
    return [
        EpochMetrics(number, train, 0.5, validation, 0.5, 1.0) for number, (train, validation) in enumerate(losses, 1)
    ]


@pytest.mark.parametrize(
    ("options", "losses", "complete"),
    [
        ({"target_val_loss": "0.3"}, (0.5, 0.31), False),
        ({"target_val_loss": "0.3"}, (0.5, 0.3), True),
        # The MSE lower bound of `hybrid` is 0.1894.
        ({"target_val_loss": "floor+0.02"}, (0.5, 0.2095), False),
        ({"target_val_loss": "floor+0.02"}, (0.5, 0.2093), True),
        ({"target_val_loss": "floor+0.02"}, (0.2, 0.5), True),
        ({"patience": 2}, (0.5, 0.6), False),
        ({"patience": 2}, (0.5, 0.6, 0.7), True),
        ({"patience": 2, "target_val_loss": "0.1"}, (0.5, 0.6, 0.4, 0.5), False),
        ({}, (0.0, 0.0), False),
        ({}, (0.9,) * 10, True),
        ({"target_val_loss": "0.3", "patience": 2}, (), False),
    ],
)
def test_is_complete_by_epochs_target_loss_or_patience(
    options: dict[str, Any], losses: tuple[float, ...], complete: bool
) -> None:
    config = from_mapping({"epochs": 10, "options": options})
    assert is_complete(Progress.of(_epochs(*((0.5, loss) for loss in losses))), config) is complete


def test_plateau_warns_once_with_suggestions() -> None:
    config = from_mapping({"epochs": 20, "options": {"num_initializations": 2}})
    labels = np.array([1, -1] * 8, np.int8)
    flat, improved = _epochs(*[(1.1, 1.0), (0.95, 1.0)] * 2), _epochs((1.1, 1.0), (0.89, 1.0), (1.0, 1.0), (1.0, 1.0))
    warning = plateau(Progress.of(flat), labels, config, lambda: False)
    assert warning
    assert warning.startswith("training has not improved: after 4 epochs the lowest training loss is 0.95, and the ")
    assert "learning_rate (now 0.05)" in warning
    assert "num_initializations (now 2)" in warning
    constant = plateau(Progress.of(flat), labels, config, lambda: True)
    assert constant
    assert constant.endswith("label variance is 1.00; all readouts are equal for all samples; use another circuit")
    for history in (flat[:3], [*flat, *flat[:1]], improved):
        assert plateau(Progress.of(history), labels, config, lambda: False) is None


@pytest.mark.parametrize(
    ("starts", "tried", "has_leader", "undecided"),
    [(1, 0, False, False), (3, 0, False, True), (3, 2, True, True), (3, 3, False, False), (12, 3, False, False)],
)
def test_is_undecided_until_best_initialization_is_selected(
    starts: int, tried: int, has_leader: bool, undecided: bool
) -> None:
    config = from_mapping({"options": {"num_initializations": starts}})
    assert is_undecided(config, tried, has_leader=has_leader) is undecided


@pytest.mark.parametrize(
    ("starts", "done", "tried", "has_leader", "left"),
    [
        (1, 0, 0, False, 95),
        (1, 5, 0, False, 90),
        (3, 0, 0, False, 115),
        (3, 4, 1, True, 101),
        (3, 10, 3, False, 85),
        # 10 of 12 are tried. An earlier version began the twelfth.
        (12, 0, 0, False, 185),
        (12, 4, 11, True, 91),
    ],
)
def test_epochs_left_includes_tried_initializations(
    starts: int, done: int, tried: int, has_leader: bool, left: int
) -> None:
    """An initialization is tried for 10 of 95 epochs."""
    config = from_mapping({"epochs": 95, "options": {"num_initializations": starts}})
    assert epochs_left(config, done, tried, has_leader=has_leader) == left


@pytest.mark.parametrize(
    ("epochs", "given", "text"),
    [
        (50, 1, ""),
        (50, 3, "3 initializations for 5 epochs each"),
        (2, 12, "3 initializations for 1 epoch each (num_initializations 12: no more epochs than training itself)"),
        (72, 12, "10 initializations for 8 epochs each (num_initializations 12: no more epochs than training itself)"),
    ],
)
def test_describe_search_states_number_epochs_and_limit(epochs: int, given: int, text: str) -> None:
    assert describe_search(from_mapping({"epochs": epochs, "options": {"num_initializations": given}})) == text


@pytest.mark.parametrize("given", [1, 2, 12, 1000])
def test_other_initializations_take_at_most_as_long_as_training(given: int) -> None:
    for epochs in range(1, 250):
        config = from_mapping({"epochs": epochs, "options": {"num_initializations": given}})
        others = initializations(config) - 1
        assert others * trial_epochs(config) <= epochs
        # One more would take longer.
        assert others + 1 == given or (others + 1) * trial_epochs(config) > epochs
