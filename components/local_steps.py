"""Steps of a local run, in this process or in separate processes. Existing outputs are kept."""

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
from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import complete_files, new_file
from qcnn.components.steps.dataset import dataset_metadata, generate_data
from qcnn.components.steps.evaluate import LABELS, evaluate, export_weights, save_confusion, summarize
from qcnn.components.steps.study import select_best
from qcnn.components.steps.tensorboard import tensorboard
from qcnn.components.steps.train_local import PRELOADED_MODULES, train
from qcnn.errors import ArtifactError, ConfigError, QcnnError, RetryableError, TrainingError, WriteError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.job import JobSpec
from qcnn.jobs.local.fork_client import ChildProcess, start_process
from qcnn.jobs.local.processes import GRACE, EventHandler, LineHandler, print_line
from qcnn.jobs.local.runner import run_processes
from qcnn.process.error_lines import errors_raised, exit_immediately, one_line_errors
from qcnn.process.exit_codes import PERMANENT_ERROR
from qcnn.process.library_loading import load_tensorflow
from qcnn.process.signals import terminated_as_interrupt
from qcnn.results import model_folder
from qcnn.results.local_run import METADATA, RunFolders, RunRecorder
from qcnn.studies.record import SELECT_STEP

# Modules that the fork server imports for all steps of a run.
STEP_MODULES = (*PRELOADED_MODULES, "qcnn.results.evaluate", "qcnn.results.report")

# Runs a job and passes its events to the handler.
RunJob = Callable[[JobSpec, EventHandler], None]
# Returns the context manager of the step with this name.
StepContext = Callable[[str], contextlib.AbstractContextManager[None]]
# A step that needs TensorFlow, and its caller: in this process or in a separate process.
Step = Callable[[RunFolders], None]
Call = Callable[[Step, RunFolders], None]


def run_in_process(step: Step, folders: RunFolders) -> None:
    """Call a step in this process."""
    step(folders)


def run_experiment(
    config: ExperimentConfig,
    folders: RunFolders,
    step_context: StepContext,
    on_event: EventHandler,
    *,
    run: RunJob = run_processes,
    call: Call = run_in_process,
    linked: bool = False,
) -> None:
    """Run all steps of an experiment.

    Args:
        config: Experiment to run.
        folders: Folders of the run.
        step_context: Returns the context manager of a step, by name.
        on_event: Handler of training events.
        run: Runs the training job.
        call: Calls the steps that need TensorFlow.
        linked: Whether to run the TensorBoard step, too.
    """
    with step_context("generate-data"):
        completed = _generate_data(config, folders)
    with step_context("train"):
        _train(completed, folders, run, on_event)
    with step_context("export-weights"):
        _remove_model_of_fewer_epochs(completed, folders)
        call(export_step, folders)
    if linked:
        with step_context("tensorboard"):
            _link_tensorboard(folders)
    with step_context("evaluate"):
        call(evaluate_step, folders)


def run_trial(
    config: ExperimentConfig, folders: RunFolders, run: RunJob, step_context: StepContext, on_event: EventHandler
) -> None:
    """Run the steps of a trial of a study. The reason of a failed training is saved in its folder.

    Args:
        config: Experiment of the trial.
        folders: Folders of the trial.
        run: Runs the training job.
        step_context: Returns the context manager of a step, by name.
        on_event: Handler of training events.
    """
    with step_context("trial-data"):
        completed = _generate_data(config, folders)
    with step_context("train"):
        _train(completed, folders, run, on_event, trial=True)


@dataclasses.dataclass(frozen=True)
class BestTrial:
    """Result of a study's last step.

    `best` is the index of the best trial, `folders` are its folders. `results` and `table` are the paths of the table
    of trials as CSV and as HTML.
    """

    best: int
    folders: RunFolders
    results: Path
    table: Path


def select_best_trial(study: Path, trials: Sequence[RunFolders], *, call: Call = run_in_process) -> BestTrial:
    """Tabulate the trials of a study, then export and evaluate the best one.

    Args:
        study: Folder of the study.
        trials: Folders of each trial.
        call: Calls the steps that need TensorFlow.
    """
    folder = study / SELECT_STEP
    results, page = folder / "results.csv", folder / "table.html"
    evaluated = [dataclasses.replace(trial, exported=folder / "model", evaluation=folder) for trial in trials]
    # The report is in the folder of the page.
    report = evaluated[0].report.name
    best = select_best([str(trial.training) for trial in trials], str(results), str(page), report)
    call(evaluate_best_step, evaluated[best])
    return BestTrial(best, evaluated[best], results, page)


@contextlib.contextmanager
def record_run(recorder: RunRecorder, name: str, run: Path) -> Iterator[None]:
    """Context manager that records the result of a step.

    Args:
        recorder: Record of the run.
        name: Name of the step.
        run: Folder of the run.
    """
    recorder.begin_step(name, run)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            recorder.end_step(False)
        raise
    recorder.end_step(True)


def _generate_data(config: ExperimentConfig, folders: RunFolders) -> ExperimentConfig:
    """Write the dataset and return the experiment with the metadata of its data file."""
    if not folders.dataset.exists():
        generate_data(config.model_dump(), str(folders.dataset), is_checked=True)
    dataset = data.load(folders.dataset)
    completed = data.with_file_metadata(config, dataset)
    metadata = {folders.dataset: dataset_metadata(completed, dataset)}
    _save_metadata(folders.dataset.parent, metadata, {"experiment": completed.to_json()})
    return completed


def _train(
    config: ExperimentConfig, folders: RunFolders, run: RunJob, on_event: EventHandler, *, trial: bool = False
) -> None:
    """Train, from the last checkpoint if there is one."""
    paths = folders.dataset, folders.training, folders.logs
    metadata = train(config.to_json(), *map(str, paths), trial=trial, run=run, on_event=on_event)
    _save_metadata(folders.training.parent, {folders.logs: metadata, folders.training: metadata})


def _remove_model_of_fewer_epochs(config: ExperimentConfig, folders: RunFolders) -> None:
    """Remove the exported model if training has continued with more epochs since."""
    if folders.exported.exists():
        _, exported = model_folder.describe(folders.exported)
        if exported.epochs != config.epochs:
            shutil.rmtree(folders.exported)


def _link_tensorboard(folders: RunFolders) -> None:
    """Write the page that links the logs."""
    content = load_description("run", folders.logs.parent / METADATA)
    (logs,) = content["artifacts"]["logs"]["artifacts"]
    _save_metadata(
        folders.link.parent, {folders.link: tensorboard(str(folders.logs), logs["metadata"], "", str(folders.link))}
    )


def export_step(folders: RunFolders) -> None:
    """Export the model."""
    if not folders.exported.exists():
        _save_metadata(folders.exported.parent, {folders.exported: _export(folders)})


def evaluate_step(folders: RunFolders) -> None:
    """Evaluate the exported model and write the report of the run."""
    _save_evaluation(folders, _evaluate(folders))


def evaluate_best_step(folders: RunFolders) -> None:
    """Export and evaluate the best trial of a study, into one folder."""
    if not folders.exported.exists():
        _export(folders)
    _save_evaluation(folders, _evaluate(folders))


def _export(folders: RunFolders) -> dict[str, Any]:
    with _suppress_warnings():
        return export_weights(str(folders.training), str(folders.exported))


def _evaluate(folders: RunFolders) -> dict[Path, Mapping[str, Any]]:
    """Evaluate the exported model and return the metadata of all outputs."""
    shutil.rmtree(folders.predictions, ignore_errors=True)
    summarized = folders.exported, folders.dataset, folders.training, folders.predictions, folders.report
    with _suppress_warnings():
        metrics, matrix, metadata = evaluate(*map(str, (*summarized[:-1], folders.metrics, folders.report)))
    save_confusion(matrix, str(folders.confusion))
    summarize(metrics, {path.stem: str(path) for path in summarized}, str(folders.summary))
    confusion = {"confusionMatrix": _confusion_matrix(matrix)} if matrix else {}
    return {
        folders.metrics: metrics,
        folders.predictions: metadata,
        folders.confusion: confusion,
        folders.report: metadata,
        folders.summary: metadata,
    }


def _confusion_matrix(matrix: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return a confusion matrix in the format of KFP metadata (kfp.dsl.ClassificationMetrics)."""
    return {"annotationSpecs": [{"displayName": label} for label in LABELS], "rows": [{"row": row} for row in matrix]}


@contextlib.contextmanager
def _suppress_warnings() -> Iterator[None]:
    """Context manager that suppresses TensorFlow's messages about files and compilation."""
    load_tensorflow()
    logger = logging.getLogger("tensorflow")
    level = logger.level
    # TensorFlow warns about functions that are compiled for each training run.
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _save_evaluation(folders: RunFolders, artifacts: Mapping[Path, Mapping[str, Any]]) -> None:
    """Write the metadata of an evaluation, with the digests of its files. A model has its own description."""
    folder = folders.evaluation
    files = [name for name in complete_files(folder) if not (folder / name).is_relative_to(folders.exported)]
    _save_metadata(folder, artifacts, files=[name for name in files if name != METADATA])


def _save_metadata(
    folder: Path,
    artifacts: Mapping[Path, Mapping[str, Any]],
    parameters: Mapping[str, str] | None = None,
    files: Sequence[str] = (),
) -> None:
    """Write the metadata of a step's outputs as KFP's executor does, with file names as artifact names.

    Args:
        folder: Folder of the step.
        artifacts: Metadata by path of the output.
        parameters: Output parameters.
        files: Names of the files in the folder whose digests are added.
    """
    named = {path.stem: [{"name": path.stem, "uri": str(path), "metadata": each}] for path, each in artifacts.items()}
    content = {
        **({"parameterValues": parameters} if parameters else {}),
        "artifacts": {name: {"artifacts": each} for name, each in named.items()},
    }
    with new_file(folder / METADATA) as unfinished:
        save_description(content, unfinished, files)


_STEPS = {step.__name__: step for step in (export_step, evaluate_step, evaluate_best_step)}
_INTERRUPTED = 130
# Errors that a step can raise in another process, by name.
_ERRORS = {error.__name__: error for error in (ConfigError, ArtifactError, WriteError, TrainingError, RetryableError)}


def run_in_subprocess(step: Step, folders: RunFolders, output: LineHandler = print_line) -> None:
    """Call a step in a separate process.

    Args:
        step: Step to call.
        folders: Folders of the run.
        output: Handler of the output lines of the process.

    Raises:
        QcnnError: If the step raises it.
        SystemExit: If the process ends otherwise. Its output contains the reason.
    """
    with contextlib.ExitStack() as stack:
        ends = [os.pipe() for _ in range(2)]
        lines, errors = (stack.enter_context(os.fdopen(end, encoding="utf-8", errors="replace")) for end, _ in ends)
        (_, written), (_, raised) = ends
        try:
            paths = [str(getattr(folders, field.name)) for field in dataclasses.fields(folders)]
            argv = (sys.executable, "-m", "qcnn.components.local_steps", step.__name__, str(raised), *paths)
            child = start_process(argv, os.environ, stdin=0, stdout=written, stderr=written, pass_fds=(raised,))
        finally:
            os.close(written)
            os.close(raised)
        try:
            for line in lines:
                output(line.rstrip("\n"))
            code = child.wait()
        except BaseException:
            _end(child)
            raise
        if error := errors.read():
            kind, message = json.loads(error)
            raise _ERRORS[kind](message)
    if code:
        raise SystemExit(code)


def _end(child: ChildProcess) -> None:
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE)
    child.kill()
    child.wait()


def main() -> None:
    """Call the step that the arguments name, and write its error to the file descriptor that they name."""
    name, raised, *paths = sys.argv[1:]
    with exit_immediately():
        try:
            with terminated_as_interrupt(), one_line_errors():
                try:
                    with errors_raised():
                        _STEPS[name](RunFolders(*map(Path, paths)))
                except QcnnError as error:
                    known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS)
                    named = next(known, TrainingError.__name__), str(error)
                    os.write(int(raised), json.dumps(named).encode())
                    sys.exit(PERMANENT_ERROR)
        except KeyboardInterrupt:
            # The parent process reports the interruption.
            sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
