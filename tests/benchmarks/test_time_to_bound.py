from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.convergence import experiment
from benchmarks.frameworks.trace import EpochSnapshot, TrainingTrace, load_task, load_trace, save_task
from benchmarks.time_to_bound import TimeToBound, create_task, find_time_to_bound, median, table
from qcnn import data
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.history import initializations
from qcnn.model.network import build_model


@pytest.fixture
def config() -> ExperimentConfig:
    return experiment("deep", 4, seed=3)


def _snapshots(*errors: tuple[float, bool]) -> list[EpochSnapshot]:
    """Return epochs of 1 s and 0.5 s of CPU time, with the MSE as weights."""
    return [
        EpochSnapshot(number, number / 2, undecided, (np.array(error),))
        for number, (error, undecided) in enumerate(errors, start=1)
    ]


def _mse(snapshot: EpochSnapshot) -> float:
    return float(snapshot.weights[0])


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([(0.5, False), (0.2, False), (0.1, False)], TimeToBound(2, 1, 0.2, is_reached=True)),
        # Epochs before the selection of an initialization do not count.
        ([(0.1, True), (0.4, False), (0.15, False)], TimeToBound(3, 1.5, 0.15, is_reached=True)),
        ([(0.5, False), (0.3, False), (0.4, False)], TimeToBound(3, 1.5, 0.4, is_reached=False)),
    ],
)
def test_time_to_bound_ends_at_first_epoch_within_bound(
    errors: Sequence[tuple[float, bool]], expected: TimeToBound
) -> None:
    assert find_time_to_bound(_snapshots(*errors), _mse, bound=0.2) == expected


def test_median_returns_median_run_or_failure() -> None:
    runs = [TimeToBound(seconds, 1, 0.2, is_reached=True) for seconds in (3, 1, 2)]
    assert median(runs) == runs[2]
    assert median([*runs, "failed (1)"]) == "failed (1)"


def test_table_shows_incomplete_and_missing_results() -> None:
    results: dict[str, TimeToBound | str] = {
        "qcnn": TimeToBound(8.54, 6.67, 0.1943, is_reached=True),
        "tensorcircuit-ng": TimeToBound(601.2, 900, 0.5, is_reached=False),
    }
    lines = table({"deep n = 12": results}, "seconds").splitlines()
    assert [cell.strip() for cell in lines[-1].strip("|").split("|")] == [
        *("deep n = 12", "8.54", "0.1943", "stopped at 601", "0.5000", "not run", "")
    ]


def test_task_contains_data_and_weights_of_qcnn(config: ExperimentConfig, tmp_path: Path) -> None:
    path, model = tmp_path / "task.npz", build_model(config)
    save_task(create_task(config, model), path)
    task, dataset = load_task(path), data.generate(config)
    assert (task.model, task.qubits, task.batch_size) == ("deep", 4, config.batch_size)
    assert task.initializations == initializations(config)
    assert not task.centered
    np.testing.assert_array_equal(task.train[0], dataset.train.qubit)
    np.testing.assert_array_equal(task.train[1], dataset.train.angle)
    np.testing.assert_array_equal(task.train[2], dataset.train.label)
    np.testing.assert_array_equal(task.order[1], data.epoch_order(config.seed, 2, len(dataset.train)))
    np.testing.assert_array_equal(task.weights[0][0], model.get_layer("quantum").parameters.numpy())
    assert len(task.rates) == config.epochs * -(-len(dataset.train) // config.batch_size)
    assert task.rates.max() == pytest.approx(config.learning_rate)


def test_trace_stores_all_epochs_and_is_over_after_time_limit(tmp_path: Path) -> None:
    trace = TrainingTrace(started=0, limit=0)
    assert not trace.is_over
    for number in range(2):
        trace.record([np.full(3, number), np.full((2, 1), number)], undecided=not number)
    assert trace.is_over
    trace.save(tmp_path / "trace.npz")
    first, second = load_trace(tmp_path / "trace.npz")
    assert first.undecided
    assert not second.undecided
    assert first.seconds <= second.seconds
    assert first.cpu_seconds <= second.cpu_seconds
    assert [values.tolist() for values in second.weights] == [[1, 1, 1], [[1], [1]]]
