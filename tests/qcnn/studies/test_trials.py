"""What a study searches: drawn alike from one seed, and refused in one line."""

import math
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import ArtifactError, ConfigError, TrainingError
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.model.history import EpochMetrics
from qcnn.studies.trials import (
    FailedTrial,
    Range,
    Trial,
    best,
    failure_kept,
    load_failure,
    plan,
    save_failure,
    search_from_mapping,
    shared_experiment,
    whole_bounds,
)


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


def a_trial(val_loss: float, **words: Any) -> Trial:
    return Trial(
        from_mapping(words), 5, EpochMetrics(4, 0.5, 0.75, val_loss, 0.5, 1.0), words.get("seed", 0) / 4 or None
    )


def test_a_grid_is_every_combination_each_with_a_seed_of_its_own() -> None:
    trials = _plan({"seed": 7, "epochs": 3}, grid={"model": ["hybrid", "deep"], "shots": [0, 10, 100]})
    assert [(trial.model, trial.options.shots) for trial in trials] == [
        (model, shots) for model in ("hybrid", "deep") for shots in (0, 10, 100)
    ]
    assert [trial.seed for trial in trials] == [7, 8, 9, 10, 11, 12]
    assert {trial.epochs for trial in trials} == {3}


def test_a_seed_that_is_searched_is_taken_as_it_is() -> None:
    trials = _plan({}, grid={"seed": [5], "learning_rate": [0.1, 0.2]})
    assert [trial.seed for trial in trials] == [5, 5]


def test_the_last_seed_is_followed_by_the_first() -> None:
    assert [trial.seed for trial in _plan({"seed": 2**32 - 1}, grid={"qubits": [8, 10]})] == [2**32 - 1, 0]


def test_a_pipelines_struct_has_doubles_for_integers() -> None:
    search = {"grid": {"qubits": [8.0]}, "range": {"epochs": [2.0, 4.0]}, "random": 3.0}
    for trial in _plan({"workers": 1.0}, **search):
        assert (trial.qubits, trial.workers) == (8, 1)
        assert trial.epochs in (2, 3, 4)


def test_the_best_has_the_lowest_validation_loss_the_first_of_equals() -> None:
    assert best([a_trial(0.3), a_trial(0.2), a_trial(0.2)]) == 1


def test_a_failure_is_kept_where_the_training_would_be(tmp_path: Path) -> None:
    experiment = from_mapping({"seed": 7})
    with failure_kept(experiment, tmp_path / "training"):
        raise TrainingError("loss: is not finite. Given: nan")
    assert load_failure(tmp_path / "training") == FailedTrial(experiment, "loss: is not finite. Given: nan")
    assert load_failure(tmp_path) is None
    with pytest.raises(KeyboardInterrupt), failure_kept(experiment, tmp_path / "other"):
        raise KeyboardInterrupt
    assert load_failure(tmp_path / "other") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"experiment": {"qubits": 3}, "reason": ""}', "\x00"])
def test_a_damaged_failure_is_one_line(tmp_path: Path, content: str) -> None:
    save_failure(FailedTrial(from_mapping({}), "reason"), tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(content)
    with pytest.raises(ArtifactError, match=r"^training: failure\.json is damaged \(.*Given: "):
        load_failure(tmp_path)


_RATES = {"learning_rate": [0.001, 0.1, "log"]}


def test_the_data_of_one_trial_are_those_of_all() -> None:
    search = search_from_mapping({"range": _RATES, "grid": {"model": ["hybrid", "deep"]}, "random": 5.0})
    shared = shared_experiment({"qubits": 4, "rounds": 20, "seed": 7}, search)
    assert (shared.qubits, shared.rounds, shared.seed, shared.model) == (4, 20, 7, "hybrid")


@pytest.mark.parametrize(
    ("base", "search", "said"),
    [
        ({}, {"range": _RATES}, r"random: must say how many trials the tuner may choose\. Given: none"),
        ({}, {"grid": {"hidden_units": [4, 8]}}, r"random: must say how many trials the tuner may choose\."),
        ({}, {"range": {"qubits": [4, 8]}, "random": 3}, r"qubits: must be the same in all trials of a tuner, .*"),
        ({}, {"grid": {"seed": [1, 2]}, "random": 3}, r"seed: must be the same in all trials .* Given: \[1, 2\]"),
        ({}, {"grid": {"workers": [2, 4]}, "random": 3}, r"workers: must be the same in all trials .* Given: \[2, 4\]"),
        # The rule for rounds depends on the model.
        ({"qubits": 4}, {"grid": {"model": ["hybrid", "deep"]}, "random": 3}, r"rounds: must be the same in all .*"),
        ({}, {"range": {"hidden_units": [0, 8]}, "random": 3}, r"hidden_units: must be an integer, at least 1.*"),
    ],
)
def test_what_a_tuner_cannot_search_is_one_line(base: dict[str, Any], search: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{said}"):
        shared_experiment(base, search_from_mapping(search))


def test_a_range_of_whole_numbers_ends_with_some() -> None:
    assert whole_bounds("hidden_units", Range(1.5, 8.9)) == (2, 8)
    assert whole_bounds("learning_rate", Range(0.15, 0.89)) == (0.15, 0.89)
