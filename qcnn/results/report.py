"""HTML reports of runs and predictions: plots, errors and their lower bound, and provenance."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from qcnn import data
from qcnn.circuits.chains import CHAINS, chain_of
from qcnn.circuits.error_bound import ErrorBound, error_bound
from qcnn.data import Samples
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.fields import EXCITATIONS
from qcnn.experiment.parsing import with_display_values
from qcnn.model.history import EpochMetrics
from qcnn.results import html, plots
from qcnn.results.baseline_columns import describe_columns
from qcnn.results.baselines import INTERVAL, INTERVAL_SOURCE, Baseline
from qcnn.results.class_scores import Confusion
from qcnn.results.error_accumulator import ClassAccumulator, ErrorAccumulator
from qcnn.results.html import ReportFigure
from qcnn.results.local_run import BASELINES_FILE
from qcnn.results.metric_titles import BASELINES, titled_metrics

# Titles of metrics, in the order of the page.
_HEADLINE = {
    "mse": "Test MSE",
    "fresh_mse": "Fresh MSE",
    "r2": "Test R2",
    "loss": "Test loss",
    "accuracy": "Sign accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "brier_score": "Brier score",
    "roc_auc": "ROC AUC",
    "train_loss": "Training loss",
    "val_loss": "Validation loss",
}
_NO_BOUND = "No MSE lower bound is known for this model."
_DIAGONAL = "Exact predictions are on the diagonal."
# Classes that one number from -1 to 1 distinguishes.
_SIGNS = 2
_SIGN = "The sign of a prediction is its class."


def report_page(
    description: Mapping[str, Any],
    history: Sequence[EpochMetrics],
    samples: Samples,
    predictions: npt.NDArray[np.float64],
    metrics: Mapping[str, float],
    confusion: Confusion | None = None,
    baselines: Sequence[Baseline] = (),
) -> str:
    """Return the HTML report of a run, with equal bytes for equal input.

    Args:
        description: Content of model.json.
        history: Epochs of training.
        samples: Samples of the test split.
        predictions: Predictions for the test split, (samples,) or (samples, classes).
        metrics: Metrics of the evaluation.
        confusion: Confusion matrix of classes with names.
        baselines: Results of classical models.
    """
    subject, experiment = ReportedRun.of(description), with_display_values(description["experiment"])
    experiment.update(experiment.pop("options"))
    network = f"{experiment['model']}, {experiment['qubits']} qubits, seed {experiment['seed']}"
    if noise := experiment.get("noise"):
        network += f", noise {noise}"
    figures = subject.loss_figure(history), *subject.evaluation_figures(samples, predictions, metrics, confusion)
    return html.document(
        "Quantum convolutional network",
        f"{network}, trained for {len(history)} of {experiment['epochs']} epochs",
        [
            html.tiles(_headline(metrics, subject.bound, is_generated=subject.is_generated)),
            html.heading("Figures"),
            html.columns(map(_figure_on_page, figures)),
            *_baseline_section(baselines, subject.layout),
            html.heading("Experiment"),
            html.columns(map(html.pairs, _halves(experiment))),
            html.heading("Metrics and provenance"),
            html.columns([html.pairs(_format_metrics(metrics)), html.pairs(_provenance(description))]),
        ],
    )


def _baseline_section(baselines: Sequence[Baseline], layout: data.FeatureLayout) -> Iterator[str]:
    """Yield heading, table and notes of classical models, or nothing without them."""
    if not baselines:
        return
    header = (
        *("model", "test accuracy", "network minus model", "95 % interval", "parameters"),
        *("settings", "validation accuracy", "training rows", "seconds"),
    )
    yield html.heading("Classical models")
    yield html.plain_table(header, [_baseline_cells(each) for each in baselines])
    first = baselines[0]
    yield html.note(
        f"scikit-learn on the same split of the same data: {first.columns} columns ({describe_columns(layout)}). "
        "Models are fitted to training rows only. The settings with the highest accuracy on the validation split are "
        f"chosen, of equal ones those with the lowest log loss; {BASELINES_FILE} has all of them. The network has "
        f"{first.network_parameters} trainable parameters, and the perceptron the number of hidden units with which it "
        "is nearest to that."
    )
    yield html.note(
        f"Differences are over the same {first.test_rows} test rows. Interval: {INTERVAL} with b rows that only the "
        f"network classifies correctly, c that only the model does, and n rows ({INTERVAL_SOURCE})."
    )
    for each in baselines:
        if not each.converged:
            yield html.note(f"{BASELINES[each.model]}: the fit ended at its maximum number of iterations.")


def _baseline_cells(baseline: Baseline) -> list[str]:
    chosen = next(each for each in baseline.tried if each.settings == baseline.settings)
    hidden = f" ({baseline.hidden_units} hidden units)" if baseline.hidden_units else ""
    all_rows = baseline.train_rows == baseline.available_rows
    return [
        BASELINES[baseline.model],
        f"{baseline.accuracy:.4f}",
        f"{baseline.difference:+.4f}",
        f"{baseline.difference_low:+.4f} to {baseline.difference_high:+.4f}",
        f"{baseline.parameters}{hidden}",
        ", ".join(f"{name} {value:.3g}" for name, value in baseline.settings.items()),
        f"{chosen.accuracy:.4f}",
        f"{baseline.train_rows}" if all_rows else f"{baseline.train_rows} of {baseline.available_rows}, random",
        f"{baseline.seconds:.1f}",
    ]


@dataclasses.dataclass(frozen=True)
class CaptionedFigure:
    """Figure with its title and caption."""

    title: str
    figure: Figure
    caption: str

    @property
    def name(self) -> str:
        """Title as a name in Python."""
        return self.title.lower().replace(" ", "_")


@dataclasses.dataclass(frozen=True)
class ReportedRun:
    """Properties of a run on which its figures depend.

    Attributes:
        layout: Layout of its samples.
        qubits: Number of qubits.
        source: Experiment field `data`.
        is_generated: Whether the samples are generated excitations. Only their error has a lower bound.
        bound: MSE lower bound, or None if it is not known.
    """

    layout: data.FeatureLayout
    qubits: int
    source: str
    is_generated: bool
    bound: ErrorBound | None

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> "ReportedRun":
        """Return the properties of a run.

        Args:
            description: Content of model.json.
        """
        experiment, (layout, _) = with_display_values(description["experiment"]), data.parse_description(description)
        # Other data, and other losses, have no bound.
        is_generated = experiment.get("data", EXCITATIONS) == EXCITATIONS and not layout.is_classification
        bound = error_bound(experiment["model"], experiment["hidden_activation"]) if is_generated else None
        source = experiment.get("data", EXCITATIONS)
        return cls(layout, experiment["qubits"], source, is_generated, bound)

    def loss_figure(self, history: Sequence[EpochMetrics]) -> CaptionedFigure:
        """Return the figure of the losses of every epoch."""
        return _losses(history, self.bound, self.layout)

    def evaluation_figures(
        self,
        samples: Samples,
        predictions: npt.NDArray[np.float64],
        metrics: Mapping[str, float],
        confusion: Confusion | None,
    ) -> Iterator[CaptionedFigure]:
        """Yield the figures of an evaluation on the test split.

        Args:
            samples: Samples of the test split.
            predictions: Predictions for the samples, (samples,) or (samples, classes).
            metrics: Metrics of the evaluation.
            confusion: Confusion matrix of classes with names.
        """
        if self.layout.is_classification:
            yield from _of_classes(samples, predictions, self.layout, confusion)
        else:
            yield from _of_samples(
                samples, predictions, self.qubits, self.layout, self.bound, is_generated=self.is_generated
            )
        yield from _phases(samples, predictions, self.layout, self.source)
        yield _errors(metrics, self.bound, self.layout, is_generated=self.is_generated)


def _figure_on_page(content: CaptionedFigure) -> str:
    svg = plots.to_svg(content.figure, content.title)
    return html.figure(ReportFigure(content.title, svg, content.caption))


def qubit_errors(samples: Samples, predictions: npt.NDArray[np.float64], qubits: int) -> npt.NDArray[np.float64]:
    """Return the mean squared error of each qubit's samples, (qubits,), NaN for qubits without samples.

    Args:
        samples: Excitations.
        predictions: Predictions, (samples,).
        qubits: Number of qubits.
    """
    count = np.bincount(samples.qubit, minlength=qubits)
    total = np.bincount(samples.qubit, (predictions - samples.label) ** 2, minlength=qubits)
    mean: npt.NDArray[np.float64] = np.divide(total, count, out=np.full(qubits, np.nan), where=count > 0)
    return mean


def _headline(metrics: Mapping[str, float], bound: ErrorBound | None, *, is_generated: bool) -> dict[str, str]:
    values = {title: f"{value:.4f}" for title, value in titled_metrics(metrics, _HEADLINE).items()}
    if is_generated:
        values["MSE lower bound"] = f"{bound.mse:.4f}" if bound else "not known"
    return values


def _of_samples(
    samples: Samples,
    predictions: npt.NDArray[np.float64],
    qubits: int,
    layout: data.FeatureLayout,
    bound: ErrorBound | None,
    *,
    is_generated: bool,
) -> Iterator[CaptionedFigure]:
    """Yield the figures of the test samples, against the angle for generated excitations."""
    count = f"The {len(samples)} test samples."
    if is_generated:
        yield _predictions(samples, predictions, bound)
    elif layout.is_regression:
        title = "Prediction against label"
        yield CaptionedFigure(title, plots.against_label(samples.label, predictions), f"{count} {_DIAGONAL}")
    else:
        title = "Predictions by label"
        yield CaptionedFigure(title, plots.by_label(samples.label, predictions), f"{count} {_SIGN}")
    if layout.preparation.kind == "excitation":
        yield _by_qubit(samples, predictions, qubits, bound)


def _of_classes(
    samples: Samples, probabilities: npt.NDArray[np.float64], layout: data.FeatureLayout, confusion: Confusion | None
) -> Iterator[CaptionedFigure]:
    """Yield the figures of test samples with classes."""
    if confusion:
        yield _confusion(confusion, f"The {len(samples)} test samples.")


def _phases(
    samples: Samples, predictions: npt.NDArray[np.float64], layout: data.FeatureLayout, source: str
) -> Iterator[CaptionedFigure]:
    """Yield the phase diagram of ground states.

    Args:
        samples: Test samples.
        predictions: Predictions, (samples,), or probabilities, (samples, classes).
        layout: Layout of the samples.
        source: Experiment field `data`.
    """
    title, names = "Phase diagram", layout.predicted_classes
    if len(samples.known) == 1:
        ((parameter, values),) = samples.known.items()
        figure = plots.along_parameter(parameter, values, predictions, samples.label, names)
        what = "Probability of each class" if names else "Prediction"
        yield CaptionedFigure(title, figure, f"{what} for each test sample.")
    elif samples.known:
        chain = chain_of(source) if source in CHAINS else None
        if len(names) > _SIGNS:
            classes = plots.Classes(names, samples.label)
            figure = plots.phase_diagram(samples.known, np.argmax(predictions, axis=1), chain, classes)
            text = "Most probable class of each test sample; the edge of a wrong one has the color of its class."
        elif names:
            figure = plots.phase_diagram(samples.known, 2 * predictions[:, 1] - 1, chain)
            text = f"Probability of {names[1]} from 0 to 1, as -1 to 1, by test sample."
        else:
            figure = plots.phase_diagram(samples.known, predictions, chain)
            text = "Prediction for each test sample."
        lines = chain.caption if chain and (len(names) > _SIGNS or not names) else ""
        yield CaptionedFigure(title, figure, f"{text} {lines}".strip())


def _confusion(confusion: Confusion, samples: str) -> CaptionedFigure:
    title = "Confusion matrix"
    figure = plots.confusion_matrix(confusion.matrix, confusion.classes)
    return CaptionedFigure(title, figure, f"{samples} Colors are fractions of a row.")


def _loss_name(layout: data.FeatureLayout) -> str:
    return plots.CROSS_ENTROPY if layout.is_classification else plots.MEAN_SQUARED_ERROR


def _losses(history: Sequence[EpochMetrics], bound: ErrorBound | None, layout: data.FeatureLayout) -> CaptionedFigure:
    curves = [[epoch.train_loss for epoch in history], [epoch.val_loss for epoch in history]]
    colors = (plots.TRAIN, plots.VALIDATION)
    name, labels = _loss_name(layout), ("training", "validation")
    figure = plots.loss_curves(curves, colors, labels=labels, bound=bound, loss_name=name)
    return CaptionedFigure("Loss", figure, f"{name.capitalize()} of every epoch.")


def _predictions(samples: Samples, predictions: npt.NDArray[np.float64], bound: ErrorBound | None) -> CaptionedFigure:
    title = "Prediction against angle"
    best = f"Best possible: {bound.slope:.4f} cos(angle)." if bound else _NO_BOUND
    figure = plots.predictions(samples, predictions, bound)
    return CaptionedFigure(title, figure, f"The {len(samples)} test samples. {best}")


def _by_qubit(
    samples: Samples, predictions: npt.NDArray[np.float64], qubits: int, bound: ErrorBound | None
) -> CaptionedFigure:
    title = "Error by qubit"
    count = np.bincount(samples.qubit, minlength=qubits)
    figure = plots.error_by_qubit(qubit_errors(samples, predictions, qubits), bound)
    return CaptionedFigure(
        title, figure, f"Mean over the test samples that excite the qubit, {count.min()} to {count.max()} per qubit."
    )


def _errors(
    metrics: Mapping[str, float], bound: ErrorBound | None, layout: data.FeatureLayout, *, is_generated: bool
) -> CaptionedFigure:
    title = "Error and lower bound" if is_generated else "Error by split"
    test = "loss" if layout.is_classification else "mse"
    names = {"training": "train_loss", "validation": "val_loss", "test": test, "fresh": "fresh_mse"}
    errors = {split: metrics[name] for split, name in names.items() if name in metrics}
    colors = (plots.TRAIN, plots.VALIDATION, plots.TEST, plots.FRESH)[: len(errors)]
    figure = plots.error_bars(errors, colors, bound, _loss_name(layout))
    chance = "The lower bound applies to fresh samples. A small split may be below it by chance."
    return CaptionedFigure(title, figure, "" if not is_generated else chance if bound else _NO_BOUND)


def _halves(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    items = list(values.items())
    middle = -(-len(items) // 2)
    return [dict(items[:middle]), dict(items[middle:])]


def _format_metrics(metrics: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{value:.6g}" for name, value in metrics.items()}


def _provenance(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return versions, environment and digests, which can differ between runs of the same experiment."""
    digests = {name: description[name] for name in ("dataset_digest", "weights_sha256") if name in description}
    # The experiment has a separate section.
    source = {name: value for name, value in description.get("provenance", {}).items() if name != "experiment"}
    return {**source, **digests}


_TITLES = {
    "mse": "MSE",
    "loss": "Cross-entropy",
    "accuracy": "Sign accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "brier_score": "Brier score",
    "roc_auc": "ROC AUC",
    "r2": "R2",
}


def prediction_page(config: ExperimentConfig, errors: ErrorAccumulator | ClassAccumulator, data: str) -> str:
    """Return the HTML report of predictions, with equal bytes for equal input.

    Args:
        config: Experiment of the model.
        errors: Metrics and sampled rows.
        data: Path or URI of the predicted file.
    """
    named = {title: f"{value:.4f}" for title, value in titled_metrics(errors.metrics, _TITLES).items()}
    return html.document(
        "Predictions",
        f"{config.model}, {config.qubits} qubits, of {data}",
        [
            html.tiles({"Rows": f"{errors.rows:,}", **named}),
            html.heading("Figures"),
            html.columns(map(_figure_on_page, figures_of_rows(errors))),
            html.heading("Metrics"),
            html.columns([html.pairs({name: f"{value:.6g}" for name, value in errors.metrics.items()})]),
        ],
    )


def figures_of_rows(errors: ErrorAccumulator | ClassAccumulator) -> Iterator[CaptionedFigure]:
    """Yield the figures of predictions for rows with labels.

    Args:
        errors: Metrics and sampled rows.
    """
    if isinstance(errors, ClassAccumulator):
        yield _confusion(errors.confusion, f"All {errors.rows:,} rows.")
        return
    sample = errors.sample
    label, prediction, count = sample["label"], sample["prediction"], len(sample["label"])
    rows = f"{count:,} of {errors.rows:,} rows, sampled at random." if count < errors.rows else f"All {count:,} rows."
    if errors.layout.preparation.kind == "excitation":
        angles = plots.against_angle(sample["angle"], label, prediction)
        yield CaptionedFigure("Prediction against angle", angles, rows)
        by_qubit = plots.error_by_qubit(errors.error_by_qubit, None)
        yield CaptionedFigure("Error by qubit", by_qubit, "Mean over all rows that excite the qubit.")
    elif errors.layout.is_regression:
        figure = plots.against_label(label, prediction)
        yield CaptionedFigure("Prediction against label", figure, f"{rows} {_DIAGONAL}")
    else:
        yield CaptionedFigure("Predictions by label", plots.by_label(label, prediction), f"{rows} {_SIGN}")
