"""Order of the trials of a study."""

import pytest

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.studies.trial_queue import TrialQueue

# Models and seeds of trials. Those of a model share a program.
TRIALS = [("hybrid", 0), ("deep", 1), ("hybrid", 2), ("deep", 3), ("hybrid", 4)]


def _trials() -> list[tuple[int, ExperimentConfig]]:
    return [(seed, from_mapping({"model": model, "seed": seed})) for model, seed in TRIALS]


@pytest.mark.parametrize(
    ("at_once", "turns", "expected"),
    [
        # One process keeps the order.
        (1, [0, 0, 0, 0, 0], [0, 1, 2, 3, 4]),
        # Two processes that take turns train one program each, and the second one helps with the last trial.
        (2, [0, 1, 0, 1, 1], [0, 1, 2, 3, 4]),
        # A slow process trains few trials of its program.
        (2, [0, 1, 0, 0, 0], [0, 1, 2, 4, 3]),
        # A third process finds no new program.
        (3, [0, 1, 2, 0, 1], [0, 1, 3, 2, 4]),
    ],
)
def test_processes_take_trials_of_their_program_first(at_once: int, turns: list[int], expected: list[int]) -> None:
    queue, previous = TrialQueue(_trials(), at_once), dict[int, ExperimentConfig]()
    taken = []
    for process in turns:
        trial = queue.take(previous.get(process))
        assert trial
        previous[process] = trial[1]
        taken.append(trial[0])
    assert taken == expected
    assert queue.take(previous[0]) is None


def test_no_trials() -> None:
    assert TrialQueue([], 2).take() is None
