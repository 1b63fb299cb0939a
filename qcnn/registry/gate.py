"""Promotion of a version: a label moves to it if it is better than the version that has the label."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qcnn.data import FeatureLayout, Source, parse_description
from qcnn.errors import ArtifactError, ConfigError, QcnnError, WriteError, as_clause, format_value
from qcnn.experiment.config import ExperimentConfig
from qcnn.registry.bootstrap import paired_bootstrap
from qcnn.registry.defaults import CHAMPION, CONFIDENCE
from qcnn.registry.interface import RECORD, Labels, PromotionRecord, Registry, now
from qcnn.registry.references import find_version
from qcnn.registry.rows import LabelledRows, RecordedRows, fresh_rows, read_rows, unseen
from qcnn.registry.version_comparison import Comparison
from qcnn.results.batch_prediction import predicted_pieces
from qcnn.results.model_folder import describe
from qcnn.results.predictor import Predictor, load_predictor
from qcnn.results.row_checks import check_rows
from qcnn.results.row_metrics import RowMetric, row_metric, row_metrics
from qcnn.serving.versions import check_name, parse_version
from qcnn.tables.table import open_table

MIN_ROWS, MAX_ROWS = 50, 1_000_000
# Number of columns or classes in messages.
_NAMED = 10
# Number of attempts to move a label while others move other labels.
_MAX_TRIES = 100
# Number of rows that are predicted together.
_CHUNK = 2**16

Outcome = Literal["first", "better", "forced", "unchanged", "rejected"]


@dataclasses.dataclass(frozen=True)
class GateSettings:
    """Settings of a comparison.

    Attributes:
        confidence: Required probability that the candidate is better.
        metric: Metric to compare, or None for the loss.
        data: Path or URI of a file of rows with labels, or None for the rows of the candidate.

    Raises:
        ConfigError: If the confidence is no probability of at least a half.
    """

    confidence: float = CONFIDENCE
    metric: str | None = None
    data: str | None = None

    def __post_init__(self) -> None:
        """Check the confidence."""
        if not 0.5 <= self.confidence < 1:
            raise ConfigError(f"confidence: must be at least 0.5 and less than 1. Given: {self.confidence}")


@dataclasses.dataclass(frozen=True)
class Promotion:
    """Result of a promotion.

    Attributes:
        name: Name of the model.
        label: Label to move.
        version: Candidate.
        previous: Version that had the label, or None.
        outcome: Why the label has moved (`first`, `better`, `forced`), or has not: `unchanged` if the candidate has it
            already, `rejected` if it is not better.
        comparison: Comparison of both versions, or None.
        note: Why a forced promotion has no comparison, or empty.
    """

    name: str
    label: str
    version: int
    previous: int | None
    outcome: Outcome
    comparison: Comparison | None = None
    note: str = ""

    @property
    def is_promoted(self) -> bool:
        """Whether the label has moved."""
        return self.outcome in ("first", "better", "forced")

    @property
    def text(self) -> str:
        """The result in one line."""
        compared = f": {self.comparison.text}" if self.comparison else f": {self.note}" if self.note else ""
        match self.outcome:
            case "first":
                what = f"is version {self.version}, the first one"
            case "unchanged":
                what = f"is version {self.version} already"
            case "rejected":
                what = f"stays version {self.previous}, because version {self.version} is not better"
            case "better" | "forced":
                by_force = " by force" if self.outcome == "forced" else ""
                what = f"moves from version {self.previous} to {self.version}{by_force}"
        required = f"; required is {self.comparison.confidence:g}" if self.comparison else ""
        return f"{self.name}: {self.label} {what}{compared}{required}"


def check_label(label: str) -> str:
    """Return the name of a label.

    Raises:
        ConfigError: If it is invalid or a number, which would be that of a version.
    """
    if parse_version(label) is not None:
        raise ConfigError(f"label: must not be a number. Given: {format_value(label)}")
    return check_name(label, "label")


def promote(
    registry: Registry,
    name: str,
    label: str = CHAMPION,
    version: int | None = None,
    settings: GateSettings | None = None,
    *,
    force: bool = False,
) -> Promotion:
    """Move a label to a version if it is better than the version that has the label, or if none has it.

    Args:
        registry: Registry.
        name: Name of the model.
        label: Label to move.
        version: Candidate, or None for the highest version.
        settings: Settings of the comparison. None: the defaults.
        force: Whether to move the label in any case. The record of the promotion has the comparison, or why there is
            none.

    Raises:
        ArtifactError: If a version does not exist or is damaged, or too few rows can be compared.
        ConfigError: If an argument is invalid, or the versions cannot be compared.
        WriteError: If another process has moved the label in the meantime.
    """
    check_label(label)
    settings = settings or GateSettings()
    candidate = find_version(registry, check_name(name), version)
    labels = registry.labels(name)
    previous = labels.versions.get(label)
    if previous == candidate:
        return Promotion(name, label, candidate, previous, "unchanged")
    comparison, note = None, ""
    if previous is None:
        # Servers load only a version whose files are complete.
        with _opened(registry, name, candidate) if not force else contextlib.nullcontext():
            pass
    else:
        try:
            comparison = compare(registry, name, candidate, previous, settings)
        except QcnnError as error:
            if not force:
                raise
            note = as_clause(error)
    outcome = _outcome(comparison, is_first=previous is None, force=force)
    result = Promotion(name, label, candidate, previous, outcome, comparison, note)
    return _move(registry, result, labels) if result.is_promoted else result


def _outcome(comparison: Comparison | None, *, is_first: bool, force: bool) -> Outcome:
    if is_first:
        return "first"
    if comparison and comparison.is_better:
        return "better"
    return "forced" if force else "rejected"


def _move(registry: Registry, result: Promotion, labels: Labels) -> Promotion:
    """Move the label, also if others move other labels at the same time.

    Raises:
        WriteError: If another process has moved the label to another version.
    """
    record = PromotionRecord(
        result.label,
        result.version,
        result.previous,
        now(),
        result.outcome == "forced",
        result.comparison,
        result.note,
    )
    for _ in range(_MAX_TRIES):
        if registry.move(result.name, labels, record):
            return result
        labels = registry.labels(result.name)
        present = labels.versions.get(result.label)
        if present == result.version:
            return dataclasses.replace(result, outcome="unchanged", previous=present)
        if present != result.previous:
            raise WriteError(
                f"label: {result.label} of {result.name} was moved by another process to version "
                f"{present or 'none'}; promote again to compare with it. Given: version {result.version}"
            )
    raise WriteError(f"label: the labels of {result.name} must not change all the time. Given: {result.label}")


@dataclasses.dataclass(frozen=True)
class _OpenVersion:
    """Version whose model is loaded."""

    number: int
    folder: Path
    config: ExperimentConfig
    layout: FeatureLayout
    source: Source | None
    predictor: Predictor

    @property
    def is_generated(self) -> bool:
        """Whether its dataset was generated, and fresh samples of it can be, too."""
        return self.source is None and self.layout.preparation.kind == "excitation"

    def rows(self) -> RecordedRows:
        """Return its test rows and the digests of its other rows.

        Raises:
            ArtifactError: If its registration found no dataset.
        """
        found = read_rows(self.folder, RECORD, self.layout)
        if found is None:
            raise ArtifactError(
                f"rows: version {self.number} must have been registered with its dataset, or rows be given by --data. "
                f"Given: version {self.number} without dataset"
            )
        return found


@contextlib.contextmanager
def _opened(registry: Registry, name: str, number: int) -> Iterator[_OpenVersion]:
    with registry.open(name, number) as folder:
        try:
            description, config = describe(folder)
            layout, source = parse_description(description)
            predictor = load_predictor(folder)
        except (QcnnError, ValueError) as error:
            raise ArtifactError(
                f"version: must be one that can be loaded ({as_clause(error)}). Given: version {number} of {name}"
            ) from None
        yield _OpenVersion(number, folder, config, layout, source, predictor)


def compare(registry: Registry, name: str, candidate: int, champion: int, settings: GateSettings) -> Comparison:
    """Compare two versions of a model on the same rows by a paired bootstrap.

    Args:
        registry: Registry.
        name: Name of the model.
        candidate: Version that may replace the other.
        champion: Version that has the label.
        settings: Settings of the comparison.

    Raises:
        ArtifactError: If a version is damaged, or too few rows can be compared.
        ConfigError: If the versions cannot be compared.
    """
    with _opened(registry, name, candidate) as new, _opened(registry, name, champion) as old:
        check_comparable(new.layout, old.layout, (new.number, old.number), (new.config.qubits, old.config.qubits))
        metric_name = settings.metric or next(iter(row_metrics(new.layout)))
        metric = row_metric(metric_name, new.layout)
        if settings.data is not None:
            source = f"rows of {settings.data}"
            read = [_scores_of_file(settings.data, each, metric) for each in (new, old)]
            scores = [found for found, _ in read]
            known = [
                f"{count} known to version {each.number}"
                for each, (_, count) in zip((new, old), read, strict=True)
                if count
            ]
            source += f" ({', '.join(known)})" if known else ""
        else:
            rows, source = _rows(new, old)
            scores = [_scores_of_rows(rows, each, metric) for each in (new, old)]
    return comparison_of(scores[0], scores[1], metric_name, metric, source, settings.confidence)


def check_comparable(
    candidate: FeatureLayout, champion: FeatureLayout, versions: tuple[int, int], qubits: tuple[int, int]
) -> None:
    """Check that two models take the same columns and predict the same labels.

    Args:
        candidate: Layout of the candidate.
        champion: Layout of the champion.
        versions: Version of both.
        qubits: Qubits of both.

    Raises:
        ConfigError: If they do not.
    """
    new, old = versions
    if candidate.columns != champion.columns:
        raise ConfigError(
            f"model: must have the columns of version {old}, {_columns(champion)}. "
            f"Given: {_columns(candidate)} in version {new}"
        )
    if candidate.preparation.kind == champion.preparation.kind == "excitation" and qubits[0] != qubits[1]:
        raise ConfigError(
            f"model: must have the qubits of version {old}, {qubits[1]}. Given: {qubits[0]} in version {new}"
        )
    if (candidate.labels, candidate.classes) != (champion.labels, champion.classes):
        raise ConfigError(
            f"model: must predict the labels of version {old}, {_labels(champion)}. "
            f"Given: {_labels(candidate)} in version {new}"
        )


def _columns(layout: FeatureLayout) -> str:
    more = ", ..." if len(layout.columns) > _NAMED else ""
    return ", ".join(layout.columns[:_NAMED]) + more


def _labels(layout: FeatureLayout) -> str:
    match layout.labels:
        case "signs":
            return "-1 and +1"
        case "zero_one":
            return "0 and 1"
        case "real":
            return "real numbers"
    kind = "classes" if layout.is_classification else "two names"
    return f"{kind} {', '.join(layout.classes[:_NAMED])}"


def _rows(new: _OpenVersion, old: _OpenVersion) -> tuple[LabelledRows, str]:
    """Return rows that neither version was trained or validated on, and their origin.

    Raises:
        ArtifactError: If there are too few.
    """
    if new.is_generated:
        return fresh_rows(new.layout, new.config.qubits, new.config.seed), "fresh samples"
    recorded = new.rows()
    # A file may contain a row several times.
    masks = [unseen(recorded.test.columns, each.layout, each.rows().seen) for each in (new, old)]
    rows = recorded.test.take(masks[0] & masks[1])
    if len(rows) < MIN_ROWS:
        raise ArtifactError(
            f"rows: must be at least {MIN_ROWS} test rows of version {new.number} on which neither version was trained "
            f"or validated; give other rows by --data. Given: {len(rows)} of {len(recorded.test)}"
        )
    return rows, f"test rows of version {new.number}"


def _scores_of_rows(rows: LabelledRows, version: _OpenVersion, metric: RowMetric) -> npt.NDArray[np.float64]:
    """Return the score of each row, (rows,)."""
    try:
        check_rows(rows.columns, version.layout, version.config.qubits)
    except QcnnError as error:
        raise ConfigError(
            f"rows: version {version.number} cannot predict them ({as_clause(error)}); give other rows by --data. "
            f"Given: {len(rows)} rows"
        ) from None
    scores = []
    for start in range(0, len(rows), _CHUNK):
        columns = {name: values[start : start + _CHUNK] for name, values in rows.columns.items()}
        predictions = version.predictor.predicts_columns(columns)
        scores.append(_scores(metric, rows.label[start : start + _CHUNK], predictions, version.predictor))
    return np.concatenate(scores)


def _scores(
    metric: RowMetric, label: npt.NDArray[Any], predictions: npt.NDArray[np.float64], predictor: Predictor
) -> npt.NDArray[np.float64]:
    # A score that is not finite is an error of its row.
    with np.errstate(over="ignore", invalid="ignore"):
        return metric.scores(label, predictions, predictor.rounding)


def _scores_of_file(data: str, version: _OpenVersion, metric: RowMetric) -> tuple[npt.NDArray[np.float64], int]:
    """Return the score of each row of a file, (rows,), and the number of rows that the version was trained on.

    Raises:
        ArtifactError: If a row is invalid, or the file has too few or too many rows.
    """
    layout, predictor, scores, known, rows = version.layout, version.predictor, [], 0, 0
    recorded = read_rows(version.folder, RECORD, layout)
    with open_table(data) as table:
        for piece, label, prediction in predicted_pieces(
            table, layout, version.config.qubits, predictor.predicts_columns, with_labels=True
        ):
            scores.append(_scores(metric, label, prediction, predictor))
            rows += len(label)
            if rows > MAX_ROWS:
                raise ArtifactError(f"data: must have at most {MAX_ROWS:,} rows for a comparison. Given: {data}")
            if recorded:
                known += int(np.sum(~unseen(piece.columns, layout, recorded.seen)))
    if rows < MIN_ROWS:
        raise ArtifactError(f"data: must have at least {MIN_ROWS} rows for a comparison. Given: {rows} in {data}")
    return np.concatenate(scores), known


def comparison_of(
    candidate: npt.NDArray[np.float64],
    champion: npt.NDArray[np.float64],
    name: str,
    metric: RowMetric,
    source: str,
    confidence: float,
) -> Comparison:
    """Return the comparison of the scores of two models for the same rows.

    Args:
        candidate: Score of each row, (rows,).
        champion: Score of each row, (rows,).
        name: Name of the metric.
        metric: Metric.
        source: Origin of the rows, as a phrase.
        confidence: Required probability that the candidate is better.

    Raises:
        ArtifactError: If a score is not finite.
    """
    for each in (candidate, champion):
        if not np.isfinite(each).all():
            row = int(np.argmin(np.isfinite(each)))
            raise ArtifactError(f"metric: {name} must be finite for each row. Given: {each[row]} for row {row + 1}")
    sign = 1 if metric.is_maximized else -1
    found = paired_bootstrap(sign * (candidate - champion))
    low, high = sorted((sign * found.low, sign * found.high))
    means = float(candidate.mean()), float(champion.mean())
    return Comparison(name, len(candidate), source, *means, low, high, found.probability, confidence)
