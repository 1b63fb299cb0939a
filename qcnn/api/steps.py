"""The steps of a run, called one after the other; what one has left in its folder already is not made again."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from qcnn import data
from qcnn.api.progress import bar
from qcnn.artifact_io import text_of
from qcnn.atomic_files import readable
from qcnn.components.steps.dataset import generate_data
from qcnn.components.steps.evaluate import evaluate, export_weights, save_confusion, summarize
from qcnn.components.steps.train_local import train
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.job import Job
from qcnn.jobs.local.processes import EventHandler
from qcnn.results.local_run import FILE, Recorder, RunFolders, read_record
from qcnn.startup import load_tensorflow

_LOG = "log.txt"

# Runs a job, and tells of its events.
RunJob = Callable[[Job, EventHandler], None]


def has_ended(folder: Path, config: ExperimentConfig) -> bool:
    """Whether the run of this experiment is in a folder and has ended well.

    Raises:
        ArtifactError: the folder holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        record = read_record(folder)
    except (OSError, ValueError):
        what = f"must be new or empty, or hold a run of this experiment, with {FILE}"
        raise ArtifactError(f"folder: {what}. Given: {folder}") from None
    if record.words != config.model_dump():
        raise ArtifactError(f"folder: holds a run of another experiment. Given: {folder}")
    return record.state == "succeeded"


@contextlib.contextmanager
def step(recorder: Recorder, name: str, run: Path) -> Iterator[None]:
    """Write into the record of a run how the step of this block ends."""
    recorder.begin_step(name, run)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            recorder.end_step(False)
        raise
    recorder.end_step(True)


def make_dataset(config: ExperimentConfig, folders: RunFolders) -> ExperimentConfig:
    """Write the dataset; return the experiment with what a file of samples says of it."""
    if not folders.dataset.exists():
        generate_data(config.model_dump(), str(folders.dataset))
    return data.completed(config, data.load(folders.dataset))


def make_training(
    config: ExperimentConfig, folders: RunFolders, run: RunJob, *, trial: bool = False, progress: bool = True
) -> None:
    """Train, from the last checkpoint if there is one; what the processes print goes into the log of the run."""
    shown = bar(progress)
    places = folders.dataset, folders.training, folders.logs
    with (
        (folders.run / _LOG).open("a", encoding="utf-8") as log,
        contextlib.closing(shown),
        contextlib.redirect_stdout(log),
    ):
        train(
            config.to_json(),
            *map(str, places),
            trial=trial,
            run=run,
            on_event=lambda process, event: shown.handle({"process": process, **event}),
        )


def make_export(folders: RunFolders) -> None:
    """Export the model."""
    if not folders.exported.exists():
        with _quiet():
            export_weights(str(folders.training), str(folders.exported))


def make_evaluation(folders: RunFolders) -> None:
    """Measure the error of the exported model, and write the page of the run."""
    predictions = folders.evaluation / "predictions"
    shutil.rmtree(predictions, ignore_errors=True)
    places = folders.exported, folders.dataset, folders.training, predictions, folders.metrics, folders.report
    with _quiet():
        metrics, matrix, _ = evaluate(*map(str, places))
    save_confusion(matrix, str(folders.evaluation / "confusion"))
    shown = {path.name: str(path) for path in places}
    summarize(metrics, shown, str(folders.evaluation / "summary.md"))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Have TensorFlow say nothing of what it writes and compiles."""
    load_tensorflow()
    logger = logging.getLogger("tensorflow")
    level = logger.level
    # It warns of programs that are made anew for every training.
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def read_metrics(folders: RunFolders) -> dict[str, float]:
    """Return the metrics that were measured.

    Raises:
        ArtifactError: their file is missing or damaged.
    """
    with readable("run", folders.metrics):
        return {name: float(value) for name, value in json.loads(text_of(folders.metrics)).items()}
