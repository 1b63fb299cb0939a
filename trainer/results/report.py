"""The report of a run: one page with its curves, its errors beside the least possible, and what it was made from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.data import Samples
from trainer.quantum.floor import Floor, floor_of
from trainer.results import figures, page
from trainer.results.page import Figure
from trainer.training.history import Epoch

_NO_FLOOR = "No least possible error is known for this model, so none is claimed."


def report_page(
    description: Mapping[str, Any],
    history: Sequence[Epoch],
    samples: Samples,
    predictions: npt.NDArray[np.float64],
    metrics: Mapping[str, float],
) -> str:
    """Return the page as HTML; equal input gives equal bytes.

    `description` is the content of model.json, `predictions` (samples,) are those of the test split.
    """
    experiment = dict(description["experiment"])
    floor = floor_of(experiment["model"], experiment["hidden_activation"])
    experiment.update(experiment.pop("options"))
    network = f"{experiment['model']}, {experiment['qubits']} qubits, seed {experiment['seed']}"
    return page.document(
        "Quantum convolutional network",
        f"{network}, trained for {len(history)} of {experiment['epochs']} epochs",
        [
            page.tiles(_headline(metrics, floor)),
            page.heading("Figures"),
            page.columns(
                page.figure(figure)
                for figure in (
                    _losses(history, floor),
                    _predictions(samples, predictions, floor),
                    _by_qubit(samples, predictions, experiment["qubits"], floor),
                    _beside_floor(metrics, floor),
                )
            ),
            page.heading("Parameters"),
            page.columns(map(page.pairs, _halves(experiment))),
            page.heading("Metrics and provenance"),
            page.columns([page.pairs(_rounded(metrics)), page.pairs(_provenance(description))]),
        ],
    )


def qubit_errors(samples: Samples, predictions: npt.NDArray[np.float64], qubits: int) -> npt.NDArray[np.float64]:
    """Return the mean squared error of each qubit's samples (qubits,), nan where it has none."""
    count = np.bincount(samples.qubit, minlength=qubits)
    total = np.bincount(samples.qubit, (predictions - samples.label) ** 2, minlength=qubits)
    return np.divide(total, count, out=np.full(qubits, np.nan), where=count > 0)


def _headline(metrics: Mapping[str, float], floor: Floor | None) -> dict[str, str]:
    return {
        "Test MSE": f"{metrics['mse']:.4f}",
        "Fresh MSE": f"{metrics['fresh_mse']:.4f}",
        "Floor of the MSE": f"{floor.mse:.4f}" if floor else "not known",
        "Sign accuracy": f"{metrics['accuracy']:.4f}",
        "Training loss": f"{metrics['train_loss']:.4f}",
        "Validation loss": f"{metrics['val_loss']:.4f}",
    }


def _losses(history: Sequence[Epoch], floor: Floor | None) -> Figure:
    curves = [[epoch.train_loss for epoch in history], [epoch.val_loss for epoch in history]]
    colors = (figures.TRAIN, figures.VALIDATION)
    svg = figures.loss_curves(curves, colors, "Loss", labels=("training", "validation"), floor=floor)
    return Figure("Loss", svg, "Mean squared error of every epoch.")


def _predictions(samples: Samples, predictions: npt.NDArray[np.float64], floor: Floor | None) -> Figure:
    title = "Prediction against angle"
    best = f"Best possible: {floor.slope:.4f} cos(angle)." if floor else _NO_FLOOR
    svg = figures.predictions(samples, predictions, floor, title)
    return Figure(title, svg, f"The {len(samples)} test samples. {best}")


def _by_qubit(samples: Samples, predictions: npt.NDArray[np.float64], qubits: int, floor: Floor | None) -> Figure:
    title = "Error by qubit"
    count = np.bincount(samples.qubit, minlength=qubits)
    svg = figures.error_by_qubit(qubit_errors(samples, predictions, qubits), floor, title)
    return Figure(title, svg, f"Over the test samples that excite it, from {count.min()} to {count.max()} a qubit.")


def _beside_floor(metrics: Mapping[str, float], floor: Floor | None) -> Figure:
    title = "Error beside its floor"
    errors = {
        "training": metrics["train_loss"],
        "validation": metrics["val_loss"],
        "test": metrics["mse"],
        "fresh": metrics["fresh_mse"],
    }
    colors = (figures.TRAIN, figures.VALIDATION, figures.TEST, figures.FRESH)
    svg = figures.error_beside_floor(errors, colors, floor, title)
    chance = "The floor holds over fresh samples; a small split may fall below it by chance."
    return Figure(title, svg, chance if floor else _NO_FLOOR)


def _halves(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    items = list(values.items())
    middle = -(-len(items) // 2)
    return [dict(items[:middle]), dict(items[middle:])]


def _rounded(metrics: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{value:.6g}" for name, value in metrics.items()}


def _provenance(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells this run from another with the same parameters."""
    digests = {name: description[name] for name in ("dataset_digest", "weights_sha256") if name in description}
    # The whole experiment stands above, as parameters.
    source = {name: value for name, value in description.get("provenance", {}).items() if name != "experiment"}
    return {**source, **digests}
