"""Classical models: choice of settings, comparison with the network, and equality with scikit-learn."""

import dataclasses
import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from qcnn.circuits.preparation import preparation_of
from qcnn.data import Dataset, FeatureLayout, Samples, generate
from qcnn.data.pauli_windows import window_expectations
from qcnn.experiment.parsing import from_mapping
from qcnn.results import baselines
from qcnn.results.baseline_columns import columns_of
from qcnn.results.baselines import Baseline, fit_baselines, paired_difference, perceptron_units, save_baselines

MODELS = ("logistic_regression", "svm", "perceptron")


def _dataset(classes: int, *, signs: bool = False, sizes: tuple[int, int, int] = (150, 80, 300)) -> Dataset:
    """Return points in the plane, whose angle about the center is their class, with noise."""
    random = np.random.default_rng(classes)
    labels: dict[str, Any] = (
        {"labels": "signs"} if signs else {"labels": "classes", "classes": tuple("abcde"[:classes])}
    )
    layout = FeatureLayout(preparation_of("ry", 3), ("x", "y"), (0.0, 0.0), (1.0, 1.0), **labels)

    def samples(count: int) -> Samples:
        points = random.uniform(0, np.pi, (count, 3)).astype(np.float32)
        # The third qubit has no feature.
        points[:, 2] = 0
        direction = np.arctan2(points[:, 1] - 1.6, points[:, 0] - 1.6) + random.normal(scale=0.3, size=count)
        number = (np.floor(direction / (2 * np.pi) * classes) % classes).astype(np.int8)
        return Samples({"features": points}, np.where(number > 0, 1, -1).astype(np.int8) if signs else number)

    train, validation, test = map(samples, sizes)
    return Dataset(train, validation, test, qubits=3, rounds=0, seed=0, layout=layout)


def _network(dataset: Dataset) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return predictions that are correct for a part of the test rows."""
    random = np.random.default_rng(5)
    if dataset.layout.is_classification:
        return np.asarray(random.dirichlet(np.ones(len(dataset.layout.classes)), len(dataset.test)))
    return np.asarray(random.normal(size=len(dataset.test)) + dataset.test.label)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of small matrices wait for each other on a busy machine."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture
def few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the fits of tests that need no converged perceptron."""
    monkeypatch.setattr(baselines, "_MAX_ITERATIONS", {**baselines._MAX_ITERATIONS, "perceptron": 50})


@pytest.fixture(scope="module")
def three() -> Dataset:
    return _dataset(3)


@pytest.fixture(scope="module")
def signs() -> Dataset:
    return _dataset(2, signs=True)


@pytest.fixture(scope="module")
def of_three(three: Dataset) -> tuple[Baseline, ...]:
    return fit_baselines(three, 40, _network(three), seed=4)


@pytest.fixture(scope="module")
def of_signs(signs: Dataset) -> tuple[Baseline, ...]:
    return fit_baselines(signs, 40, _network(signs), seed=4)


def _estimator(found: Baseline, seed: int) -> Any:
    settings = dict(found.settings)
    match found.model:
        case "logistic_regression":
            return LogisticRegression(**settings, max_iter=10_000)
        case "svm":
            return SVC(**settings)
    state = seed + int(settings.pop("start"))
    units = (found.hidden_units,)
    return MLPClassifier(units, "tanh", solver="lbfgs", random_state=state, max_iter=1000, max_fun=2000, **settings)


@pytest.mark.parametrize("name", ["three", "signs"])
def test_accuracy_is_that_of_scikit_learn(name: str, request: pytest.FixtureRequest) -> None:
    dataset, found = request.getfixturevalue(name), request.getfixturevalue(f"of_{name}")
    train, test = (split.inputs["features"][:, :2].astype(np.float64) for split in (dataset.train, dataset.test))
    predictions = _network(dataset)
    network = np.argmax(predictions, axis=1) if predictions.ndim == 2 else np.where(predictions >= 0, 1, -1)
    assert tuple(each.model for each in found) == MODELS
    for each in found:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            fitted = _estimator(each, seed=4).fit(train, dataset.train.label)
        # Whether the perceptron converges within its iterations depends on the rounding of the CPU.
        assert each.converged == (not caught)
        assert each.converged or each.model == "perceptron"
        accuracy = fitted.score(test, dataset.test.label)
        assert each.accuracy == accuracy
        assert each.difference == pytest.approx(np.mean(network == dataset.test.label) - accuracy, abs=1e-12)
        assert each.difference_low < each.difference < each.difference_high
        assert (each.columns, each.train_rows, each.available_rows, each.test_rows) == (2, 150, 150, 300)
    # The models have learned more than the frequencies of the classes.
    assert min(each.accuracy for each in found[1:]) > 0.7


def test_settings_have_best_validation_accuracy_then_log_loss(three: Dataset, of_three: tuple[Baseline, ...]) -> None:
    train, validation = (
        split.inputs["features"][:, :2].astype(np.float64) for split in (three.train, three.validation)
    )
    for each in of_three:
        scores = [(-one.accuracy, one.log_loss) for one in each.tried]
        assert each.settings == each.tried[scores.index(min(scores))].settings
    logistic = of_three[0]
    for one in logistic.tried:
        fitted = LogisticRegression(**one.settings, max_iter=10_000).fit(train, three.train.label)
        assert one.accuracy == fitted.score(validation, three.validation.label)
        assert one.log_loss == pytest.approx(log_loss(three.validation.label, fitted.predict_proba(validation)))


def test_results_are_reproducible(three: Dataset, of_three: tuple[Baseline, ...]) -> None:
    assert fit_baselines(three, 40, _network(three), seed=4) == of_three


def _shuffled(dataset: Dataset, split: str, seed: int = 1) -> Dataset:
    samples = getattr(dataset, split)
    label = np.random.default_rng(seed).permutation(samples.label)
    return dataclasses.replace(dataset, **{split: dataclasses.replace(samples, label=label)})


def test_test_labels_do_not_change_fits(signs: Dataset, of_signs: tuple[Baseline, ...]) -> None:
    found = fit_baselines(_shuffled(signs, "test"), 40, _network(signs), seed=4)
    for before, after in zip(of_signs, found, strict=True):
        assert (before.settings, before.tried, before.parameters) == (after.settings, after.tried, after.parameters)
        assert abs(after.accuracy - 0.5) < 0.1 < before.accuracy - 0.5


@pytest.mark.usefixtures("few_iterations")
def test_shuffled_training_labels_give_chance() -> None:
    random, columns = np.random.default_rng(0), 12
    names = tuple(f"x{number}" for number in range(columns))
    layout = FeatureLayout(preparation_of("ry", columns), names, (0.0,) * columns, (1.0,) * columns)

    def samples(count: int) -> Samples:
        points = random.normal(size=(count, columns)).astype(np.float32)
        return Samples({"features": points}, np.where(points[:, :3].sum(axis=1) > 0, 1, -1).astype(np.int8))

    train, validation, test = map(samples, (80, 40, 200))
    dataset = Dataset(train, validation, test, qubits=columns, rounds=0, seed=0, layout=layout)
    network = _network(dataset)
    # With true labels of the validation split, the choice of settings would learn from it.
    shuffles = [_shuffled(_shuffled(dataset, "train", seed), "validation", seed) for seed in range(6)]
    accuracy = [[each.accuracy for each in fit_baselines(one, 15, network, seed=4)] for one in (dataset, *shuffles)]
    assert min(accuracy[0]) > 0.8
    means = np.mean(accuracy[1:], axis=0)
    assert np.all(np.abs(means - 0.5) < 0.1), means


def test_paired_difference_has_interval_of_agresti_and_min() -> None:
    first, second = (np.repeat(values, [12, 5, 60, 23]) for values in ([1, 0, 1, 0], [0, 1, 1, 0]))
    difference, low, high = paired_difference(first > 0, second > 0)
    assert difference == pytest.approx(0.07)
    # Wald's interval of a table with 12.5 and 5.5 discordant pairs of 102.
    p, q, n = 12.5 / 102, 5.5 / 102, 102
    half = 1.959964 * math.sqrt((p + q - (p - q) ** 2) / n)
    assert [low, high] == pytest.approx([p - q - half, p - q + half], abs=1e-7)


def test_paired_difference_of_equal_models_has_a_width() -> None:
    difference, low, high = paired_difference(np.ones(50, bool), np.ones(50, bool))
    assert (difference, low) == (0, -high)
    assert 0.03 < high < 0.05
    assert paired_difference(np.ones(2, bool), np.zeros(2, bool))[2] == 1


@pytest.mark.parametrize("parameters", [1, 21, 60, 334, 5000])
@pytest.mark.parametrize(("columns", "outputs"), [(2, 1), (8, 10), (191, 1)])
def test_perceptron_has_nearest_number_of_parameters(columns: int, outputs: int, parameters: int) -> None:
    def count(units: int) -> int:
        return units * (columns + 1) + outputs * (units + 1)

    units = perceptron_units(columns, outputs, parameters)
    assert abs(count(units) - parameters) == min(abs(count(each) - parameters) for each in range(1, 2000))


def test_parameters_are_those_of_estimators(of_three: tuple[Baseline, ...], of_signs: tuple[Baseline, ...]) -> None:
    assert [each.network_parameters for each in of_three] == [40, 40, 40]
    assert of_three[0].parameters == 3 * 3
    assert of_signs[0].parameters == 3
    # Two inputs, six units and three outputs; two inputs, ten units and one output.
    assert (of_three[2].hidden_units, of_three[2].parameters) == (6, 6 * 3 + 3 * 7)
    assert (of_signs[2].hidden_units, of_signs[2].parameters) == (10, 10 * 3 + 11)


@pytest.mark.usefixtures("few_iterations")
def test_more_rows_than_the_limit_are_a_random_subset(monkeypatch: pytest.MonkeyPatch) -> None:
    signs = _dataset(2, signs=True, sizes=(50, 30, 50))
    monkeypatch.setattr(baselines, "MAX_ROWS", {**baselines.MAX_ROWS, "svm": 30})
    first, second, third = fit_baselines(signs, 40, _network(signs), seed=0)
    assert (first.train_rows, second.train_rows, third.train_rows) == (50, 30, 50)
    assert second.available_rows == 50
    # A support vector has one coefficient.
    assert second.parameters <= 31
    other = fit_baselines(signs, 40, _network(signs), seed=1)[1]
    assert other.tried != second.tried


def test_fits_that_do_not_converge_are_marked(signs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "_MAX_ITERATIONS", dict.fromkeys(MODELS, 1))
    assert not any(each.converged for each in fit_baselines(signs, 40, _network(signs), seed=0))


@pytest.mark.usefixtures("few_iterations")
def test_rounding_counts_as_wrong() -> None:
    signs = _dataset(2, signs=True, sizes=(40, 20, 50))
    predictions = 1e-9 * signs.test.label.astype(np.float64)
    exact = fit_baselines(signs, 40, predictions, seed=0)
    rounded = fit_baselines(signs, 40, predictions, seed=0, rounding=1e-6)
    assert exact[0].difference == pytest.approx(1 - exact[0].accuracy)
    assert rounded[0].difference == pytest.approx(-exact[0].accuracy)


def test_saved_results_are_json_with_everything(three: Dataset, of_three: tuple[Baseline, ...], tmp_path: Path) -> None:
    save_baselines(of_three, three, tmp_path / "baselines.json")
    content = json.loads((tmp_path / "baselines.json").read_text())
    assert content["columns"] == "features, as rotation angles in rad"
    assert "Agresti" in content["interval"]["source"]
    for saved, each in zip(content["models"], of_three, strict=True):
        assert saved["accuracy"] == each.accuracy
        assert [one["settings"] for one in saved["tried"]] == [dict(one.settings) for one in each.tried]
        assert saved["seconds"] >= 0


def test_columns_of_excitations_are_position_and_phase() -> None:
    dataset = generate(from_mapping({"qubits": 4, "rounds": 5}))
    columns = columns_of(dataset.test, dataset.layout, 4)
    assert np.array_equal(columns[:, :4], np.eye(4)[dataset.test.qubit])
    np.testing.assert_allclose(np.arctan2(columns[:, 5], columns[:, 4]), dataset.test.angle, atol=1e-6)


def test_columns_of_ground_states_are_local_observables() -> None:
    dataset = generate(from_mapping({"qubits": 4, "rounds": 5, "data": "cluster_ising"}))
    expected = window_expectations(dataset.test.inputs["state"], 4)
    assert np.array_equal(columns_of(dataset.test, dataset.layout, 4), expected)


def test_columns_of_amplitudes_are_features_divided_by_norm() -> None:
    layout = FeatureLayout(preparation_of("amplitude", 2), ("a", "b", "c"), amplitudes=4)
    rows = np.array([[3.0, 0.0, -4.0]])
    samples = Samples({"state": layout.states(rows)}, np.array([1], np.int8))
    np.testing.assert_allclose(columns_of(samples, layout, 2), rows / 5, atol=1e-7)
