"""Results of the repeated rows of a study: mean, spread, verdict and classical models of each row, as tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.experiment.config import ALL_FIELDS, all_fields
from qcnn.experiment.parsing import with_display_values
from qcnn.results import html
from qcnn.results.metric_titles import BASELINES
from qcnn.studies.published_values import COMPARED_METRICS
from qcnn.studies.rows import RepeatedRows, StudyRow
from qcnn.studies.trials import FailedTrial, Trial
from qcnn.studies.verdicts import MIN_RUNS, Interval, Repeated, compare, interval_of_mean, verdict

_OTHER_SETTING = "other setting"
# Metrics of rows without a published value, the first one that the trials have.
_METRICS = ("accuracy", "loss")


@dataclasses.dataclass(frozen=True)
class RowResult:
    """Result of a row.

    Attributes:
        row: The row.
        requested: Number of its trials.
        trials: Its trials that succeeded.
        fields: Displayed values of the fields that differ between rows.
    """

    row: StudyRow
    requested: int
    trials: tuple[Trial, ...]
    fields: Mapping[str, Any]

    @property
    def metric(self) -> str:
        """Name of the compared metric of the test split."""
        if self.row.published:
            return self.row.published.metric
        found = [name for name in _METRICS if all(name in _metrics(trial) for trial in self.trials)]
        return found[0] if found else _METRICS[-1]

    @property
    def own(self) -> Repeated | None:
        """Values of the metric, or None if no trial has it."""
        values = self._values(self.metric)
        if not values:
            return None
        return Repeated(tuple(values), self._samples)

    @property
    def ends(self) -> tuple[float, float]:
        """The best and the worst value of the metric."""
        values = self._values(self.metric)
        ends = max(values), min(values)
        return ends if COMPARED_METRICS[self.metric] else ends[::-1]

    @property
    def is_split_fixed(self) -> bool:
        """True if all trials have the same splits."""
        return len({trial.evaluated.split for trial in self.trials if trial.evaluated}) <= 1

    @property
    def difference(self) -> Interval | None:
        """Difference to the published value, or None if its interval is not known, or a trial has failed."""
        if self.own is None or self.row.published is None or len(self.trials) < self.requested:
            return None
        return compare(self.own, self.row.published)

    @property
    def verdict(self) -> str:
        """Verdict of the comparison with the published value, or empty."""
        if self.difference is None:
            return ""
        found = verdict(self.difference, self.metric)
        return f"{found} ({_OTHER_SETTING})" if self.row.differences else found

    @property
    def seconds(self) -> float:
        """Duration of all epochs of all trials."""
        return math.fsum(trial.seconds for trial in self.trials)

    def baseline(self, name: str) -> tuple[Repeated, Interval | None] | None:
        """Return the accuracies of a classical model, and the paired difference of the network to it.

        Args:
            name: One of `qcnn.results.metric_titles.BASELINES`.
        """
        accuracies, own = self._values(f"{name}_accuracy"), self._values("accuracy")
        if not accuracies or len(accuracies) != len(own):
            return None
        pairs = [ours - theirs for ours, theirs in zip(own, accuracies, strict=True)]
        return Repeated(tuple(accuracies), self._samples), interval_of_mean(pairs)

    @property
    def _samples(self) -> int:
        return next(trial.evaluated.samples for trial in self.trials if trial.evaluated)

    def _values(self, metric: str) -> list[float]:
        found = (_metrics(trial).get(metric) for trial in self.trials)
        return [value for value in found if value is not None]


def _metrics(trial: Trial) -> Mapping[str, float]:
    return trial.evaluated.metrics if trial.evaluated else {}


def row_results(repeated: RepeatedRows, trials: Sequence[Trial | FailedTrial]) -> list[RowResult]:
    """Return the results of the rows of a study.

    Args:
        repeated: Rows of the study.
        trials: Trials of the study, with metrics of the test split.
    """
    fields = [_displayed(trials[repeated.trials_of(number)[0]]) for number in range(len(repeated.rows))]
    ignored = {"seed", "data"} if any(row.name for row in repeated.rows) else {"seed"}
    differing = [name for name in ALL_FIELDS if name not in ignored and len({str(own[name]) for own in fields}) > 1]
    return [
        RowResult(
            row,
            repeated.repeat,
            tuple(trial for trial in (trials[each] for each in repeated.trials_of(number)) if isinstance(trial, Trial)),
            {name: fields[number][name] for name in differing},
        )
        for number, row in enumerate(repeated.rows)
    ]


def _displayed(trial: Trial | FailedTrial) -> dict[str, Any]:
    return with_display_values(all_fields(trial.experiment))


def best_row(results: Sequence[RowResult], metric: str, *, is_maximized: bool) -> int:
    """Return the index of the row with the best mean of a metric of the validation split.

    Args:
        results: Results of the rows, at least one of which has a trial.
        metric: Name of the metric.
        is_maximized: Whether its highest value is the best.
    """

    def key(number: int) -> tuple[bool, float, int]:
        values = [getattr(trial.chosen, metric) for trial in results[number].trials]
        if not values or any(value is None for value in values):
            return True, 0.0, number
        mean = math.fsum(values) / len(values)
        return False, -round(mean, 9) if is_maximized else mean, number

    return min(range(len(results)), key=key)


def table(results: Sequence[RowResult]) -> tuple[list[str], list[list[Any]]]:
    """Return the column names and the rows of the table of rows, with unrounded numbers and empty cells."""
    names = [name for name in BASELINES if any(result.baseline(name) for result in results)]
    header = [
        *("row", "name", *results[0].fields, "metric", "runs", "mean", "standard_error", "best", "worst"),
        *("test_samples", "published", "published_error", "published_runs", "published_samples"),
        *("difference", "difference_low", "difference_high", "verdict", "source", "differences"),
        *(f"{name}{part}" for name in names for part in ("_accuracy", "_difference", "_low", "_high")),
        "seconds",
    ]
    return header, [_cells(number, result, names) for number, result in enumerate(results)]


def _cells(number: int, result: RowResult, baselines: Sequence[str]) -> list[Any]:
    own, published = result.own, result.row.published
    measured: list[Any] = [len(result.trials), *[""] * 5]
    if own is not None:
        measured = [len(result.trials), own.mean, _or_empty(own.error), *result.ends, own.rows]
    known: list[Any] = [""] * 4
    if published:
        known = [published.value, *map(_or_empty, (published.error, published.runs, published.rows))]
    return [
        *(number, result.row.name, *result.fields.values(), result.metric, *measured, *known),
        *(*_interval_cells(result.difference), result.verdict),
        *(published.source if published else "", "; ".join(result.row.differences)),
        *(cell for name in baselines for cell in _baseline_cells(result, name)),
        result.seconds,
    ]


def _baseline_cells(result: RowResult, name: str) -> list[Any]:
    found = result.baseline(name)
    return [""] * 4 if found is None else [found[0].mean, *_interval_cells(found[1])]


def _interval_cells(interval: Interval | None) -> list[Any]:
    return [""] * 3 if interval is None else list(dataclasses.astuple(interval))


def _or_empty(value: float | None) -> Any:
    return "" if value is None else value


def short_table(results: Sequence[RowResult]) -> tuple[list[str], list[list[str]]]:
    """Return the table of rows for a terminal and a page, with means and errors in one cell."""
    has_published = any(result.row.published for result in results)
    has_name = any(result.row.name for result in results)
    fields = [] if all(result.row.name for result in results) else list(results[0].fields)
    header = [
        *("row", *(["name"] if has_name else []), *fields, "metric", "runs", "mean", "best", "worst"),
        *(["published", "difference", "verdict"] if has_published else []),
        "seconds",
    ]
    rows = []
    for number, result in enumerate(results):
        own = result.own
        rows.append(
            [
                *(str(number), *([result.row.name] if has_name else [])),
                *(str(result.fields[name]) for name in fields),
                *(result.metric, f"{len(result.trials)}/{result.requested}"),
                *([""] * 3 if own is None else [_with_error(own.mean, own.error), *map(_digits, result.ends)]),
                *(_comparison_texts(result) if has_published else []),
                f"{result.seconds:.1f}",
            ]
        )
    return header, rows


def _digits(value: float) -> str:
    return f"{value:.4f}"


def _with_error(value: float, error: float | None) -> str:
    return _digits(value) if error is None else f"{value:.4f} \N{PLUS-MINUS SIGN} {error:.4f}"


def _comparison_texts(result: RowResult) -> list[str]:
    published = result.row.published
    value = _with_error(published.value, published.error) if published else ""
    return [value, _interval_text(result.difference), result.verdict]


def _interval_text(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.difference:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"


def baseline_table(results: Sequence[RowResult]) -> tuple[list[str], list[list[str]]]:
    """Return the table of classical models for a terminal and a page, without rows if no row has them."""
    rows = []
    for number, result in enumerate(results):
        for name in BASELINES:
            if found := result.baseline(name):
                accuracy, paired = found
                texts = [_with_error(accuracy.mean, accuracy.error), _interval_text(paired)]
                rows.append([str(number), result.row.name, BASELINES[name], *texts])
    return ["row", "name", "model", "accuracy", "network minus model"], rows


def page_parts(results: Sequence[RowResult]) -> list[str]:
    """Return the parts of the page about the rows as HTML."""
    header, rows = short_table(results)
    parts = [html.heading("Rows"), _html_table(header, rows), html.note(legend(results))]
    header, rows = baseline_table(results)
    if rows:
        parts += [html.heading("Classical models"), _html_table(header, rows)]
    if sources := _sources(results):
        parts += [html.heading("Published values"), html.pairs(sources)]
    return parts


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [html.TableRow([html.Cell(text, text) for text in row], "transparent") for row in rows]
    return html.table(header, cells)


def legend(results: Sequence[RowResult]) -> str:
    """Return the explanation of the table of rows as text."""
    repeat = results[0].requested
    varied = [str(number) for number, result in enumerate(results) if not result.is_split_fixed]
    split = "and the same split for all seeds"
    if varied:
        rows = f" in rows {', '.join(varied)}" if len(varied) < len(results) else ""
        split = f"which also change the split{rows}"
    text = (
        f"Each row has the same {repeat} seeds, {split}. Mean and standard error, best and worst are those of the "
        "test split. "
    )
    if any(result.row.published for result in results):
        text += (
            "The difference to the published value has its 95 % interval (Welch; with the binomial errors of different "
            f"test sets). A row with fewer than {MIN_RUNS} runs, or without a published spread, has no verdict. "
            f"'{_OTHER_SETTING}': data, circuit or budget differ from the published ones as listed below. "
        )
    if any(result.baseline(name) for result in results for name in BASELINES):
        text += (
            "Classical models have the mean accuracy on the same test rows. The difference of the network to it is "
            "paired over the seeds and has its 95 % interval (Student)."
        )
    return text.strip()


def _sources(results: Sequence[RowResult]) -> dict[str, str]:
    sources = {}
    for number, result in enumerate(results):
        known = [result.row.published.source] if result.row.published else []
        known += [f"{_OTHER_SETTING}: {'; '.join(result.row.differences)}"] if result.row.differences else []
        if known:
            sources[f"{number} {result.row.name}".strip()] = ". ".join(known)
    return sources
