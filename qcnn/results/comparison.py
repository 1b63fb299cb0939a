"""HTML pages that compare runs or trials: best row first, loss against each field, sortable table."""

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from qcnn.errors import ConfigError
from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.monitoring.validation_metrics import SELECTION_METRICS, VAL_LOSS
from qcnn.results import html, plots
from qcnn.results.html import ReportFigure


@dataclasses.dataclass(frozen=True)
class ComparedRow:
    """Row of a page: a run or a trial.

    `values` has the unrounded value of each column, None or empty if it is missing. `texts` are the same values as
    text. `fields` are the compared fields of the experiment. `loss` is the validation loss, and `rank` the number by
    which rows are ordered, lowest first; both are None without a result. `report` is the path of the run's report
    relative to the page, or empty.
    """

    values: Mapping[str, object]
    texts: Mapping[str, str]
    fields: Mapping[str, object]
    loss: float | None
    rank: float | None
    report: str = ""


def order_by_loss(losses: Sequence[float | None]) -> list[int]:
    """Return the indices of runs by validation loss, lowest first. Runs without a finite loss are last."""
    return sorted(range(len(losses)), key=lambda index: (not _is_finite(losses[index]), losses[index] or 0.0, index))


def best_of(losses: Sequence[float | None]) -> int | None:
    """Return the index of the first run with the lowest validation loss, or None without a finite loss."""
    first = next(iter(order_by_loss(losses)), None)
    return first if first is not None and _is_finite(losses[first]) else None


def _is_finite(loss: float | None) -> bool:
    return loss is not None and math.isfinite(loss)


def colors_by_loss(losses: Sequence[float | None]) -> list[str]:
    """Return a color for each run: distinct colors for the best ones, grey for all others."""
    colors = [plots.OTHERS] * len(losses)
    for index, color in zip(order_by_loss(losses), plots.DISTINCT, strict=False):
        colors[index] = color
    return colors


def color_note(count: int, metric: str = VAL_LOSS) -> str:
    """Return a sentence about the colors of a number of runs, or an empty text if each has a separate color.

    Args:
        count: Number of runs.
        metric: Metric of which the best are colored.
    """
    most = len(plots.DISTINCT)
    best = "lowest validation losses" if metric == VAL_LOSS else f"runs with the {SELECTION_METRICS[metric].best}"
    return f"The {most} {best} are colored." if count > most else ""


def independent_fields(names: Iterable[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields among `names` that do not have their automatic value in all runs.

    An automatic value follows from other fields, such as `rounds` from `model`.

    Args:
        names: Names of fields.
        runs: Fields of each run, options included at any level.
    """
    return [name for name in names if not all(_is_automatic(fields, name) for fields in runs)]


def _is_automatic(fields: Mapping[str, Any], name: str) -> bool:
    """Return whether a field has the value that it would have if it was not set."""
    with contextlib.suppress(ConfigError):
        automatic = from_mapping(merge(fields, {name: ALL_FIELDS[name].default}))
        return bool(_value(automatic.model_dump(), name) == _value(fields, name))
    return False


def _value(fields: Mapping[str, Any], name: str) -> Any:
    return fields[name] if name in fields else fields.get("options", {}).get(name)


def field_figures(rows: Sequence[ComparedRow], metric: str = VAL_LOSS) -> list[ReportFigure]:
    """Return a plot of a metric against each field, over the rows that have both.

    Args:
        rows: Rows, which have a column of the metric unless it is the validation loss.
        metric: One of `qcnn.monitoring.validation_metrics.SELECTION_METRICS`.
    """
    figures, label = [], SELECTION_METRICS[metric].title
    for name, points in points_by_field(rows, "" if metric == VAL_LOSS else metric).items():
        title = f"{label.capitalize()} by {name}"
        figure = plots.loss_by_value(points.values, points.losses, points.colors, name, label)
        figures.append(ReportFigure(title, plots.to_svg(figure, title), color_note(len(rows), metric)))
    return figures


def metric_figure(rows: Sequence[ComparedRow], metric: str, label: str) -> Figure:
    """Return a figure of a metric against each field, or against the first column if no field is compared.

    Args:
        rows: Rows, at least one of which has the metric.
        metric: Name of the column with the metric.
        label: Label of the axis.
    """
    if not any(row.fields for row in rows):
        first = next(iter(rows[0].values))
        rows = [dataclasses.replace(row, fields={first: row.values[first]}) for row in rows]
    return plots.losses_by_value(points_by_field(rows, metric), label)


def points_by_field(rows: Sequence[ComparedRow], metric: str = "") -> dict[str, plots.FieldPoints]:
    """Return the values and losses of each field, of the rows that have both, by name of the field.

    Args:
        rows: Rows, whose ranks determine the colors.
        metric: Name of the column to use instead of the validation loss.
    """
    panels, ranks = {}, [row.rank for row in rows]
    numbers = [row.values[metric] if metric else row.loss for row in rows]
    for name in dict.fromkeys(name for row in rows for name in row.fields):
        points = [
            (row.fields[name], number, color)
            for row, number, color in zip(rows, numbers, colors_by_loss(ranks), strict=True)
            if row.fields.get(name) is not None and isinstance(number, int | float) and math.isfinite(number)
        ]
        if points:
            panels[name] = plots.FieldPoints(*zip(*points, strict=True))
    return panels


def table(header: Sequence[str], rows: Sequence[ComparedRow]) -> str:
    """Return the table of rows, in their order. The best row is marked, and a click on a column sorts by it.

    Args:
        header: Names of the columns, the first of which identifies a row.
        rows: Rows, in the order of the page.
    """
    ranks = [row.rank for row in rows]
    best = best_of(ranks)
    return html.table(
        header,
        [
            html.TableRow(
                [html.Cell(row.texts[name], row.values[name]) for name in header],
                color,
                link=row.report,
                mark="best" if index == best else "",
            )
            for index, (row, color) in enumerate(zip(rows, colors_by_loss(ranks), strict=True))
        ],
    )
