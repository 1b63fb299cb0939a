"""qcnn predict: predictions on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click

from qcnn.cli.errors import UNREAD
from qcnn.cli.local.rows_progress import rows_progress
from qcnn.cli.options.form import alone_on_stdout, form_option, show_rows
from qcnn.results.batch_prediction import Predicted
from qcnn.results.local_run import model_in, of_run
from qcnn.results.predictions import Files, files_of
from qcnn.startup import RETRYABLE, one_line_errors, terminated_as_interrupt
from qcnn.storage.copies import local_copy
from qcnn.trainer.predict import predict_held_out, predict_new


@click.command()
@click.argument("model", metavar="MODEL", type=click.Path())
@click.option(
    "--data",
    metavar="FILE",
    type=click.Path(),
    help="CSV, Parquet, npz or JSONL with the columns that the model takes.",
)
@click.option("--output", metavar="FILE", type=click.Path(), help="Where predictions go, in one of these formats.")
@click.option(
    "--report",
    metavar="FILE.html",
    type=click.Path(),
    help="Where a page about their error goes; for data with labels.",
)
@form_option
def predict(model: str, data: str | None, output: str | None, report: str | None, form: str) -> None:
    """Predict the rows of a file; without --data the test split of the model.

    MODEL is the folder of a model or of a run, or a model in a bucket such as gs://BUCKET/model; FILE may be in a
    bucket too. A column label is compared with the predictions.
    """
    files = files_of(data, output, report)
    with _own_exit_code(), one_line_errors(), terminated_as_interrupt(), local_copy(model) as copy:
        with alone_on_stdout(form):
            predicted = _predicted(copy, model_in(copy, model), files)
        if form == "json":
            show_rows(form, {"rows": predicted.rows, **predicted.metrics})


def _predicted(copy: Path, folder: Path, files: Files | None) -> Predicted:
    if files:
        return predict_new(folder, files, rows_progress)
    dataset = of_run(copy).dataset
    return predict_held_out(folder, str(dataset) if dataset.is_dir() else None)


@contextlib.contextmanager
def _own_exit_code() -> Iterator[None]:
    """End as commands do where nobody reads their output; a process of a training would be tried again."""
    try:
        yield
    except SystemExit as error:
        raise SystemExit(UNREAD if error.code == RETRYABLE else error.code) from None
