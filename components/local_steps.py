"""The steps of a run of this machine, one after the other or as processes of their own; what is there is kept."""

import contextlib
import dataclasses
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn import data
from qcnn.atomic_files import new_file
from qcnn.components.steps.dataset import generate_data, metadata_of
from qcnn.components.steps.evaluate import LABELS, evaluate, export_weights, save_confusion, summarize
from qcnn.components.steps.study import select_best
from qcnn.components.steps.tensorboard import tensorboard
from qcnn.components.steps.train_local import train
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.job import Job
from qcnn.jobs.local.fork_client import ChildProcess, start_process
from qcnn.jobs.local.processes import GRACE, EventHandler
from qcnn.jobs.local.runner import run_processes
from qcnn.results.local_run import METADATA, RunFolders, RunRecorder
from qcnn.startup import exit_immediately, load_tensorflow, one_line_errors, terminated_as_interrupt

# The last step of a study, and the folder of what it leaves.
SELECTED = "select-best"

# Runs a job, and tells of its events.
RunJob = Callable[[Job, EventHandler], None]
# What surrounds a step of this name.
Around = Callable[[str], contextlib.AbstractContextManager[None]]
# A step, or some, that need TensorFlow, and what calls them: in this process or in one of its own.
Step = Callable[[RunFolders], None]
Call = Callable[[Step, RunFolders], None]


def here(step: Step, folders: RunFolders) -> None:
    """Call a step in this process."""
    step(folders)


def run_experiment(
    config: ExperimentConfig,
    folders: RunFolders,
    around: Around,
    on_event: EventHandler,
    *,
    call: Call = here,
    linked: bool = False,
) -> None:
    """Run all steps of an experiment; `linked`: also that which says how to look at the logs."""
    with around("generate-data"):
        completed = _make_dataset(config, folders)
    with around("train"):
        _make_training(completed, folders, run_processes, on_event)
    with around("export-weights"):
        call(make_export, folders)
    if linked:
        with around("tensorboard"):
            _make_link(folders)
    with around("evaluate"):
        call(make_evaluation, folders)


def run_trial(
    config: ExperimentConfig, folders: RunFolders, run: RunJob, around: Around, on_event: EventHandler
) -> None:
    """Run the steps of a trial of a study, whose processes are those that `run` has; a training that fails is kept."""
    with around("trial-data"):
        completed = _make_dataset(config, folders)
    with around("train"):
        _make_training(completed, folders, run, on_event, trial=True)


@dataclasses.dataclass(frozen=True)
class Selected:
    """What the last step of a study leaves: the number of the best trial, its folders, and the table of all trials."""

    best: int
    folders: RunFolders
    results: Path
    table: Path


def select(study: Path, trials: Sequence[RunFolders], *, call: Call = here) -> Selected:
    """Write the table of a study's trials; export the best and measure its error."""
    folder = study / SELECTED
    results, page = folder / "results.csv", folder / "table.html"
    best = select_best([str(trial.training) for trial in trials], str(results), str(page))
    chosen = dataclasses.replace(trials[best], exported=folder / "model", evaluation=folder)
    call(make_best, chosen)
    return Selected(best, chosen, results, page)


@contextlib.contextmanager
def recorded(recorder: RunRecorder, name: str, run: Path) -> Iterator[None]:
    """Write into the record of a run how the step of this block ends."""
    recorder.begin_step(name, run)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            recorder.end_step(False)
        raise
    recorder.end_step(True)


def _make_dataset(config: ExperimentConfig, folders: RunFolders) -> ExperimentConfig:
    """Write the dataset; return the experiment with what a file of samples says of it."""
    if not folders.dataset.exists():
        generate_data(config.model_dump(), str(folders.dataset))
    dataset = data.load(folders.dataset)
    completed = data.with_file_metadata(config, dataset)
    made = {folders.dataset: metadata_of(completed, dataset)}
    _save_metadata(folders.dataset.parent, made, {"experiment": completed.to_json()})
    return completed


def _make_training(
    config: ExperimentConfig, folders: RunFolders, run: RunJob, on_event: EventHandler, *, trial: bool = False
) -> None:
    """Train, from the last checkpoint if there is one."""
    places = folders.dataset, folders.training, folders.logs
    metadata = train(config.to_json(), *map(str, places), trial=trial, run=run, on_event=on_event)
    _save_metadata(folders.training.parent, {folders.logs: metadata, folders.training: metadata})


def _make_link(folders: RunFolders) -> None:
    """Write the page that says how to look at the logs."""
    content = json.loads((folders.logs.parent / METADATA).read_text(encoding="utf-8"))
    (logs,) = content["artifacts"]["logs"]["artifacts"]
    _save_metadata(
        folders.link.parent, {folders.link: tensorboard(str(folders.logs), logs["metadata"], "", str(folders.link))}
    )


def make_export(folders: RunFolders) -> None:
    """Export the model."""
    if not folders.exported.exists():
        _save_metadata(folders.exported.parent, {folders.exported: _export(folders)})


def make_evaluation(folders: RunFolders) -> None:
    """Measure the error of the exported model, and write the page of the run."""
    _save_metadata(folders.evaluation, _evaluate(folders))


def make_best(folders: RunFolders) -> None:
    """Export the best trial of a study and measure its error, all into one folder."""
    if not folders.exported.exists():
        _export(folders)
    _evaluate(folders)


def _export(folders: RunFolders) -> dict[str, Any]:
    with _quiet():
        return export_weights(str(folders.training), str(folders.exported))


def _evaluate(folders: RunFolders) -> dict[Path, Mapping[str, Any]]:
    """Return the metadata of everything that is written."""
    shutil.rmtree(folders.predictions, ignore_errors=True)
    shown = folders.exported, folders.dataset, folders.training, folders.predictions, folders.report
    with _quiet():
        metrics, matrix, metadata = evaluate(*map(str, (*shown[:-1], folders.metrics, folders.report)))
    save_confusion(matrix, str(folders.confusion))
    summarize(metrics, {path.stem: str(path) for path in shown}, str(folders.summary))
    confusion = {"confusionMatrix": _confusion_matrix(matrix)} if matrix else {}
    return {
        folders.metrics: metrics,
        folders.predictions: metadata,
        folders.confusion: confusion,
        folders.report: metadata,
        folders.summary: metadata,
    }


def _confusion_matrix(matrix: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return a confusion matrix as Kubeflow's artifacts have it (kfp.dsl.ClassificationMetrics)."""
    return {"annotationSpecs": [{"displayName": label} for label in LABELS], "rows": [{"row": row} for row in matrix]}


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


def _save_metadata(
    folder: Path, artifacts: Mapping[Path, Mapping[str, Any]], parameters: Mapping[str, str] | None = None
) -> None:
    """Write what a step has left, as Kubeflow's executor does; an artifact has the name of its file."""
    named = {path.stem: [{"name": path.stem, "uri": str(path), "metadata": each}] for path, each in artifacts.items()}
    content = {
        **({"parameterValues": parameters} if parameters else {}),
        "artifacts": {name: {"artifacts": each} for name, each in named.items()},
    }
    with new_file(folder / METADATA) as unfinished:
        unfinished.write_text(json.dumps(content), encoding="utf-8")


_STEPS = {step.__name__: step for step in (make_export, make_evaluation, make_best)}
_INTERRUPTED = 130


def apart(step: Step, folders: RunFolders) -> None:
    """Call a step in a process of its own, and print what that prints.

    Raises:
        SystemExit: it did not end well, and has printed why.
    """
    output, written = os.pipe()
    with os.fdopen(output, encoding="utf-8", errors="replace") as lines:
        try:
            places = [str(getattr(folders, field.name)) for field in dataclasses.fields(folders)]
            argv = (sys.executable, "-m", "qcnn.components.local_steps", step.__name__, *places)
            started = start_process(argv, os.environ, stdin=0, stdout=written, stderr=written)
        finally:
            os.close(written)
        try:
            for line in lines:
                sys.stdout.write(line)
            code = started.wait()
        except BaseException:
            _end(started)
            raise
    if code:
        raise SystemExit(code)


def _end(started: ChildProcess) -> None:
    started.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        started.wait(GRACE)
    started.kill()
    started.wait()


def main() -> None:
    """Call the step that the arguments name."""
    name, *places = sys.argv[1:]
    with exit_immediately():
        try:
            with terminated_as_interrupt(), one_line_errors():
                _STEPS[name](RunFolders(*map(Path, places)))
        except KeyboardInterrupt:
            # Whoever ends this process says so.
            sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
