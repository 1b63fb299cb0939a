"""Predictions of a table of any size, which is read, predicted and written in chunks."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import numpy as np

from qcnn.data import parse_description
from qcnn.data.file_data import check, warn_once
from qcnn.data.labels import comparable_labels, text_columns
from qcnn.data.samples import LABEL, PREDICTION, Column, FeatureLayout
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.signs import unsigned_message
from qcnn.results.class_scores import prediction_columns
from qcnn.results.error_accumulator import ClassAccumulator, ErrorAccumulator
from qcnn.results.model_folder import describe
from qcnn.results.predictions import PredictionFiles
from qcnn.results.predictor import Predictor, load_predictor
from qcnn.storage.copies import new_file_copy
from qcnn.tables.chunks import NOTHING, Chunk, Columns, Write
from qcnn.tables.csv_file import print_csv
from qcnn.tables.table import Table, open_input, write_table

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
        # Check the columns before the model, which may take seconds to load.
        _check_columns(table, layout, files)
        if unused := table.unused_index_warning((*layout.columns, LABEL)):
            warn_once(unused)
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
    has_labels = LABEL in table.names
    rows, accumulator = 0, accumulator_of(layout, config.qubits, predictor.rounding)
    with contextlib.ExitStack() as stack:
        # Both files are renamed when they are complete, and the report after the predictions.
        page = stack.enter_context(new_file_copy(files.report)) if files.report else None
        with open_output(files, report, stack) as write:
            pieces = predicted_pieces(
                table,
                layout,
                config.qubits,
                lambda columns: predictor.predict(layout.inputs(columns)),
                with_labels=has_labels,
            )
            for piece, label, prediction in pieces:
                write({**_output_columns(piece.columns, layout), **_predicted(prediction, layout)})
                if has_labels:
                    accumulator.add(piece.columns, label, prediction)
                rows += len(piece)
                report_rows(len(piece))
        if page:
            _write_page(page, table.address, config, accumulator)
    warning = unsigned_message(accumulator.unsigned, rows, predictor.rounding) if accumulator.unsigned else ""
    return PredictionSummary(rows, accumulator.metrics if has_labels else {}, warning)


def predicted_pieces(
    table: Table, layout: FeatureLayout, qubits: int, predict: Callable[[Columns], Column], *, with_labels: bool
) -> Iterator[tuple[Chunk, Column, Column]]:
    """Yield the chunks of a table, with their labels and predictions.

    Args:
        table: Open table of the data.
        layout: Layout of the rows.
        qubits: Number of qubits of the network.
        predict: Function that returns the predictions for the input columns of a chunk.
        with_labels: Whether to read the labels. They are empty otherwise.

    Raises:
        ArtifactError: If a column is missing, or a row is invalid or has a prediction that is not finite. The message
            has the row.
    """
    labels, texts = ((LABEL,), text_columns(layout.classes)) if with_labels else ((), ())
    for piece in table.pieces((*layout.columns, *labels), texts):
        check(piece, layout, qubits)
        label = comparable_labels(piece, layout.labels, layout.classes) if with_labels else np.zeros(0)
        prediction = predict({name: piece.columns[name] for name in layout.columns})
        _check_finite(piece, prediction)
        yield piece, label, prediction


def open_output(
    files: PredictionFiles, report: ReportText, stack: contextlib.ExitStack
) -> AbstractContextManager[Write]:
    """Return a context manager that yields a function which prints rows, or writes them to a file.

    Args:
        files: Output files.
        report: Callback for the text of printed predictions.
        stack: Stack whose end renames the file.
    """
    if files.is_printed:
        return print_csv(report)
    return write_table(stack.enter_context(new_file_copy(files.output)), files.output)


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
    kind, has_columns = layout.preparation.kind, layout.features or layout.preparation.kind != "state"
    output = {name: values for name, values in columns.items() if has_columns or name == LABEL}
    return {**output, "qubit": columns["qubit"].astype(np.int32)} if kind == "excitation" else output


def accumulator_of(layout: FeatureLayout, qubits: int, rounding: float) -> ErrorAccumulator | ClassAccumulator:
    """Return the empty accumulator of the metrics of predictions.

    Args:
        layout: Layout of the rows.
        qubits: Number of qubits of the network.
        rounding: Bound on the rounding error of predictions.
    """
    return (
        ClassAccumulator(layout, rounding) if layout.is_classification else ErrorAccumulator(layout, qubits, rounding)
    )


def _predicted(prediction: Column, layout: FeatureLayout) -> Columns:
    return prediction_columns(prediction, layout) if layout.is_classification else {PREDICTION: prediction}


def _check_finite(piece: Chunk, prediction: Column) -> None:
    if not (finite := np.isfinite(prediction).reshape(len(piece), -1).all(axis=1)).all():
        row = int(np.argmin(finite))
        raise ArtifactError(
            f"model: the prediction for {piece.place(piece.first + row)} must be finite. Given: {prediction[row]}"
        )


def _write_page(
    path: Path, data: str, config: ExperimentConfig, accumulator: ErrorAccumulator | ClassAccumulator
) -> None:
    # The import of matplotlib takes a second.
    from qcnn.results.report import prediction_page

    path.write_text(prediction_page(config, accumulator, data), encoding="utf-8")
