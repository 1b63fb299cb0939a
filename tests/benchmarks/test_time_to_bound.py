from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.convergence import experiment
from benchmarks.frameworks.trace import Moment, Trace, load_exercise, load_trace, save_exercise
from benchmarks.time_to_bound import Reached, exercise_of, median, reached, table
from qcnn import data
from qcnn.experiment import ExperimentConfig
from qcnn.model.network import build_model


@pytest.fixture
def config() -> ExperimentConfig:
    return experiment("deep", 4, seed=3)


def _moments(*errors: tuple[float, bool]) -> list[Moment]:
    """Epochs of a second each, half of it of the processor; the weights are the error."""
    return [
        Moment(number, number / 2, undecided, (np.array(error),))
        for number, (error, undecided) in enumerate(errors, start=1)
    ]


def _error(moment: Moment) -> float:
    return float(moment.weights[0])


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([(0.5, False), (0.2, False), (0.1, False)], Reached(2, 1, 0.2, near=True)),
        # A start that is only being tried is nothing to work with.
        ([(0.1, True), (0.4, False), (0.15, False)], Reached(3, 1.5, 0.15, near=True)),
        ([(0.5, False), (0.3, False), (0.4, False)], Reached(3, 1.5, 0.4, near=False)),
    ],
)
def test_the_first_epoch_near_the_floor_counts(errors: Sequence[tuple[float, bool]], expected: Reached) -> None:
    assert reached(_moments(*errors), _error, bound=0.2) == expected


def test_of_several_runs_the_median_counts_and_a_failure_is_not_hidden() -> None:
    runs = [Reached(seconds, 1, 0.2, near=True) for seconds in (3, 1, 2)]
    assert median(runs) == runs[2]
    assert median([*runs, "failed (1)"]) == "failed (1)"


def test_the_table_says_what_was_not_reached_and_what_was_not_run() -> None:
    found: dict[str, Reached | str] = {
        "ours": Reached(8.54, 6.67, 0.1943, near=True),
        "tensorcircuit-ng": Reached(601.2, 900, 0.5, near=False),
    }
    lines = table({"deep n = 12": found}, "seconds").splitlines()
    assert [cell.strip() for cell in lines[-1].strip("|").split("|")] == [
        *("deep n = 12", "8.54", "0.1943", "not in 601", "0.5000", "not run", "")
    ]


def test_others_train_on_what_ours_trains_on(config: ExperimentConfig, tmp_path: Path) -> None:
    path, model = tmp_path / "exercise.npz", build_model(config)
    save_exercise(exercise_of(config, model), path)
    exercise, dataset = load_exercise(path), data.generate(config)
    assert (exercise.model, exercise.qubits, exercise.batch_size) == ("deep", 4, config.batch_size)
    assert exercise.starts == config.options.num_initializations
    assert not exercise.centred
    np.testing.assert_array_equal(exercise.train[0], dataset.train.qubit)
    np.testing.assert_array_equal(exercise.train[1], dataset.train.angle)
    np.testing.assert_array_equal(exercise.train[2], dataset.train.label)
    np.testing.assert_array_equal(exercise.order[1], data.epoch_order(config.seed, 2, len(dataset.train)))
    np.testing.assert_array_equal(exercise.weights[0][0], model.get_layer("quantum").parameters.numpy())
    assert len(exercise.rates) == config.epochs * -(-len(dataset.train) // config.batch_size)
    assert exercise.rates.max() == pytest.approx(config.learning_rate)


def test_a_trace_keeps_every_epoch_and_ends_when_its_time_is_up(tmp_path: Path) -> None:
    trace = Trace(started=0, limit=0)
    assert not trace.is_over
    for number in range(2):
        trace.note([np.full(3, number), np.full((2, 1), number)], undecided=not number)
    assert trace.is_over
    trace.save(tmp_path / "trace.npz")
    first, second = load_trace(tmp_path / "trace.npz")
    assert first.undecided
    assert not second.undecided
    assert first.seconds <= second.seconds
    assert first.processor <= second.processor
    assert [values.tolist() for values in second.weights] == [[1, 1, 1], [[1], [1]]]
