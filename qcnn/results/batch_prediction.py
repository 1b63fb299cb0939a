"""Predictions of a table of any size, which is read, predicted and written in chunks."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qcnn.data import parse_description
from qcnn.data.file_data import check, check_real, warn_once
from qcnn.data.samples import LABEL, PREDICTION, Column, FeatureLayout
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.signs import unsigned_message
from qcnn.process.library_loading import load_tensorflow
from qcnn.results.error_accumulator import ErrorAccumulator
from qcnn.results.model_folder import describe
from qcnn.results.predictions import PredictionFiles
from qcnn.storage.copies import new_file_copy
from qcnn.tables.chunks import NOTHING, Chunk, Columns, Write
from qcnn.tables.csv_file import print_csv
from qcnn.tables.table import Table, open_input, write_table

if TYPE_CHECKING:
    from qcnn.results.export import Predictor

# Function of the number of rows, or None if it is unknown. It returns a context manager, which gives a callback for the
# number of rows that were predicted since the last call.
Progress: TypeAlias = "Callable[[int | None], AbstractContextManager[Callable[[int], None]]]"
# Prints text.
ReportText: TypeAlias = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class PredictionSummary:
    """Number of predicted rows, metrics by name, which are empty without labels, and a warning about them or ''."""

    rows: int
    metrics: dict[str, float]
    warning: str = ""


@contextlib.contextmanager
def no_progress(rows: int | None) -> Iterator[Callable[[int], None]]:
    """Context manager that reports no progress."""
    yield lambda more: None


def predict_files(
    model: Path, files: PredictionFiles, progress: Progress = no_progress, report: ReportText = print
) -> PredictionSummary:
    """Predict every row of a file, and write the predictions atomically or print them.

    Args:
        model: Model folder.
        files: Input and output files.
        progress: Context manager that reports progress.
        report: Callback for the text of printed predictions, one call per chunk.

    Raises:
        ArtifactError: If model or data cannot be used, or an output cannot be written. The message has the invalid row.
        ConfigError: If a bucket denies access, or the output would overwrite the data.
    """
    description, _ = describe(model)
    layout, _ = parse_description(description)
    files.check_distinct()
    with open_input(files.data) as table:
        # Check the columns before the import of TensorFlow, which takes seconds.
        _check_columns(table, layout, files)
        if unused := table.unused_index_warning((*layout.columns, LABEL)):
            warn_once(unused)
        load_tensorflow()
        from qcnn.results.export import load_predictor

        predictor = load_predictor(model)
        with progress(table.rows) as report_rows:
            return predict_table(predictor, table, files, report_rows, report)


def predict_table(
    predictor: Predictor,
    table: Table,
    files: PredictionFiles,
    report_rows: Callable[[int], None],
    report: ReportText = print,
) -> PredictionSummary:
    """Write input columns, label if present, and prediction of each row of a table.

    Amplitudes of states are not written.

    Args:
        predictor: Model to predict with.
        table: Open table of the data.
        files: Input and output files.
        report_rows: Callback for the number of rows that were predicted since the last call.
        report: Callback for the text of printed predictions, one call per chunk.

    Raises:
        ArtifactError: If a row is invalid or a file cannot be written. The message has the row.
        ConfigError: If a bucket denies access.
    """
    layout, config = predictor.layout, predictor.config
    labels = (LABEL,) if LABEL in table.names else ()
    accumulator, rows = ErrorAccumulator(layout, config.qubits, predictor.rounding), 0
    with contextlib.ExitStack() as stack:
        # Both files are renamed when they are complete, and the report after the predictions.
        page = stack.enter_context(new_file_copy(files.report)) if files.report else None
        with print_csv(report) if files.is_printed else _open_output(files.output, stack) as write:
            for piece in table.pieces((*layout.columns, *labels)):
                check(piece, layout, config.qubits)
                label = _label(piece, layout) if labels else None
                prediction = predictor.predict(layout.inputs(piece.columns))
                _check_finite(piece, prediction)
                write({**_output_columns(piece.columns, layout), PREDICTION: prediction})
                if label is not None:
                    accumulator.add(piece.columns, label, prediction)
                rows += len(piece)
                report_rows(len(piece))
        if page:
            _write_page(page, table.address, config, accumulator)
    warning = unsigned_message(accumulator.unsigned, rows, predictor.rounding) if accumulator.unsigned else ""
    return PredictionSummary(rows, accumulator.metrics if labels else {}, warning)


def _open_output(output: str, stack: contextlib.ExitStack) -> AbstractContextManager[Write]:
    """Return a context manager that yields a function which writes rows to a file, renamed when the stack is closed."""
    return write_table(stack.enter_context(new_file_copy(output)), output)


def _check_columns(table: Table, layout: FeatureLayout, files: PredictionFiles) -> None:
    if not set(layout.columns) <= set(table.names):
        raise ArtifactError(
            f"data: must have the columns that the model takes, {', '.join(layout.columns)}. "
            f"Given: {', '.join(table.names) or NOTHING} in {table.address}"
        )
    if PREDICTION in layout.columns:
        raise ArtifactError(f"data: no feature may have the name of an output column. Given: {PREDICTION}")
    if files.report and LABEL not in table.names:
        raise ArtifactError(f"report: the data must have labels, a column {LABEL}. Given: {', '.join(table.names)}")


def _output_columns(columns: Columns, layout: FeatureLayout) -> Columns:
    """Return the columns to write in addition to the prediction, with qubits as integers."""
    kind = layout.preparation.kind
    output = {name: values for name, values in columns.items() if kind != "state" or name == LABEL}
    return {**output, "qubit": columns["qubit"].astype(np.int32)} if kind == "excitation" else output


def _label(piece: Chunk, layout: FeatureLayout) -> Column:
    """Return labels for comparison with predictions, with classes as -1 and +1."""
    label = piece.columns[LABEL]
    match layout.labels:
        case "signs":
            piece.check(LABEL, np.abs(label) == 1, "must be -1 or +1, as in training")
        case "zero_one":
            piece.check(LABEL, (label == 0) | (label == 1), "must be 0 or 1, as in training")
            return np.where(label > 0, 1.0, -1.0)
        case "real":
            check_real(piece, LABEL)
    return label


def _check_finite(piece: Chunk, prediction: Column) -> None:
    if not (finite := np.isfinite(prediction)).all():
        row = int(np.argmin(finite))
        raise ArtifactError(
            f"model: the prediction for {piece.place(piece.first + row)} must be finite. Given: {prediction[row]}"
        )


def _write_page(path: Path, data: str, config: ExperimentConfig, accumulator: ErrorAccumulator) -> None:
    # The import of matplotlib takes a second.
    from qcnn.results.report import prediction_page

    path.write_text(prediction_page(config, accumulator, data), encoding="utf-8")
