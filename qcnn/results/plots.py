"""Figures of runs, and reproducible SVG of bounded size for pages."""

import dataclasses
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from qcnn.circuits.chains.chain import Chain
from qcnn.circuits.error_bound import ErrorBound
from qcnn.data import Samples
from qcnn.figures import NotebookFigure, complete_figure, figure_style

_Values = npt.NDArray[np.float64]
_Numbers = npt.NDArray[np.integer[Any]]
TRAIN, VALIDATION, TEST, FRESH, BOUND = "#0072b2", "#d55e00", "#3b4657", "#8b95a5", "#00845a"
# Colors of the best runs, and of all others.
DISTINCT = tuple(to_hex(color) for color in colormaps["tab10"].colors)  # type: ignore[attr-defined]
OTHERS = "#c4cad3"
# Names of losses.
MEAN_SQUARED_ERROR, CROSS_ENTROPY, VALIDATION_LOSS = "mean squared error", "cross-entropy", "validation loss"
# Names by value of the field loss.
LOSSES = {"mse": MEAN_SQUARED_ERROR, "cross_entropy": CROSS_ENTROPY}
# Inches, and maximum number of figures side by side.
_SIZE, _PANEL_COLUMNS = (5.0, 3.4), 3
# Largest confusion matrix whose counts and names fit.
_MAX_COUNTS, _MAX_NAMES = 12, 25
# A figure is about 500 pixels wide, so more points on a line, or more separate dots, would not be visible.
_POINTS = 600
_ALL_POINTS = 40_000
_DOTS = 2000
_BINS = 30
# On a linear axis, the early epochs of a curve with a larger range would flatten the late ones.
_LOG_RANGE = 20
# The same for values of a field, which are often spaced by factors.
_LOG_VALUES = 10
# Maximum number of characters of a label, and of all horizontal labels of an axis.
_MAX_LABEL, _TICK_LABELS = 24, 40
# The type stubs of matplotlib allow literal setting names only.
_STYLE: dict[Any, Any] = {
    # Text elements are small, searchable and accessible. The salt makes ids depend on the content only.
    "svg.fonttype": "none",
    "svg.hashsalt": "qcnn",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.parse_math": False,
    "axes.edgecolor": "#8b95a5",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#d9dee6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}


@dataclasses.dataclass(frozen=True)
class FieldPoints:
    """Values of a field with the loss and the color of each run."""

    values: Sequence[object]
    losses: Sequence[float]
    colors: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Classes:
    """Names of the classes of samples, and the number of the class of each sample, (samples,)."""

    names: Sequence[str]
    label: _Numbers


@figure_style(_STYLE)
def loss_curves(
    curves: Sequence[Sequence[float]],
    colors: Sequence[str],
    *,
    labels: Sequence[str] = (),
    bound: ErrorBound | None = None,
    loss_name: str = MEAN_SQUARED_ERROR,
) -> Figure:
    """Plot losses against epochs.

    Args:
        curves: Loss of each epoch, from epoch 1 on, for each curve.
        colors: Color of each curve.
        labels: Label of each curve in the legend, or empty for no legend.
        bound: MSE lower bound to plot.
        loss_name: Name of the loss.
    """
    figure, axes = _figure("epoch", loss_name)
    limit = max(2, min(_POINTS, _ALL_POINTS // max(1, len(curves))))
    for losses, color in zip(curves, colors, strict=True):
        epoch, loss = _downsample(np.asarray(losses, np.float64), limit)
        (line,) = axes.plot(epoch, loss, color=color, marker="o" if len(losses) == 1 else None, markersize=5)
        line.set_zorder(_zorder(color))
    for line, label in zip(axes.lines, labels, strict=False):
        line.set_label(label)
    if bound:
        axes.axhline(bound.mse, color=BOUND, linestyle="--", linewidth=1.2, label=_bound_label(bound))
    _scale_losses(axes, [loss for losses in curves for loss in losses], bound)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    if labels:
        axes.legend()
    return figure


@figure_style(_STYLE)
def loss_by_value(
    values: Sequence[object],
    losses: Sequence[float],
    colors: Sequence[str],
    field: str,
    loss_name: str = VALIDATION_LOSS,
) -> Figure:
    """Plot losses against the values of a field.

    Numbers have a linear axis, or a logarithmic one for a large range. Other values have equal distances.

    Args:
        values: Value of each run.
        losses: Loss of each run.
        colors: Color of each run.
        field: Name of the field.
        loss_name: Name of the loss.
    """
    figure, axes = _figure(field, loss_name)
    _plot_by_value(axes, values, losses, colors)
    return figure


@figure_style(_STYLE)
def losses_by_value(panels: Mapping[str, FieldPoints], loss_name: str) -> Figure:
    """Plot losses against the values of several fields, side by side.

    Args:
        panels: Points by name of the field.
        loss_name: Name of the loss.
    """
    columns = min(len(panels), _PANEL_COLUMNS)
    rows = -(-len(panels) // columns)
    figure = NotebookFigure(figsize=(_SIZE[0] * columns, _SIZE[1] * rows), layout="constrained")
    for number, (field, points) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(rows, columns, number)
        axes.set_xlabel(field)
        axes.set_ylabel(loss_name)
        _plot_by_value(axes, points.values, points.losses, points.colors)
    return figure


def _plot_by_value(axes: Axes, values: Sequence[object], losses: Sequence[float], colors: Sequence[str]) -> None:
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values):
        positions: Sequence[float] = numbers
        if min(numbers) > 0 and max(numbers) >= _LOG_VALUES * min(numbers):
            axes.set_xscale("log")
            _label_log_axis(axes.xaxis, subs=(1,) if max(numbers) > 1000 * min(numbers) else (1, 2, 5))
        elif all(isinstance(number, int) for number in numbers):
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    else:
        texts = sorted(set(map(str, values)))
        positions = [texts.index(str(value)) for value in values]
        is_wide = sum(map(len, texts)) > _TICK_LABELS
        style: dict[str, Any] = {"rotation": 30, "ha": "right", "fontsize": 8} if is_wide else {}
        axes.set_xticks(range(len(texts)), [_shorten(text) for text in texts], **style)
        axes.set_xlim(-0.5, len(texts) - 0.5)
    for color in dict.fromkeys(colors):
        points = [point for point, own in zip(zip(positions, losses, strict=True), colors, strict=True) if own == color]
        axes.plot(*zip(*points, strict=True), "o", color=color, markersize=6, markeredgewidth=0, zorder=_zorder(color))
    _scale_losses(axes, losses, None)


def _shorten(text: str) -> str:
    """Return text, with an ellipsis instead of its middle if it is long."""
    return (
        text
        if len(text) <= _MAX_LABEL
        else f"{text[: _MAX_LABEL // 2 - 1]}\N{HORIZONTAL ELLIPSIS}{text[-_MAX_LABEL // 2 :]}"
    )


def _zorder(color: str) -> float:
    """Return the order in which a curve is drawn: those in grey are below all others."""
    return 2.0 if color == OTHERS else 2.5


def _scale_losses(axes: Axes, losses: Sequence[float], bound: ErrorBound | None) -> None:
    """Scale the vertical axis for losses: from 0, or logarithmically for a large range."""
    values = [loss for loss in losses if 0 < loss < math.inf]
    if values and max(values) > _LOG_RANGE * min(values):
        axes.set_yscale("log")
        _label_log_axis(axes.yaxis)
    else:
        # A limit at the bottom would fix the top at the current one, which may be on the only marker.
        top = max([*values, *([bound.mse] if bound else [])], default=None)
        axes.set_ylim(0, top and 1.06 * top)


def _label_log_axis(axis: Axis, subs: Sequence[float] = (1, 2, 5)) -> None:
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


@figure_style(_STYLE)
def predictions(samples: Samples, predicted: npt.NDArray[np.float64], bound: ErrorBound | None) -> Figure:
    """Plot predictions of excitations against their angles, with labels and best predictions as curves.

    Args:
        samples: Excitations with labels -1 and +1.
        predicted: Predictions, (samples,).
        bound: MSE lower bound, whose best predictions to plot.
    """
    figure, axes = _figure("angle, rad", "prediction")
    angle = np.linspace(-np.pi, np.pi, 201)
    step = [-np.pi, -np.pi / 2, -np.pi / 2, np.pi / 2, np.pi / 2, np.pi]
    axes.plot(step, [-1, -1, 1, 1, -1, -1], color="#8b95a5", linewidth=1, label="label")
    for label, color, marker in ((1, TRAIN, "o"), (-1, VALIDATION, "s")):
        selected = samples.label == label
        (marks,) = axes.plot(
            samples.angle[selected], predicted[selected], marker, color=color, label=f"label {label:+d}"
        )
        marks.set(markersize=4, markeredgewidth=0, alpha=0.75, rasterized=len(samples) > _DOTS)
    if bound:
        axes.plot(angle, bound.predict(angle), color=BOUND, linestyle="--", label="best possible")
    _mark_angles(axes)
    return figure


@figure_style(_STYLE)
def against_angle(angle: _Values, label: _Values, predicted: _Values) -> Figure:
    """Plot predictions against angles, with separate markers for labels -1 and +1.

    Args:
        angle: Angles in rad, (rows,).
        label: Labels, (rows,).
        predicted: Predictions, (rows,).
    """
    figure, axes = _figure("angle, rad", "prediction")
    if set(np.unique(label)) <= {-1, 1}:
        for value, color, marker in ((1, TRAIN, "o"), (-1, VALIDATION, "s")):
            selected = label == value
            _dots(axes, angle[selected], predicted[selected], color, marker, f"label {value:+d}")
    else:
        _dots(axes, angle, label, FRESH, "s", "label")
        _dots(axes, angle, predicted, TRAIN, "o", "prediction")
    _mark_angles(axes)
    return figure


@figure_style(_STYLE)
def by_label(label: npt.NDArray[Any], predicted: npt.NDArray[np.float64]) -> Figure:
    """Plot histograms of predictions for labels -1 and +1.

    Args:
        label: Labels, (samples,).
        predicted: Predictions, (samples,).
    """
    figure, axes = _figure("prediction", "samples")
    edges = np.histogram_bin_edges(predicted, bins=_BINS)
    for sign, color in ((1, TRAIN), (-1, VALIDATION)):
        counts, _ = np.histogram(predicted[label == sign], edges)
        axes.stairs(counts, edges, fill=True, color=color, alpha=0.6, label=f"label {sign:+d}")
    axes.axvline(0, color="#8b95a5", linewidth=1)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=9)
    return figure


@figure_style(_STYLE)
def against_label(label: npt.NDArray[Any], predicted: npt.NDArray[np.float64]) -> Figure:
    """Plot predictions against real labels, with the diagonal.

    Args:
        label: Labels, (samples,).
        predicted: Predictions, (samples,).
    """
    figure, axes = _figure("label", "prediction")
    ends = [label.min(), label.max()]
    axes.plot(ends, ends, color="#8b95a5", linewidth=1)
    (marks,) = axes.plot(label, predicted, "o", color=TRAIN)
    marks.set(markersize=4, markeredgewidth=0, alpha=0.75, rasterized=len(label) > _DOTS)
    return figure


@figure_style(_STYLE)
def confusion_matrix(matrix: Sequence[Sequence[int]], classes: Sequence[str]) -> Figure:
    """Plot a confusion matrix, with the counts of few classes.

    Args:
        matrix: Counts, with labels in rows and predicted classes in columns.
        classes: Names of the classes.
    """
    figure, axes = _figure("prediction", "label")
    counts = np.array(matrix)
    # Rows have different numbers of samples.
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
    axes.grid(visible=False)
    if len(classes) <= _MAX_NAMES:
        shown = [_shorten(each) for each in classes]
        is_wide = sum(map(len, shown)) > _TICK_LABELS
        axes.set_xticks(range(len(classes)), shown, rotation=90 if is_wide else 0)
        axes.set_yticks(range(len(classes)), shown)
    if len(classes) <= _MAX_COUNTS:
        for (row, column), count in np.ndenumerate(counts):
            color = "white" if shares[row, column] > 1 / 2 else "black"
            axes.text(column, row, str(count), ha="center", va="center", color=color, fontsize=9)
    return figure


@figure_style(_STYLE)
def phase_diagram(
    known: Mapping[str, _Values],
    predicted: _Values,
    chain: Chain | None = None,
    classes: Classes | None = None,
) -> Figure:
    """Plot predictions of ground states at their two parameters, and the lines of the phase diagram.

    Args:
        known: Values of both parameters by name, (samples,) each.
        predicted: Predictions, (samples,), or the numbers of the predicted classes.
        chain: Chain, whose lines to plot, or None for a custom Hamiltonian.
        classes: Classes of the samples, if predictions are numbers of classes.
    """
    (x_name, x), (y_name, y) = known.items()
    x_label, y_label = (parameter.label for parameter in chain.parameters) if chain else (x_name, y_name)
    figure, axes = _figure(x_label, y_label)
    if classes:
        _class_marks(axes, x, y, predicted, classes)
    else:
        # A diverging color map: the two signs have different colors.
        marks = axes.scatter(
            x, y, c=predicted, cmap="RdBu", vmin=-1, vmax=1, s=26, linewidths=0, rasterized=len(x) > _DOTS
        )
        figure.colorbar(marks, label="prediction")
    if chain:
        styles = iter(("-", "--", "-."))
        for line in chain.boundaries():
            style = next(styles) if line.separates_classes else ":"
            axes.plot(line.first, line.second, color=TEST, linestyle=style, label=line.label)
        for number, ends in enumerate(chain.training_lines):
            label = "" if number else "training"
            # Half of a line on an axis is hidden.
            axes.plot(*zip(*ends, strict=True), color=BOUND, linewidth=2 if classes else 1, label=label)
        first, second = chain.parameters
        axes.set_xlim(first.minimum, first.maximum)
        axes.set_ylim(second.minimum, second.maximum)
    if chain or classes:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=8, columnspacing=1, handlelength=1.4)
    return figure


def _class_marks(axes: Axes, x: _Values, y: _Values, predicted: _Values, classes: Classes) -> None:
    """Plot predicted classes as colors. The edge of a wrong prediction has the color of the class of the sample."""
    colors = np.array([DISTINCT[number % len(DISTINCT)] for number in range(len(classes.names))])
    for number, each in enumerate(classes.names):
        selected = predicted == number
        label = classes.label[selected]
        axes.scatter(
            *(x[selected], y[selected]),
            s=26,
            color=colors[number],
            edgecolors=colors[label],
            linewidths=np.where(label == number, 0, 1.5).tolist(),
            rasterized=len(x) > _DOTS,
        )
        # An entry of the legend without edge.
        axes.scatter([], [], s=26, color=colors[number], linewidths=0, label=_shorten(each))


@figure_style(_STYLE)
def along_parameter(parameter: str, x: _Values, predicted: _Values, label: _Numbers, names: Sequence[str]) -> Figure:
    """Plot predictions of ground states against their only parameter.

    Args:
        parameter: Name of the parameter.
        x: Its values, (samples,).
        predicted: Predictions, (samples,), plotted by label, or probabilities, (samples, classes), plotted by class.
        label: Labels -1 and +1, or numbers of classes, (samples,).
        names: Names of the classes, empty for labels -1 and +1.
    """
    figure, axes = _figure(parameter, "probability" if names else "prediction")
    if names:
        for number, each in enumerate(names):
            color = DISTINCT[number % len(DISTINCT)]
            _dots(axes, x, predicted[:, number], color, "o", _shorten(each))
    else:
        for value, color, marker in ((1, TRAIN, "o"), (-1, VALIDATION, "s")):
            selected = label == value
            _dots(axes, x[selected], predicted[selected], color, marker, f"label {value:+d}")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, fontsize=9, columnspacing=1, handlelength=1.4)
    return figure


@figure_style(_STYLE)
def error_by_qubit(error: npt.NDArray[np.float64], bound: ErrorBound | None) -> Figure:
    """Plot the mean squared error of each qubit.

    Args:
        error: Mean squared errors, (qubits,), NaN for qubits without samples.
        bound: MSE lower bound to plot.
    """
    figure, axes = _figure("excited qubit", "mean squared error")
    qubit = np.arange(len(error))
    edges = np.stack([qubit - 0.4, qubit + 0.4], axis=1).ravel()
    # One outline with gaps, because a thousand separate bars would dominate the size of the page.
    heights = np.stack([error, np.full(len(error), np.nan)], axis=1).ravel()[:-1]
    axes.stairs(heights, edges, fill=True, color=TEST)
    if bound:
        axes.axhline(bound.mse, color=BOUND, linestyle="--", linewidth=1.2, label=_bound_label(bound))
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1))
    axes.set_ylim(bottom=0)
    axes.set_xlim(-0.6, len(error) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    return figure


@figure_style(_STYLE)
def error_bars(
    errors: Mapping[str, float],
    colors: Sequence[str],
    bound: ErrorBound | None,
    loss_name: str = MEAN_SQUARED_ERROR,
) -> Figure:
    """Plot losses as bars, with the lower bound as a line.

    Args:
        errors: Losses by name.
        colors: Color of each bar.
        bound: MSE lower bound to plot.
        loss_name: Name of the loss.
    """
    figure, axes = _figure(loss_name, "")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    bars = axes.barh(list(errors), list(errors.values()), color=colors, height=0.6)
    axes.bar_label(bars, fmt="%.4f", padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.grid(visible=False, axis="y")
    if bound:
        axes.axvline(bound.mse, color=BOUND, linestyle="--", linewidth=1.2, label=_bound_label(bound))
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def _bound_label(bound: ErrorBound) -> str:
    return f"lower bound {bound.mse:.4f}"


def _dots(axes: Axes, x: _Values, y: _Values, color: str, marker: str, label: str) -> None:
    (marks,) = axes.plot(x, y, marker, color=color, label=label)
    marks.set(markersize=4, markeredgewidth=0, alpha=0.75)


def _mark_angles(axes: Axes) -> None:
    axes.set_xticks(
        [-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], ["\N{MINUS SIGN}π", "\N{MINUS SIGN}π/2", "0", "π/2", "π"]
    )
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, fontsize=9, columnspacing=1, handlelength=1.4)


def _figure(x: str, y: str) -> tuple[Figure, Axes]:
    figure = NotebookFigure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def complete(figure: Figure) -> Figure:
    """Lay out a figure of this module for a notebook, and return it."""
    return complete_figure(figure, _STYLE)


@figure_style(_STYLE)
def to_svg(figure: Figure, name: str) -> str:
    """Return a figure as a scalable SVG element.

    Args:
        figure: Figure of this module.
        name: Title for screen readers, on which the unique ids of elements depend.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", dpi=160, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    _, viewbox, drawing = re.split(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', file.getvalue(), maxsplit=1)
    prefix = re.sub(r"\W+", "-", name)
    drawing = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", drawing)
    return f'<svg role="img" aria-label="{name}" {viewbox}>{drawing.rstrip()}'


def _downsample(values: npt.NDArray[np.float64], limit: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return epochs and values of at most `limit` points, with minimum and maximum of each interval."""
    count = len(values)
    if count <= limit:
        return np.arange(1, count + 1), values
    selected: set[int] = {0, count - 1}
    width = math.ceil(count / max(1, limit // 2 - 1))
    for start in range(0, count, width):
        interval = values[start : start + width]
        selected |= {start + int(np.argmin(interval)), start + int(np.argmax(interval))}
    index = np.array(sorted(selected))
    return index + 1, values[index]
