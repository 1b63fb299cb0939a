"""The pages of a run and of a prediction: curves, errors beside the least possible, and what it was made from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn import data
from qcnn.circuits.error_bound import ErrorBound, error_bound
from qcnn.data import Samples
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import as_shown
from qcnn.fields import EXCITATIONS
from qcnn.model.history import EpochMetrics
from qcnn.results import html, plots
from qcnn.results.error_accumulator import ErrorAccumulator
from qcnn.results.html import ReportFigure

# In the order of the page.
_HEADLINE = {
    "mse": "Test MSE",
    "fresh_mse": "Fresh MSE",
    "r2": "Test R2",
    "accuracy": "Sign accuracy",
    "train_loss": "Training loss",
    "val_loss": "Validation loss",
}
_NO_FLOOR = "No least possible error is known for this model, so none is claimed."


def report_page(
    description: Mapping[str, Any],
    history: Sequence[EpochMetrics],
    samples: Samples,
    predictions: npt.NDArray[np.float64],
    metrics: Mapping[str, float],
) -> str:
    """Return the page as HTML; equal input gives equal bytes.

    `description` is the content of model.json, `predictions` (samples,) are those of the test split.
    """
    experiment, (layout, _) = as_shown(description["experiment"]), data.described(description)
    is_drawn = experiment.get("data", EXCITATIONS) == EXCITATIONS
    floor = error_bound(experiment["model"], experiment["hidden_activation"]) if is_drawn else None
    experiment.update(experiment.pop("options"))
    network = f"{experiment['model']}, {experiment['qubits']} qubits, seed {experiment['seed']}"
    if noise := experiment.get("noise"):
        network += f", noise {noise}"
    return html.document(
        "Quantum convolutional network",
        f"{network}, trained for {len(history)} of {experiment['epochs']} epochs",
        [
            html.tiles(_headline(metrics, floor, is_drawn=is_drawn)),
            html.heading("Figures"),
            html.columns(
                html.figure(figure)
                for figure in (
                    _losses(history, floor),
                    *_of_samples(samples, predictions, experiment["qubits"], layout, floor, is_drawn=is_drawn),
                    _errors(metrics, floor, is_drawn=is_drawn),
                )
            ),
            html.heading("Parameters"),
            html.columns(map(html.pairs, _halves(experiment))),
            html.heading("Metrics and provenance"),
            html.columns([html.pairs(_rounded(metrics)), html.pairs(_provenance(description))]),
        ],
    )


def qubit_errors(samples: Samples, predictions: npt.NDArray[np.float64], qubits: int) -> npt.NDArray[np.float64]:
    """Return the mean squared error of each qubit's samples (qubits,), nan where it has none."""
    count = np.bincount(samples.qubit, minlength=qubits)
    total = np.bincount(samples.qubit, (predictions - samples.label) ** 2, minlength=qubits)
    return np.divide(total, count, out=np.full(qubits, np.nan), where=count > 0)


def _headline(metrics: Mapping[str, float], floor: ErrorBound | None, *, is_drawn: bool) -> dict[str, str]:
    measured = {title: f"{metrics[name]:.4f}" for name, title in _HEADLINE.items() if name in metrics}
    if is_drawn:
        measured["Floor of the MSE"] = f"{floor.mse:.4f}" if floor else "not known"
    return measured


def _of_samples(
    samples: Samples,
    predictions: npt.NDArray[np.float64],
    qubits: int,
    layout: data.FeatureLayout,
    floor: ErrorBound | None,
    *,
    is_drawn: bool,
) -> Iterator[ReportFigure]:
    """Yield the figures of the test samples: by angle and qubit of excitations whose labels follow from their angle."""
    count = f"The {len(samples)} test samples."
    if is_drawn:
        yield _predictions(samples, predictions, floor)
    elif layout.is_regression:
        title = "Prediction against label"
        yield ReportFigure(
            title, plots.against_label(samples.label, predictions, title), f"{count} Best is the diagonal."
        )
    else:
        title = "Predictions of each label"
        yield ReportFigure(title, plots.by_label(samples.label, predictions, title), f"{count} The sign decides.")
    if {"h1", "h2"} <= samples.known.keys():
        title = "Phase diagram"
        svg = plots.phase_diagram(samples.known["h1"], samples.known["h2"], predictions, title)
        yield ReportFigure(title, svg, "Prediction for each test sample. Between the lines is the SPT phase, label +1.")
    if layout.preparation.kind == "excitation":
        yield _by_qubit(samples, predictions, qubits, floor)


def _losses(history: Sequence[EpochMetrics], floor: ErrorBound | None) -> ReportFigure:
    curves = [[epoch.train_loss for epoch in history], [epoch.val_loss for epoch in history]]
    colors = (plots.TRAIN, plots.VALIDATION)
    svg = plots.loss_curves(curves, colors, "Loss", labels=("training", "validation"), floor=floor)
    return ReportFigure("Loss", svg, "Mean squared error of every epoch.")


def _predictions(samples: Samples, predictions: npt.NDArray[np.float64], floor: ErrorBound | None) -> ReportFigure:
    title = "Prediction against angle"
    best = f"Best possible: {floor.slope:.4f} cos(angle)." if floor else _NO_FLOOR
    svg = plots.predictions(samples, predictions, floor, title)
    return ReportFigure(title, svg, f"The {len(samples)} test samples. {best}")


def _by_qubit(
    samples: Samples, predictions: npt.NDArray[np.float64], qubits: int, floor: ErrorBound | None
) -> ReportFigure:
    title = "Error by qubit"
    count = np.bincount(samples.qubit, minlength=qubits)
    svg = plots.error_by_qubit(qubit_errors(samples, predictions, qubits), floor, title)
    return ReportFigure(
        title, svg, f"Over the test samples that excite it, from {count.min()} to {count.max()} a qubit."
    )


def _errors(metrics: Mapping[str, float], floor: ErrorBound | None, *, is_drawn: bool) -> ReportFigure:
    title = "Error beside its floor" if is_drawn else "Error by split"
    names = {"training": "train_loss", "validation": "val_loss", "test": "mse", "fresh": "fresh_mse"}
    errors = {split: metrics[name] for split, name in names.items() if name in metrics}
    colors = (plots.TRAIN, plots.VALIDATION, plots.TEST, plots.FRESH)[: len(errors)]
    svg = plots.error_beside_floor(errors, colors, floor, title)
    chance = "The floor holds over fresh samples; a small split may fall below it by chance."
    return ReportFigure(title, svg, "" if not is_drawn else chance if floor else _NO_FLOOR)


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


_TITLES = {"mse": "MSE", "accuracy": "Sign accuracy", "r2": "R2"}


def prediction_page(config: ExperimentConfig, tally: ErrorAccumulator, data: str) -> str:
    """Return the page as HTML; equal input gives equal bytes. `data` is the file that was predicted."""
    tiles = {"Rows": f"{tally.rows:,}", **{_TITLES[name]: f"{value:.4f}" for name, value in tally.metrics.items()}}
    return html.document(
        "Predictions",
        f"{config.model}, {config.qubits} qubits, of {data}",
        [
            html.tiles(tiles),
            html.heading("Figures"),
            html.columns(map(html.figure, _figures(tally))),
            html.heading("Metrics"),
            html.columns([html.pairs({name: f"{value:.6g}" for name, value in tally.metrics.items()})]),
        ],
    )


def _figures(tally: ErrorAccumulator) -> list[ReportFigure]:
    kept = tally.kept
    label, prediction, count = kept["label"], kept["prediction"], len(kept["label"])
    rows = f"{count:,} of {tally.rows:,} rows, drawn at random." if count < tally.rows else f"All {count:,} rows."
    if tally.layout.preparation.kind == "excitation":
        title, shards_by_qubit = "Prediction against angle", "Error by qubit"
        svg = plots.error_by_qubit(tally.error_by_qubit, None, shards_by_qubit)
        return [
            ReportFigure(title, plots.against_angle(kept["angle"], label, prediction, title), rows),
            ReportFigure(shards_by_qubit, svg, "Over all rows that excite it."),
        ]
    if tally.layout.is_regression:
        title = "Prediction against label"
        return [ReportFigure(title, plots.against_label(label, prediction, title), f"{rows} Best is the diagonal.")]
    title = "Predictions of each label"
    return [ReportFigure(title, plots.by_label(label, prediction, title), f"{rows} The sign decides.")]
