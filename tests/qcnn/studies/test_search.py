"""What a study searches: drawn alike from one seed, and refused in one line."""

import math
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.studies.search import search_from_mapping
from qcnn.studies.trials import plan


def _plan(base: dict[str, Any], **search: Any) -> list[ExperimentConfig]:
    return plan(base, search_from_mapping(search))


def test_random_trials_follow_from_the_seed_and_more_begin_with_the_same() -> None:
    search = {
        "grid": {"model": ["hybrid", "deep"]},
        "range": {"learning_rate": [0.001, 0.1, "log"], "rounds": [20, 30]},
    }
    few, many = (_plan({"seed": 3}, random=count, **search) for count in (5, 200))
    assert few == many[:5]
    assert few != _plan({"seed": 4}, random=5, **search)
    rates = [trial.learning_rate for trial in many]
    assert all(0.001 <= rate <= 0.1 for rate in rates)
    # Evenly by their logarithm: half of them below the geometric mean.
    assert 70 <= sum(rate < 0.01 for rate in rates) <= 130
    assert {trial.rounds for trial in many} == set(range(20, 31))
    assert {trial.model for trial in many} == {"hybrid", "deep"}


def test_integers_on_a_log_scale_stay_within_their_bounds() -> None:
    trials = _plan({}, range={"batch_size": [2, 64, "log"]}, random=300)
    assert {min(trial.batch_size for trial in trials), max(trial.batch_size for trial in trials)} == {2, 64}


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ({}, "study: needs values or ranges"),
        ({"grid": {"learning": [1]}}, "study: only the experiment's words can be searched. Given: learning"),
        ({"grid": {"qubits": []}}, "qubits: must have at least one value"),
        ({"grid": {"qubits": 8}}, "grid: must be a mapping of words to lists"),
        ({"grid": {"qubits": [8, 3]}}, "qubits: must be an integer, at least 4 and at most 32768. Given: 3"),
        ({"grid": {"options": [{}]}}, "study: only the experiment's words can be searched. Given: options"),
        ({"range": {"qubits": [4, 8]}}, "random: must say how many trials"),
        ({"range": {"qubits": [8, 4]}, "random": 1}, "qubits: a range must be of numbers, the lower first"),
        ({"range": {"learning_rate": [0, 1, "log"]}, "random": 1}, "learning_rate: a range must be of numbers"),
        ({"range": {"learning_rate": [0.1, 1, "square"]}, "random": 1}, "learning_rate: a range must be of numbers"),
        ({"range": {"learning_rate": [math.nan, 1]}, "random": 1}, "learning_rate: a range must be of numbers"),
        ({"range": {"model": [1, 2]}, "random": 1}, "model: a range must be of numbers"),
        ({"range": {"qubits": 4}, "random": 1}, "qubits: a range must be [low, high]"),
        (
            {"range": {"qubits": [-math.inf, 8]}, "random": 1},
            "qubits: a range must be [low, high], or [low, high, log], of",
        ),
        (
            {"range": {"qubits": [4, 10**400]}, "random": 1},
            "qubits: a range must be [low, high], or [low, high, log], of",
        ),
        ({"range": {"learning_rate": [-1e308, 1e308]}, "random": 1}, "learning_rate: a range must be [low, high], or"),
        ({"range": {"x" * 1000: 4}, "random": 1}, f"{'x' * 98} ... {'x' * 97}: a range must be [low, high]"),
        ({"grid": {"qubits": [8]}, "random": math.inf}, "random: must be an integer. Given: inf"),
        ({"grid": {"qubits": [8]}, "random": math.nan}, "random: must be an integer. Given: nan"),
        (
            {"grid": {"qubits": [8]}, "random": 10**5000},
            "study: must have at least 1 and at most 1000 trials. Given: an",
        ),
        ({"grid": ["x"] * 10**6}, "grid: must be a mapping of words to lists of values. Given: ['x', 'x', "),
        ({"range": [4], "random": 1}, "range: must be a mapping"),
        ({"grid": {"qubits": [8]}, "range": {"qubits": [4, 8]}, "random": 1}, "qubits: must have either"),
        ({"grid": {"qubits": [8]}, "random": -1}, "study: must have at least 1"),
        ({"grid": {"qubits": [8]}, "random": 1.5}, "random: must be an integer"),
        ({"grid": {"seed": list(range(1001))}}, "study: must have at least 1 and at most 1000 trials. Given: 1001"),
    ],
)
def test_what_is_no_study_is_one_line(search: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _plan({}, **search)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
