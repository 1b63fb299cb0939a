"""Classical models of scikit-learn on the columns, split and seed of an experiment, compared with its network."""

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.atomic_files import new_file
from qcnn.data.random_streams import BASELINE_ROWS, permutation
from qcnn.data.samples import Dataset, Samples
from qcnn.frozen import freeze
from qcnn.model.array_losses import losses
from qcnn.results.baseline_columns import column_count, columns_of, describe_columns, in_parts
from qcnn.results.row_metrics import row_metrics

# Limits of the time of a model: training rows, the product of rows and parameters (columns for the support vector
# machine), and iterations of the solver.
MAX_ROWS = {"logistic_regression": 100_000, "svm": 5_000, "perceptron": 10_000}
_MAX_PRODUCT = {"logistic_regression": 2**25, "svm": 2**25, "perceptron": 2**23}
_MAX_ITERATIONS = {"logistic_regression": 10_000, "svm": 100_000, "perceptron": 1_000}
# Maximum number of validation rows that choose the settings.
MAX_VALIDATION_ROWS = 5_000
# Number of values of the columns of a part.
_PART = 2**22
# Quantile of the normal distribution of a 95 % interval.
_QUANTILE = 1.959963984540054
INTERVAL = "(b - c) / (n + 2) +- 1.96 sqrt(b + c + 1 - (b - c)^2 / (n + 2)) / (n + 2)"
INTERVAL_SOURCE = "A. Agresti and Y. Min, Statistics in Medicine 24, 729 (2005), Wald+2"

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]
_Settings = Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class TriedSettings:
    """Settings of a model with accuracy and log loss of the validation split, and whether the fit has converged."""

    settings: _Settings
    accuracy: float
    log_loss: float
    converged: bool


@dataclasses.dataclass(frozen=True)
class Baseline:
    """Classical model with the chosen settings, compared with the network on the test split.

    Attributes:
        model: Its name: logistic_regression, svm or perceptron.
        settings: Chosen settings.
        tried: All settings in the order in which they were tried.
        parameters: Number of fitted parameters; of the support vector machine, coefficients of support vectors and
            biases.
        network_parameters: Number of trainable parameters of the network.
        hidden_units: Units of the hidden layer of the perceptron, else None.
        columns: Number of columns.
        train_rows: Number of fitted training rows.
        available_rows: Number of training rows.
        test_rows: Number of test rows.
        converged: Whether the fit with the chosen settings has converged within the iterations that limit its time.
        accuracy: Accuracy on the test split.
        difference: Accuracy of the network minus that of the model.
        difference_low: Lower end of the 95 % interval of the difference.
        difference_high: Upper end of the interval.
        seconds: Duration of all fits in seconds, which is not reproducible.
    """

    model: str
    settings: _Settings
    tried: tuple[TriedSettings, ...]
    parameters: int
    network_parameters: int
    hidden_units: int | None
    columns: int
    train_rows: int
    available_rows: int
    test_rows: int
    converged: bool
    accuracy: float
    difference: float
    difference_low: float
    difference_high: float
    seconds: float = dataclasses.field(compare=False)

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the test split by name, see `fit_baselines`."""
        values = {
            "accuracy": self.accuracy,
            "difference": self.difference,
            "difference_low": self.difference_low,
            "difference_high": self.difference_high,
        }
        return {f"{self.model}_{name}": value for name, value in values.items()}


def fit_baselines(
    dataset: Dataset,
    parameters: int,
    predictions: npt.NDArray[np.float64],
    seed: int,
    rounding: float = 0.0,
    fits: MutableMapping[object, Any] | None = None,
) -> tuple[Baseline, ...]:
    """Fit a logistic regression, a support vector machine and a perceptron, and compare the network with them.

    The models are fitted to the training split only. The settings with the highest accuracy on the validation split are
    chosen, of equal ones those with the lowest log loss, then the first ones. Test rows are used for the accuracy only.
    Of more rows than `MAX_ROWS`, a random subset is used. Equal arguments give equal results except for the seconds.

    The support vector machine has an RBF kernel; its log loss is that of its decision function as logits. The
    perceptron has one hidden layer of `perceptron_units` tanh units, and three random initial weights to choose from.

    The metrics of each result are `<model>_accuracy`, `<model>_difference`, `<model>_difference_low` and
    `<model>_difference_high`, where the model is logistic_regression, svm or perceptron. The interval is that of
    `paired_difference`.

    Args:
        dataset: Dataset with labels that are classes. The training split has two of them or more.
        parameters: Number of trainable parameters of the network.
        predictions: Predictions of the network for the test split, (samples,) or (samples, classes).
        seed: Seed of the subset and of the initial weights of the perceptron.
        rounding: Bound on the rounding error of the predictions, see `qcnn.model.signs`.
        fits: Fits of earlier calls, which are used again for equal rows and settings, and to which those of this call
            are added.

    >>> import numpy as np
    >>> from qcnn import data
    >>> from qcnn.experiment.parsing import from_mapping
    >>> dataset = data.generate(from_mapping({"qubits": 4, "rounds": 30}))
    >>> found = fit_baselines(dataset, 60, np.cos(dataset.test.angle, dtype=np.float64), seed=0)
    >>> [(each.model, each.difference) for each in found]
    [('logistic_regression', 0.0), ('svm', 0.0), ('perceptron', 0.0)]
    """
    # Loads the libraries whose threads are limited: sums depend on their number, and small matrices gain nothing.
    from sklearn import linear_model, neural_network, svm
    from threadpoolctl import threadpool_limits

    network = row_metrics(dataset.layout)["accuracy"].scores(dataset.test.label, predictions, rounding) > 0
    with threadpool_limits(limits=1):
        problem = _Problem(dataset, seed)
        kinds = (
            _logistic_regression(linear_model, problem),
            _support_vector_machine(svm, problem),
            _perceptron(neural_network, problem, parameters),
        )
        tuned = (_tuned_once(problem, kind, {} if fits is None else fits) for kind in kinds)
        return tuple(_compare(problem, each, network, parameters) for each in tuned)


def paired_difference(first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return the difference of two accuracies on the same rows, and the ends of its 95 % interval.

    With b rows of n that only the first model classifies correctly, and c that only the second does, the difference is
    (b - c) / n. The interval is `INTERVAL`, truncated to -1 and 1: that of Wald after adding 1/2 to each cell of the
    table of pairs (A. Agresti and Y. Min, Simple improved confidence intervals for comparing matched proportions,
    2005). It has a width also if b and c are 0.

    Args:
        first: Whether the first model is correct, (rows,).
        second: Whether the second model is correct, (rows,).
    """
    n, b, c = len(first), int(np.sum(first & ~second)), int(np.sum(second & ~first))
    center, half = (b - c) / (n + 2), _QUANTILE * math.sqrt(b + c + 1 - (b - c) ** 2 / (n + 2)) / (n + 2)
    return (b - c) / n, max(-1.0, center - half), min(1.0, center + half)


def metrics_of(baselines: Sequence[Baseline]) -> dict[str, float]:
    """Return the metrics of all models by name."""
    return {name: value for each in baselines for name, value in each.metrics.items()}


def perceptron_units(columns: int, outputs: int, parameters: int) -> int:
    """Return the number of hidden units, at least 1, with which a perceptron has nearly a number of parameters.

    Args:
        columns: Number of columns.
        outputs: Number of outputs, one for two classes.
        parameters: Number of parameters.

    >>> perceptron_units(8, 1, 60), perceptron_units(8, 10, 511), perceptron_units(191, 1, 40)
    (6, 26, 1)
    """
    # Weights and bias of a unit, and its weights to the outputs.
    return max(1, round((parameters - outputs) / (columns + 1 + outputs)))


def save_baselines(baselines: Sequence[Baseline], dataset: Dataset, path: Path) -> None:
    """Write all results as JSON, with the columns and the formula of the interval.

    Args:
        baselines: Results.
        dataset: Dataset of the results.
        path: File to create.
    """
    content = {
        "columns": describe_columns(dataset.layout),
        "difference": "accuracy of the network minus that of the model, over the same test rows",
        "interval": {
            "level": 0.95,
            "formula": INTERVAL,
            "counts": "b: only the network is correct; c: only the model is correct; n: test rows",
            "source": INTERVAL_SOURCE,
        },
        "models": [dataclasses.asdict(each) for each in baselines],
    }
    with new_file(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2, default=dict) + "\n", encoding="utf-8")


class _Problem:
    """Columns and classes of the splits of a dataset."""

    def __init__(self, dataset: Dataset, seed: int) -> None:
        self.dataset, self.seed = dataset, seed
        layout = dataset.layout
        self.columns = column_count(layout, dataset.qubits)
        self.classes = len(layout.class_names)
        # A linear model has one output for two classes.
        self.outputs = 1 if self.classes == 2 else self.classes
        # The rows of every model are the first ones of one order.
        self.order = permutation(BASELINE_ROWS, seed, len(dataset.train))
        chosen = permutation(BASELINE_ROWS, seed, len(dataset.validation), stream=1)[:MAX_VALIDATION_ROWS]
        self.validation = dataset.validation.take(np.sort(chosen))

    def train_rows(self, model: str, parameters: int) -> Samples:
        """Return the training rows of a model in their original order.

        Args:
            model: Name of the model.
            parameters: Number of its parameters, or of columns.
        """
        count = max(1, min(MAX_ROWS[model], _MAX_PRODUCT[model] // parameters))
        return self.dataset.train.take(np.sort(self.order[:count]))

    def columns_of(self, samples: Samples) -> _Floats:
        return columns_of(samples, self.dataset.layout, self.dataset.qubits)

    def in_parts(self, samples: Samples, use: Callable[[_Floats], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the results of a function of the columns of samples, joined."""
        amplitudes = 2**self.dataset.qubits if self.dataset.layout.preparation.kind == "state" else 0
        size = max(1, _PART // max(self.columns, amplitudes))
        return in_parts(samples, size, lambda part: use(self.columns_of(part)))

    def classes_of(self, samples: Samples) -> _Integers:
        label = samples.label.astype(np.int64)
        return label if self.dataset.layout.is_classification else (label > 0).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class _Kind:
    """Kind of a model.

    Attributes:
        name: Name of the model.
        grid: Returns the settings to try for the columns of the training rows, of which the simplest model is first.
        create: Returns an estimator with settings.
        rows: Training rows.
        logits: Whether the estimator returns a decision function instead of probabilities.
        hidden_units: Units of its hidden layer, or None.
    """

    name: str
    grid: Callable[[_Floats], Sequence[_Settings]]
    create: Callable[..., Any]
    rows: Samples
    logits: bool = False
    hidden_units: int | None = None


def _logistic_regression(library: ModuleType, problem: _Problem) -> _Kind:
    rows = problem.train_rows("logistic_regression", (problem.columns + 1) * problem.outputs)
    limit = _MAX_ITERATIONS["logistic_regression"]

    def create(C: float) -> Any:  # noqa: N803 - the name of the setting in scikit-learn
        return library.LogisticRegression(C=C, max_iter=limit)

    grid = [{"C": 10.0**power} for power in range(-2, 5)]
    return _Kind("logistic_regression", lambda _: grid, create, rows)


def _support_vector_machine(library: ModuleType, problem: _Problem) -> _Kind:
    def grid(columns: _Floats) -> Sequence[_Settings]:
        # The default of scikit-learn, or 1 for equal values.
        variance = float(columns.var())
        scale = 1 / (problem.columns * variance) if variance else 1.0
        return [{"C": 10.0**power, "gamma": scale * factor} for power in range(-1, 3) for factor in (0.1, 1.0, 10.0)]

    def create(C: float, gamma: float) -> Any:  # noqa: N803
        return library.SVC(C=C, gamma=gamma, max_iter=_MAX_ITERATIONS["svm"])

    return _Kind("svm", grid, create, problem.train_rows("svm", problem.columns), logits=True)


def _perceptron(library: ModuleType, problem: _Problem, parameters: int) -> _Kind:
    units = perceptron_units(problem.columns, problem.outputs, parameters)
    rows = problem.train_rows("perceptron", units * (problem.columns + 1 + problem.outputs) + problem.outputs)
    grid = [{"alpha": 10.0**-power, "start": start} for power in range(-1, 4) for start in range(3)]
    limit = _MAX_ITERATIONS["perceptron"]

    def create(alpha: float, start: int) -> Any:
        seed = (problem.seed + start) % 2**32
        return library.MLPClassifier(
            (units,), "tanh", solver="lbfgs", alpha=alpha, random_state=seed, max_iter=limit, max_fun=2 * limit
        )

    return _Kind("perceptron", lambda _: grid, create, rows, hidden_units=units)


@dataclasses.dataclass(frozen=True)
class _Tuned:
    """Fitted estimator with the chosen settings, the settings that were tried, and seconds."""

    kind: _Kind
    estimator: Any
    tried: tuple[TriedSettings, ...]
    chosen: TriedSettings
    seconds: float


def _tuned_once(problem: _Problem, kind: _Kind, fits: MutableMapping[object, Any]) -> _Tuned:
    """Return a fit that was made before for equal rows and settings, or fit the model."""
    uses_all = len(kind.rows) == len(problem.dataset.train)
    uses_all = uses_all and len(problem.validation) == len(problem.dataset.validation)
    has_seed = kind.hidden_units is not None or not uses_all
    key = (problem.dataset.digest, kind.name, kind.hidden_units, problem.seed if has_seed else None)
    if key not in fits:
        fits[key] = _tuned(problem, kind)
    found: _Tuned = fits[key]
    return found


def _tuned(problem: _Problem, kind: _Kind) -> _Tuned:
    """Fit a model with all settings, and choose by the validation split."""
    began = time.monotonic()
    columns, classes = problem.in_parts(kind.rows, lambda values: values), problem.classes_of(kind.rows)
    grid, tried = kind.grid(columns), []
    estimators = [kind.create(**settings) for settings in grid]
    for settings, estimator in zip(grid, estimators, strict=True):
        converged = _fit(estimator, columns, classes)
        tried.append(_score(problem, kind, estimator, settings, converged=converged))
    # Of equal settings, `min` returns the first ones.
    chosen = min(range(len(tried)), key=lambda number: (-tried[number].accuracy, tried[number].log_loss))
    return _Tuned(kind, estimators[chosen], tuple(tried), tried[chosen], time.monotonic() - began)


def _fit(estimator: Any, columns: _Floats, classes: _Integers) -> bool:
    """Fit an estimator and return whether its solver has converged within its iterations, which limit the time."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        estimator.fit(columns, classes)
    return not any(issubclass(each.category, ConvergenceWarning) for each in caught)


def _score(problem: _Problem, kind: _Kind, estimator: Any, settings: _Settings, *, converged: bool) -> TriedSettings:
    """Return accuracy and log loss of the validation split."""
    classes = problem.classes_of(problem.validation)
    probabilities = np.zeros((len(classes), problem.classes))
    # A subset of the training rows may lack a class.
    probabilities[:, estimator.classes_] = problem.in_parts(
        problem.validation, lambda values: _probabilities(estimator, values, logits=kind.logits)
    )
    accuracy = float(np.mean(problem.in_parts(problem.validation, estimator.predict) == classes))
    return TriedSettings(freeze(settings), accuracy, float(np.mean(losses(classes, probabilities))), converged)


def _probabilities(estimator: Any, columns: _Floats, *, logits: bool) -> _Floats:
    """Return the probabilities of the classes of an estimator, (rows, classes)."""
    if not logits:
        return np.asarray(estimator.predict_proba(columns), np.float64)
    from scipy.special import softmax

    values = estimator.decision_function(columns)
    values = np.stack([np.zeros_like(values), values], axis=1) if values.ndim == 1 else values
    return np.asarray(softmax(values, axis=1))


def _compare(problem: _Problem, tuned: _Tuned, network: npt.NDArray[np.bool_], parameters: int) -> Baseline:
    """Return the result of a model on the test split."""
    test = problem.dataset.test
    correct = problem.in_parts(test, tuned.estimator.predict) == problem.classes_of(test)
    return Baseline(
        tuned.kind.name,
        tuned.chosen.settings,
        tuned.tried,
        _parameter_count(tuned.estimator),
        parameters,
        tuned.kind.hidden_units,
        problem.columns,
        len(tuned.kind.rows),
        len(problem.dataset.train),
        len(test),
        tuned.chosen.converged,
        float(np.mean(correct)),
        *paired_difference(network, correct),
        round(tuned.seconds, 3),
    )


def _parameter_count(estimator: Any) -> int:
    """Return the number of fitted parameters of an estimator."""
    if hasattr(estimator, "coefs_"):
        return sum(array.size for array in (*estimator.coefs_, *estimator.intercepts_))
    weights = estimator.dual_coef_ if hasattr(estimator, "dual_coef_") else estimator.coef_
    return int(weights.size + estimator.intercept_.size)
