"""Predicts a table of any size: it is read, predicted and written piece by piece."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qcnn.data import described
from qcnn.data.file_data import check, check_real, warn_once
from qcnn.data.samples import LABEL, PREDICTION, Column, FeatureLayout
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.results.error_accumulator import ErrorAccumulator
from qcnn.results.model_folder import describe
from qcnn.results.predictions import PredictionFiles
from qcnn.startup import load_tensorflow
from qcnn.storage.copies import new_file_copy
from qcnn.tables.chunks import NOTHING, Chunk, Columns
from qcnn.tables.table import Table, open_table, write_table

if TYPE_CHECKING:
    from qcnn.results.export import Predictor

# Is told the number of rows, None where nobody knows; what it yields, how many more have been predicted.
Watch: TypeAlias = "Callable[[int | None], AbstractContextManager[Callable[[int], None]]]"


@dataclasses.dataclass(frozen=True)
class PredictionSummary:
    """How many rows were predicted, and their error by its names, none without labels."""

    rows: int
    metrics: dict[str, float]


@contextlib.contextmanager
def unwatched(rows: int | None) -> Iterator[Callable[[int], None]]:
    """Show nothing."""
    yield lambda more: None


def predict_files(model: Path, files: PredictionFiles, watch: Watch = unwatched) -> PredictionSummary:
    """Predict every row of a file with the model of a folder, and write what comes of it.

    What is written is there as a whole in the end, or not at all.

    Raises:
        ArtifactError: model or data cannot be used, a row is wrong, which the message names, or nothing can be written.
        ConfigError: a bucket refuses, or what is read would be written over.
    """
    description, _ = describe(model)
    layout, _ = described(description)
    files.check_here()
    with open_table(files.data) as table:
        # Before TensorFlow is loaded, which takes seconds.
        _check_columns(table, layout, files)
        if unused := table.unused_index((*layout.columns, LABEL)):
            warn_once(unused)
        load_tensorflow()
        from qcnn.results.export import load_predictor

        predictor = load_predictor(model)
        with watch(table.rows) as seen:
            return predict_table(predictor, table, files, seen)


def predict_table(
    predictor: Predictor, table: Table, files: PredictionFiles, seen: Callable[[int], None]
) -> PredictionSummary:
    """Write a row for each of a table: what the model takes of it, its label if it has one, and the prediction.

    States are not written again.

    Raises:
        ArtifactError: a row is wrong, which the message names, or a file cannot be written.
        ConfigError: a bucket refuses.
    """
    layout, config = predictor.layout, predictor.config
    labels = (LABEL,) if LABEL in table.names else ()
    tally, rows = ErrorAccumulator(layout, config.qubits), 0
    with contextlib.ExitStack() as stack:
        # Both take their names when all is written; the page, which is about the predictions, after them.
        page = stack.enter_context(new_file_copy(files.report)) if files.report else None
        path = stack.enter_context(new_file_copy(files.output))
        with write_table(path, files.output) as write:
            for piece in table.pieces((*layout.columns, *labels)):
                check(piece, layout, config.qubits)
                label = _label(piece, layout) if labels else None
                prediction = predictor.predict(layout.inputs(piece.columns))
                _check_finite(piece, prediction)
                write({**_kept(piece.columns, layout), PREDICTION: prediction})
                if label is not None:
                    tally.add(piece.columns, label, prediction)
                rows += len(piece)
                seen(len(piece))
        if page:
            _write_page(page, files, config, tally)
    return PredictionSummary(rows, tally.metrics if labels else {})


def _check_columns(table: Table, layout: FeatureLayout, files: PredictionFiles) -> None:
    if not set(layout.columns) <= set(table.names):
        raise ArtifactError(
            f"data: must have the columns that the model takes, {', '.join(layout.columns)}. "
            f"Given: {', '.join(table.names) or NOTHING} in {table.address}"
        )
    if PREDICTION in layout.columns:
        raise ArtifactError(f"data: no feature may be called as what is written. Given: {PREDICTION}")
    if files.report and LABEL not in table.names:
        raise ArtifactError(f"report: the data must have labels, a column {LABEL}. Given: {', '.join(table.names)}")


def _kept(columns: Columns, layout: FeatureLayout) -> Columns:
    """Return what is written beside the prediction; numbers of qubits as whole numbers."""
    kind = layout.preparation.kind
    kept = {name: values for name, values in columns.items() if kind != "state" or name == LABEL}
    return {**kept, "qubit": columns["qubit"].astype(np.int32)} if kind == "excitation" else kept


def _label(piece: Chunk, layout: FeatureLayout) -> Column:
    """Return labels as predictions are compared with them; of two classes -1 and +1."""
    label = piece.columns[LABEL]
    match layout.labels:
        case "signs":
            piece.check(LABEL, np.abs(label) == 1, "must be -1 or +1, as the model learnt them")
        case "zero_one":
            piece.check(LABEL, (label == 0) | (label == 1), "must be 0 or 1, as the model learnt them")
            return np.where(label > 0, 1.0, -1.0)
        case "real":
            check_real(piece, LABEL)
    return label


def _check_finite(piece: Chunk, prediction: Column) -> None:
    if not (finite := np.isfinite(prediction)).all():
        row = int(np.argmin(finite))
        raise ArtifactError(
            f"model: its prediction must be finite, and is not for {piece.place(piece.first + row)}. "
            f"Given: {prediction[row]}"
        )


def _write_page(path: Path, files: PredictionFiles, config: ExperimentConfig, tally: ErrorAccumulator) -> None:
    # matplotlib takes a second to load.
    from qcnn.results.report import prediction_page

    path.write_text(prediction_page(config, tally, files.data), encoding="utf-8")
