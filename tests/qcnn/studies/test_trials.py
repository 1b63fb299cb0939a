"""Search spaces of studies: reproducible trials, and errors for invalid searches."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import ArtifactError, ConfigError, TrainingError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.history import EpochMetrics
from qcnn.studies.trials import (
    FailedTrial,
    Range,
    Trial,
    best,
    failure_kept,
    load_failure,
    plan,
    ranking,
    save_failure,
    search_from_mapping,
    shared_experiment,
    whole_bounds,
)


def _plan(base: dict[str, Any], **search: Any) -> list[ExperimentConfig]:
    return plan(base, search_from_mapping(search))


def test_plan_random_is_reproducible_and_extensible() -> None:
    search = {
        "grid": {"model": ["hybrid", "deep"]},
        "range": {"learning_rate": [0.001, 0.1, "log"], "rounds": [20, 30]},
    }
    few, many = (_plan({"seed": 3}, random=count, **search) for count in (5, 200))
    assert few == many[:5]
    assert few != _plan({"seed": 4}, random=5, **search)
    rates = [trial.learning_rate for trial in many]
    assert all(0.001 <= rate <= 0.1 for rate in rates)
    # Log-uniform: half of them are below the geometric mean.
    assert 70 <= sum(rate < 0.01 for rate in rates) <= 130
    assert {trial.rounds for trial in many} == set(range(20, 31))
    assert {trial.model for trial in many} == {"hybrid", "deep"}


def test_plan_log_integers_stay_within_bounds() -> None:
    trials = _plan({}, range={"batch_size": [2, 64, "log"]}, random=300)
    assert {min(trial.batch_size for trial in trials), max(trial.batch_size for trial in trials)} == {2, 64}


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ({}, "study: must have values or ranges"),
        ({"grid": {"learning": [1]}}, "study: must search fields of the experiment. Given: learning"),
        ({"grid": {"qubits": []}}, "qubits: must have at least one value"),
        ({"grid": {"qubits": 8}}, "grid: must be a mapping of fields to lists"),
        ({"grid": {"qubits": [8, 3]}}, "qubits: must be at least 4 with hybrid. Given: 3"),
        ({"grid": {"options": [{}]}}, "study: must search fields of the experiment. Given: options"),
        ({"range": {"qubits": [4, 8]}}, "random: must be the number of trials to sample from the ranges. Given: "),
        ({"range": {"qubits": [8, 4]}, "random": 1}, "qubits: a range must be of numbers, the lower first"),
        ({"range": {"learning_rate": [0, 1, "log"]}, "random": 1}, "learning_rate: a range must be of numbers"),
        ({"range": {"learning_rate": [0.1, 1, "square"]}, "random": 1}, "learning_rate: a range must be of numbers"),
        ({"range": {"learning_rate": [math.nan, 1]}, "random": 1}, "learning_rate: a range must be of numbers"),
        ({"range": {"model": [1, 2]}, "random": 1}, "model: a range must be of numbers"),
        (
            {"grid": {"seed": [1]}, "metric": "accuracy"},
            "metric: must be val_loss or val_accuracy, of the validation split. Given: 'accuracy'",
        ),
        ({"grid": {"seed": [1]}, "metric": ["val_loss"]}, "metric: must be val_loss or val_accuracy, of "),
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
        ({"grid": ["x"] * 10**6}, "grid: must be a mapping of fields to lists of values. Given: ['x', 'x', "),
        ({"range": [4], "random": 1}, "range: must be a mapping"),
        ({"grid": {"qubits": [8]}, "range": {"qubits": [4, 8]}, "random": 1}, "qubits: must have either"),
        ({"grid": {"qubits": [8]}, "random": -1}, "study: must have at least 1"),
        ({"grid": {"qubits": [8]}, "random": 1.5}, "random: must be an integer"),
        ({"grid": {"seed": list(range(1001))}}, "study: must have at least 1 and at most 1000 trials. Given: 1001"),
    ],
)
def test_plan_invalid_search_raises_one_line(search: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as error:
        _plan({}, **search)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def a_trial(val_loss: float, **words: Any) -> Trial:
    return Trial(
        from_mapping(words), 5, EpochMetrics(4, 0.5, 0.75, val_loss, 0.5, 1.0), words.get("seed", 0) / 4 or None
    )


def test_plan_grid_has_all_combinations_with_different_seeds() -> None:
    trials = _plan({"seed": 7, "epochs": 3}, grid={"model": ["hybrid", "deep"], "shots": [0, 10, 100]})
    assert [(trial.model, trial.options.shots) for trial in trials] == [
        (model, shots) for model in ("hybrid", "deep") for shots in (0, 10, 100)
    ]
    assert [trial.seed for trial in trials] == [7, 8, 9, 10, 11, 12]
    assert {trial.epochs for trial in trials} == {3}


def test_plan_searched_seed_is_unchanged() -> None:
    trials = _plan({}, grid={"seed": [5], "learning_rate": [0.1, 0.2]})
    assert [trial.seed for trial in trials] == [5, 5]


def test_plan_seed_wraps_around() -> None:
    assert [trial.seed for trial in _plan({"seed": 2**32 - 1}, grid={"qubits": [8, 10]})] == [2**32 - 1, 0]


def test_plan_accepts_integral_floats() -> None:
    search = {"grid": {"qubits": [8.0]}, "range": {"epochs": [2.0, 4.0]}, "random": 3.0}
    for trial in _plan({"workers": 1.0}, **search):
        assert (trial.qubits, trial.workers) == (8, 1)
        assert trial.epochs in (2, 3, 4)


def test_best_is_first_with_lowest_validation_loss() -> None:
    assert best([a_trial(0.3), a_trial(0.2), a_trial(0.2)]) == 1


def _with_accuracy(val_loss: float, val_accuracy: float | None) -> Trial:
    trial = a_trial(val_loss)
    return dataclasses.replace(trial, chosen=dataclasses.replace(trial.chosen, val_accuracy=val_accuracy))


@pytest.mark.parametrize(
    ("measured", "metric", "expected"),
    [
        ([(0.3, 0.9), (0.2, 0.8), (0.1, None), (0.25, 0.9)], "val_loss", [2, 1, 3, 0]),
        # Equal accuracies are in the order of the losses, and trials without accuracy are last.
        ([(0.3, 0.9), (0.2, 0.8), (0.1, None), (0.25, 0.9)], "val_accuracy", [3, 0, 1, 2]),
        ([(0.2, 0.0), (0.2, 1.0), (0.2, 1.0)], "val_accuracy", [1, 2, 0]),
        # Rounded sums of the same number of samples are equal.
        ([(0.2, 1.0), (0.1, 1 - 1e-16)], "val_accuracy", [1, 0]),
    ],
)
def test_ranking_by_metric(measured: list[tuple[float, float | None]], metric: str, expected: list[int]) -> None:
    trials: list[Trial | FailedTrial] = [
        *(_with_accuracy(*values) for values in measured),
        FailedTrial(from_mapping({}), "no"),
    ]
    assert ranking(trials, metric) == [*expected, len(measured)]
    assert best(trials, metric) == expected[0]


def test_failure_kept_saves_error_in_training_folder(tmp_path: Path) -> None:
    experiment = from_mapping({"seed": 7})
    with failure_kept(experiment, tmp_path / "training"):
        raise TrainingError("loss: is not finite. Given: nan")
    assert load_failure(tmp_path / "training") == FailedTrial(experiment, "loss: is not finite. Given: nan")
    assert load_failure(tmp_path) is None
    with pytest.raises(KeyboardInterrupt), failure_kept(experiment, tmp_path / "other"):
        raise KeyboardInterrupt
    assert load_failure(tmp_path / "other") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"experiment": {"qubits": 3}, "reason": ""}', "\x00"])
def test_load_failure_damaged_file_raises(tmp_path: Path, content: str) -> None:
    save_failure(FailedTrial(from_mapping({}), "reason"), tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(content)
    with pytest.raises(ArtifactError, match=r"^training: failure\.json is damaged \(.*Given: "):
        load_failure(tmp_path)


_RATES = {"learning_rate": [0.001, 0.1, "log"]}


def test_shared_experiment_has_fields_of_all_trials() -> None:
    search = search_from_mapping({"range": _RATES, "grid": {"model": ["hybrid", "deep"]}, "random": 5.0})
    shared = shared_experiment({"qubits": 4, "rounds": 20, "seed": 7}, search)
    assert (shared.qubits, shared.rounds, shared.seed, shared.model) == (4, 20, 7, "hybrid")


@pytest.mark.parametrize(
    ("base", "search", "message"),
    [
        ({}, {"range": _RATES}, r"random: must be the number of trials of the tuner\. Given: none"),
        ({}, {"grid": {"hidden_units": [4, 8]}}, r"random: must be the number of trials of the tuner\."),
        ({}, {"range": {"qubits": [4, 8]}, "random": 3}, r"qubits: must be the same in all trials of a tuner, .*"),
        ({}, {"grid": {"seed": [1, 2]}, "random": 3}, r"seed: must be the same in all trials .* Given: \[1, 2\]"),
        ({}, {"grid": {"workers": [2, 4]}, "random": 3}, r"workers: must be the same in all trials .* Given: \[2, 4\]"),
        # The rule for rounds depends on the model.
        ({"qubits": 4}, {"grid": {"model": ["hybrid", "deep"]}, "random": 3}, r"rounds: must be the same in all .*"),
        ({}, {"range": {"hidden_units": [0, 8]}, "random": 3}, r"hidden_units: must be an integer, at least 1.*"),
        (
            {},
            {"rows": [{"qubits": 4}]},
            r"rows: must not be given with a tuner, which selects the trials\. Given: rows",
        ),
        ({}, {"range": _RATES, "random": 3, "repeat": 2}, r"repeat: must not be given with a tuner, .* Given: repeat"),
    ],
)
def test_shared_experiment_invalid_search_raises(base: dict[str, Any], search: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{message}"):
        shared_experiment(base, search_from_mapping(search))


def test_whole_bounds_rounds_integers_inwards() -> None:
    assert whole_bounds("hidden_units", Range(1.5, 8.9)) == (2, 8)
    assert whole_bounds("learning_rate", Range(0.15, 0.89)) == (0.15, 0.89)
