from pathlib import Path

import pytest

from qcnn import data
from qcnn.experiment.parsing import from_mapping
from qcnn.model.history import EpochMetrics
from qcnn.tracking.epochs import Epochs, TimedEpoch
from tests.shared_training_runs import SMALL, train


def _epoch(number: int) -> EpochMetrics:
    return EpochMetrics(number, 1 / number, None, 2 / number, None, 0.5)


def _numbers(taken: list[TimedEpoch]) -> list[int]:
    return [each.metrics.epoch for each in taken]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training folder of three epochs."""
    folder = tmp_path_factory.mktemp("training")
    config = from_mapping(SMALL)
    train(config, data.generate(config), folder)
    return folder


def test_events_are_taken_once_in_order(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    assert not [*epochs.take()]
    for number in (1, 2):
        epochs.add(_epoch(number))
    assert [(each.metrics.epoch, each.seconds) for each in epochs.take()] == [(1, 0.5), (2, 1.0)]
    # Trained again after a restart.
    for number in (2, 3):
        epochs.add(_epoch(number))
    assert [(each.metrics.epoch, each.seconds) for each in epochs.take()] == [(3, 1.5)]
    assert not [*epochs.take(is_complete=True)]


def test_missing_events_are_read_from_history(training: Path) -> None:
    stored = [*Epochs(training).take(is_complete=True)]
    assert _numbers(stored) == [1, 2, 3]
    assert stored[-1].seconds == pytest.approx(sum(each.metrics.seconds for each in stored))
    # A run that is resumed after its third epoch.
    epochs = Epochs(training)
    assert not [*epochs.take()]
    epochs.add(_epoch(4))
    taken = [*epochs.take()]
    assert _numbers(taken) == [1, 2, 3, 4]
    assert taken[-1].seconds == pytest.approx(stored[-1].seconds + 0.5)


def test_gap_after_history_waits_for_its_epoch(training: Path) -> None:
    epochs = Epochs(training)
    epochs.add(_epoch(5))
    assert _numbers([*epochs.take()]) == [1, 2, 3]
    epochs.add(_epoch(4))
    assert _numbers([*epochs.take()]) == [4, 5]


def test_epochs_of_tried_initializations_are_not_taken(tmp_path: Path) -> None:
    config = from_mapping({**SMALL, "epochs": 20, "num_initializations": 3})
    seen: list[int] = []

    def stop(kind: str, **values: object) -> None:
        if kind == "checkpoint" and len(seen) < 2:
            seen.append(len([*Epochs(tmp_path).take(is_complete=True)]))

    train(config, data.generate(config), tmp_path, observer=stop)
    assert seen == [0, 0]
    assert len([*Epochs(tmp_path).take(is_complete=True)]) == 20
