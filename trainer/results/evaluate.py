"""The inference error of an exported model on held-out samples."""

import csv
import dataclasses
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from trainer import data
from trainer.config import from_saved
from trainer.data import Samples
from trainer.errors import ArtifactError, TrainingError
from trainer.folders import new_folder
from trainer.results import export
from trainer.results.serving import fresh_mse
from trainer.shots import sampled_outputs
from trainer.training.batches import shard

logger = logging.getLogger("qcnn")

_BATCH = 1024
_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Predictions beside the samples they are for, the metrics of the whole experiment, and what model.json holds."""

    description: dict[str, Any]
    samples: Samples
    predictions: npt.NDArray[np.float64]
    metrics: dict[str, float]

    def rows(self) -> Iterator[tuple[int, float, int, float]]:
        """Yield qubit, angle, label and prediction of every sample."""
        samples = self.samples
        columns = (samples.qubit, samples.angle, samples.label, self.predictions)
        yield from zip(*(column.tolist() for column in columns), strict=True)


def evaluate(model_folder: Path, dataset: data.Dataset) -> Evaluation:
    """Predict the test split with an exported model.

    Where the experiment has shots, predictions, `mse` and `accuracy` are those of sampled readouts, and `exact_mse`
    and `exact_accuracy` stand beside them. `fresh_mse`, over the experiment's fresh samples, is always exact.

    Raises:
        ArtifactError: model or dataset cannot be used, or do not belong together.
        TrainingError: a metric is not finite, which Kubeflow's Metrics would only notice later.

    After the example of `trainer.results.export.export`:

    >>> from pathlib import Path
    >>> from trainer import data
    >>> from trainer.results import export
    >>> _, config = export.describe(Path("model"))
    >>> evaluation = evaluate(Path("model"), data.generate(config))
    >>> len(evaluation.predictions), evaluation.metrics["epochs"]
    (6, 2.0)
    >>> 0 <= evaluation.metrics["accuracy"] <= 1
    True
    """
    model, description = export.load(model_folder)
    config = from_saved(description["experiment"])
    data.check_fits(dataset, config)
    if dataset.digest != description["dataset_digest"]:
        raise ArtifactError(
            f"dataset: must be the one that the model was trained on ({description['dataset_digest'][:12]}), or its "
            f"test split is not held out. Given: {dataset.digest[:12]}"
        )
    predictions = predict(model, dataset.test)
    metrics = score(dataset.test, predictions)
    if config.options.shots:
        predictions = predict_from_shots(model, dataset.test, config.options.shots, config.seed)
        exact = {f"exact_{name}": value for name, value in metrics.items()}
        metrics = {**score(dataset.test, predictions), **exact}
    metrics = {**metrics, "fresh_mse": fresh_mse(model, config), **_training_metrics(description)}
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise TrainingError(f"{name}: must be finite to be published. Given: {value}")
    return Evaluation(description, dataset.test, predictions, metrics)


def predict(model: tf_keras.Model, samples: Samples) -> npt.NDArray[np.float64]:
    """Return the prediction for every sample, float64 (samples,)."""
    outputs: npt.NDArray[np.float64] = model.predict((samples.qubit, samples.angle), batch_size=_BATCH, verbose=0)
    return outputs[:, 0]


def predict_from_shots(model: tf_keras.Model, samples: Samples, shots: int, seed: int) -> npt.NDArray[np.float64]:
    """Return the prediction for every sample from sampled readouts, float64 (samples,)."""
    batches = -(-len(samples) // _BATCH)
    shards = shard(samples, _BATCH, 1).sampled(shots, data.shot_seeds("test", seed, 0, batches))
    arrays = shards.arrays
    qubit, angle, draw = (tf.constant(arrays[name][:, 0]) for name in ("qubit", "angle", "draw"))
    quantum = model.get_layer("quantum")

    @tf.function
    def outputs(batch: tf.Tensor) -> tf.Tensor:
        return sampled_outputs(model, quantum.readouts(qubit[batch], angle[batch]), draw[batch])[:, 0]

    predictions: npt.NDArray[np.float64] = np.concatenate([outputs(batch).numpy() for batch in tf.range(batches)])
    # The last batch is padded.
    return predictions[: len(samples)]


def score(samples: Samples, predictions: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the mean squared error and the share of predictions with the label's sign (zero counts as +1)."""
    error = predictions - samples.label
    return {
        "mse": float(np.mean(error**2)),
        "accuracy": float(np.mean((predictions >= 0) == (samples.label > 0))),
    }


def confusion(samples: Samples, predictions: npt.NDArray[np.float64]) -> list[list[int]]:
    """Count the predictions of each sign (columns, -1 and +1) for each label (rows, -1 and +1); zero counts as +1."""
    signs = (False, True)
    positive = predictions >= 0
    return [[int(np.sum(((samples.label > 0) == label) & (positive == sign))) for sign in signs] for label in signs]


def report(evaluation: Evaluation) -> None:
    """Log the first predictions beside their labels, then the error over all of them."""
    logger.info("qubit    angle  label  prediction")
    for row, (qubit, angle, label, prediction) in enumerate(evaluation.rows()):
        if row == _SHOWN:
            logger.info("... %d more in predictions.csv", len(evaluation.samples) - _SHOWN)
            break
        logger.info("%5d %8.4f %+6d %11.4f", qubit, angle, label, prediction)
    metrics = evaluation.metrics
    logger.info(
        "mse %.6f, sign accuracy %.4f over %d samples",
        metrics["mse"],
        metrics["accuracy"],
        len(evaluation.samples),
    )
    logger.info("mse %.6f over %d fresh samples", metrics["fresh_mse"], data.FRESH_SAMPLES)
    if "exact_mse" in metrics:
        values = metrics["exact_mse"], metrics["exact_accuracy"]
        logger.info("without the noise of shots: mse %.6f, sign accuracy %.4f", *values)


def save_predictions(evaluation: Evaluation, folder: Path) -> None:
    """Write predictions.csv (qubit, angle, label, prediction) into a new folder."""
    with (
        new_folder(folder) as unfinished,
        (unfinished / "predictions.csv").open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(("qubit", "angle", "label", "prediction"))
        writer.writerows(evaluation.rows())


def _training_metrics(description: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in description["training"].items()}
