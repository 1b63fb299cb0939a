"""Evaluation of an exported model on the test split."""

import csv
import dataclasses
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras
from tabulate import tabulate

from qcnn import data
from qcnn.atomic_files import new_folder
from qcnn.data import Samples
from qcnn.data.samples import LABEL, NOISE_ERROR, PREDICTION, ROW
from qcnn.errors import ArtifactError, TrainingError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.saved import from_saved
from qcnn.model.batches import shard
from qcnn.model.checkpoints import Checkpoint
from qcnn.model.network import predictions_of
from qcnn.model.optimizer import assign
from qcnn.model.shots import sampled_outputs
from qcnn.model.signs import has_sign, signs_match, unsigned_message
from qcnn.results import export
from qcnn.results.class_scores import (
    Confusion,
    confusion_of_classes,
    is_undetermined,
    prediction_columns,
    scores_of_probabilities,
    squared_loss,
)
from qcnn.results.noise_estimate import predict_from_trajectories
from qcnn.results.serving import fresh_mse, simulated_predictor

logger = logging.getLogger("qcnn")

_BATCH = 1024
# Maximum numbers of samples and columns to log. The columns include label and prediction.
_LOGGED_SAMPLES, _LOGGED_COLUMNS = 10, 8


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """Test samples with predictions, metrics of the experiment, and the content of model.json.

    Predictions are numbers (samples,), or with loss cross_entropy probabilities (samples, classes). `layout` is the
    feature layout of the samples. `errors` are the standard errors of estimated predictions, or None. `rounding` is the
    bound below which predictions have no sign, see `qcnn.model.signs`. `parameters` is the number of trainable
    parameters of the network.
    """

    description: dict[str, Any]
    samples: Samples
    predictions: npt.NDArray[np.float64]
    metrics: dict[str, float]
    layout: data.FeatureLayout = data.EXCITATIONS
    errors: npt.NDArray[np.float64] | None = None
    rounding: float = 0.0
    parameters: int = 0

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Columns of predictions.csv by name: row of a data file, inputs without amplitudes, label and prediction.

        Estimated predictions have a column for their standard error.
        """
        columns = {
            **({} if self.samples.row is None else {ROW: self.samples.row}),
            **self.layout.recover_columns(self.samples.inputs),
            **self.samples.values,
            **self.samples.known,
            LABEL: self.samples.label,
            **self._predicted,
            **({} if self.errors is None else {NOISE_ERROR: self.errors}),
        }
        if self.layout.is_classification:
            columns[LABEL] = np.array(self.layout.classes, object)[self.samples.label]
        return {name: column.tolist() for name, column in columns.items()}

    @property
    def confusion(self) -> Confusion:
        """Confusion matrix of labels and predicted classes, empty for a regression."""
        if self.layout.is_regression:
            return Confusion((), ())
        if self.layout.is_classification:
            matrix = confusion_of_classes(self.samples.label, self.predictions, self.rounding)
        else:
            matrix = confusion(self.samples, self.predictions, self.rounding)
        return Confusion(self.layout.class_names, matrix)

    @property
    def _predicted(self) -> dict[str, npt.NDArray[Any]]:
        if self.layout.is_classification:
            return dict(prediction_columns(self.predictions, self.layout))
        return {PREDICTION: self.predictions}


def evaluate(model_folder: Path, dataset: data.Dataset) -> EvaluationResult:
    """Predict the test split with an exported model.

    If the experiment has shots, predictions, `mse`, which is also the `loss`, and `accuracy` are those of sampled
    readouts, and `exact_mse` and `exact_accuracy` those of exact readouts. The same applies if noise is estimated from
    trajectories. Then predictions have standard errors, and `noise_error` is the standard error of `mse`. `fresh_mse`
    on the experiment's fresh samples is always computed with the exact readouts of training. A regression has `r2`
    instead of accuracies. With loss cross_entropy, the metrics are those of `scores_of_probabilities`.

    Raises:
        ArtifactError: If model or dataset cannot be used, or do not match.
        TrainingError: If a metric is not finite, which Kubeflow's Metrics would only report later.

    After the example of `qcnn.results.export.export`:

    >>> from pathlib import Path
    >>> from qcnn import data
    >>> from qcnn.results.model_folder import describe
    >>> _, config = describe(Path("model"))
    >>> evaluation = evaluate(Path("model"), data.generate(config))
    >>> len(evaluation.predictions), evaluation.metrics["epochs"]
    (6, 2.0)
    >>> 0 <= evaluation.metrics["accuracy"] <= 1
    True
    """
    model, description = export.load(model_folder)
    config = from_saved(description["experiment"])
    _check_dataset(dataset, config, description["dataset_digest"])
    return _evaluate(model, config, dataset, description)


def evaluate_checkpoint(checkpoint: Checkpoint, dataset: data.Dataset, model: tf_keras.Model) -> EvaluationResult:
    """Predict the test split with the weights that a checkpoint exports, see `evaluate`.

    The description in the result has the metrics of training only.

    Args:
        checkpoint: Last checkpoint of a complete training run.
        dataset: Dataset of the training run.
        model: Model of the experiment, whose weights are replaced.

    Raises:
        ArtifactError: If the dataset does not match.
        TrainingError: If a metric is not finite.
    """
    _check_dataset(dataset, checkpoint.config, checkpoint.dataset_digest)
    assign(model.trainable_variables, export.exported_weights(checkpoint))
    return _evaluate(model, checkpoint.config, dataset, {"training": export.training_metrics(checkpoint)})


def _check_dataset(dataset: data.Dataset, config: ExperimentConfig, digest: str) -> None:
    data.check_fits(dataset, config)
    if dataset.digest != digest:
        raise ArtifactError(
            f"dataset: must be the dataset of the training run (digest {digest[:12]}), so that its test split is held "
            f"out. Given: {dataset.digest[:12]}"
        )


def _evaluate(
    model: tf_keras.Model, config: ExperimentConfig, dataset: data.Dataset, description: dict[str, Any]
) -> EvaluationResult:
    predictions, rounding = predict(model, dataset.test), model.get_layer("quantum").rounding

    def score() -> dict[str, float]:
        if dataset.layout.is_classification:
            return scores_of_probabilities(dataset.test.label, predictions, dataset.layout.classes, rounding)
        if dataset.layout.is_regression:
            return scores_of_regression(dataset.test, predictions)
        return scores_of_classes(dataset.test, predictions, rounding)

    metrics = score()
    if config.options.shots:
        predictions, rounding = predict_from_shots(model, dataset.test, config.options.shots, config.seed), 0.0
        exact = {f"exact_{name}": value for name, value in metrics.items()}
        metrics = {**score(), **exact}
    errors = None
    if noise := config.noise_by_trajectories:
        estimated = predict_from_trajectories(model, config, dataset.test, noise)
        predictions, errors = estimated.predictions, estimated.errors
        exact = {f"exact_{name}": value for name, value in metrics.items()}
        metrics = {**score(), "noise_error": estimated.mse_error, **exact}
    fresh = fresh_mse(model, config)
    metrics |= {} if fresh is None else {"fresh_mse": fresh}
    metrics |= _training_metrics(description)
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise TrainingError(f"{name}: must be finite. Given: {value}")
    parameters = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    return EvaluationResult(
        description, dataset.test, predictions, metrics, dataset.layout, errors, rounding, parameters
    )


def predict(model: tf_keras.Model, samples: Samples) -> npt.NDArray[np.float64]:
    """Return the predictions for samples, float64 (samples,) or (samples, classes)."""
    return simulated_predictor(model)(samples.inputs)


def predict_from_shots(model: tf_keras.Model, samples: Samples, shots: int, seed: int) -> npt.NDArray[np.float64]:
    """Return the predictions for samples from sampled readouts, float64 (samples,) or (samples, classes).

    Args:
        model: Model of the experiment.
        samples: Samples of the test split.
        shots: Measurement shots per readout.
        seed: Seed of the experiment.
    """
    batches = -(-len(samples) // _BATCH)
    shards = shard(samples, _BATCH, 1).sampled(shots, data.shot_seeds("test", seed, 0, batches))
    arrays = shards.arrays
    inputs = {name: tf.constant(values[:, 0]) for name, values in shards.inputs.items()}
    draw = tf.constant(arrays["draw"][:, 0])
    quantum = model.get_layer("quantum")

    @tf.function(autograph=False)
    def outputs(batch: tf.Tensor) -> tf.Tensor:
        share = {name: values[batch] for name, values in inputs.items()}
        return predictions_of(sampled_outputs(model, quantum.strings(share), draw[batch]))

    predictions: npt.NDArray[np.float64] = np.concatenate([outputs(batch).numpy() for batch in tf.range(batches)])
    # Remove the padding of the last batch.
    return predictions[: len(samples)]


def scores_of_regression(samples: Samples, predictions: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the loss, which is the mean squared error, and r2 unless all labels are equal."""
    label = samples.label
    # Relative to the first label, the variance of equal labels is exactly 0, because no mean is rounded.
    mse, variance = float(np.mean((predictions - label) ** 2)), float(np.var(label - label[:1]))
    return {**squared_loss(mse), **({"r2": 1 - mse / variance} if variance else {})}


def scores_of_classes(
    samples: Samples, predictions: npt.NDArray[np.float64], rounding: float = 0.0
) -> dict[str, float]:
    """Return the loss, which is the mean squared error, and the fraction of predictions with the label's sign.

    Args:
        samples: Samples of the test split.
        predictions: Predictions for the samples, (samples,).
        rounding: Bound below which predictions have no sign, see `qcnn.model.signs`.
    """
    error = predictions - samples.label
    return {
        **squared_loss(float(np.mean(error**2))),
        "accuracy": float(np.mean(signs_match(samples.label, predictions, rounding))),
    }


def confusion(samples: Samples, predictions: npt.NDArray[np.float64], rounding: float = 0.0) -> list[list[int]]:
    """Return the confusion matrix of labels (rows) and signs of predictions (columns), -1 and +1.

    A prediction without a sign is in the column of the other class. See `scores_of_classes` for the arguments.
    """
    signs, positive = (False, True), samples.label > 0
    predicted = positive == signs_match(samples.label, predictions, rounding)
    return [[int(np.sum((positive == label) & (predicted == sign))) for sign in signs] for label in signs]


def report(evaluation: EvaluationResult) -> None:
    """Log the first predictions with their labels, then the metrics of all predictions."""
    columns = list(evaluation.columns.items())[-_LOGGED_COLUMNS:]
    cells = {name: [*map(_text, column[:_LOGGED_SAMPLES])] for name, column in columns}
    align = ["right"] * len(cells)
    for line in tabulate(cells, "keys", "plain", disable_numparse=True, colalign=align).splitlines():
        logger.info("%s", line)
    metrics, count = evaluation.metrics, len(evaluation.samples)
    if count > _LOGGED_SAMPLES:
        logger.info("... %d more in predictions.csv", count - _LOGGED_SAMPLES)
    logger.info("%s over %d samples", _format_errors(metrics), count)
    if not evaluation.layout.is_regression and (unsigned := _count_unsigned(evaluation)):
        logger.warning("%s", unsigned_message(unsigned, count, evaluation.rounding))
    if "fresh_mse" in metrics:
        logger.info("mse %.6f over %d fresh samples", metrics["fresh_mse"], data.FRESH_SAMPLES)
    if "noise_error" in metrics:
        logger.info("standard error of mse under noise, from trajectories: %.6f", metrics["noise_error"])
    if "exact_loss" in metrics:
        what = "noise" if "noise_error" in metrics else "shot noise"
        logger.info("without %s: %s", what, _format_errors(metrics, "exact_"))


def _count_unsigned(evaluation: EvaluationResult) -> int:
    """Return the number of predictions whose class is not determined up to rounding."""
    if evaluation.layout.is_classification:
        return int(np.sum(is_undetermined(evaluation.predictions, evaluation.rounding)))
    return int(np.sum(~has_sign(evaluation.predictions, evaluation.rounding)))


def _text(value: float | str) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _format_errors(metrics: Mapping[str, float], prefix: str = "") -> str:
    """Return the loss, and accuracy or r2, as text."""
    formats = {"mse": "mse {:.6f}", "accuracy": "sign accuracy {:.4f}", "r2": "r2 {:.4f}"}
    if f"{prefix}mse" not in metrics:
        formats = {
            "loss": "loss {:.6f}",
            "accuracy": "accuracy {:.4f}",
            "balanced_accuracy": "balanced accuracy {:.4f}",
        }
    values = {name: metrics.get(f"{prefix}{name}") for name in formats}
    return ", ".join(formats[name].format(value) for name, value in values.items() if value is not None)


def save_predictions(evaluation: EvaluationResult, folder: Path) -> None:
    """Write predictions.csv with one row per sample into a new folder."""
    with (
        new_folder(folder) as unfinished,
        (unfinished / "predictions.csv").open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(evaluation.columns)
        writer.writerows(zip(*evaluation.columns.values(), strict=True))


def _training_metrics(description: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in description["training"].items()}
