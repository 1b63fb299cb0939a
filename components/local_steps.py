"""Steps of a local run, each with its outputs in a folder. Existing outputs are kept.

Steps that need TensorFlow, and long ones, run in separate processes, which `run_in_subprocess` starts.
"""

import codecs
import contextlib
import dataclasses
import io
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qcnn import data
from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import complete_files, new_file, writable
from qcnn.components.steps.dataset import dataset_metadata, write_dataset
from qcnn.components.steps.evaluate import evaluate, export_weights, save_confusion, summarize, track
from qcnn.components.steps.register import RegistrationTarget, load_metrics, register
from qcnn.components.steps.study import read_trial, select_best, track_study, write_rows
from qcnn.components.steps.tensorboard import tensorboard
from qcnn.components.steps.train_local import PRELOADED_MODULES, train_experiment
from qcnn.errors import QcnnError, TrainingError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.saved import from_saved
from qcnn.jobs.job import JobSpec
from qcnn.jobs.local.fork_client import ChildProcess, start_process
from qcnn.jobs.local.processes import GRACE, IsInterrupted, LineHandler, never_interrupted
from qcnn.process.error_lines import exit_immediately, log_to_stdout, translate_limit_errors
from qcnn.process.error_transfer import from_values, to_values
from qcnn.process.exit_codes import PERMANENT_ERROR
from qcnn.process.library_loading import load_tensorflow, quiet_tracing
from qcnn.process.signals import terminated_as_interrupt
from qcnn.results import model_folder
from qcnn.results.class_scores import Confusion
from qcnn.results.local_run import METADATA, RunFolders, of_run, of_trial, read_record
from qcnn.studies.record import (
    SELECT_STEP,
    folders_by_trial,
    load_evaluated,
    load_metric,
    load_repeated,
    load_trials,
    save_evaluated,
)
from qcnn.studies.rows import RepeatedRows
from qcnn.studies.trials import FailedTrial, Trial, best

# Modules that the fork server imports for all steps of a run.
STEP_MODULES = (*PRELOADED_MODULES, "qcnn.results.evaluate", "qcnn.results.report")

# Tables in the folder of the last step of a study with repeated rows.
_ROWS = "rows.csv"
# A step that runs in a separate process. Its arguments are paths.
Step = Callable[..., None]


def generate_step(config: ExperimentConfig, folders: RunFolders) -> ExperimentConfig:
    """Write the dataset, and return the experiment with the metadata of its data file."""
    if folders.dataset.exists():
        dataset = data.load(folders.dataset)
        completed = data.with_file_metadata(config, dataset)
    else:
        completed, dataset = write_dataset(config, folders.dataset)
    metadata = {folders.dataset: dataset_metadata(completed, dataset)}
    _save_metadata(folders.dataset.parent, metadata, {"experiment": completed.to_json()})
    return completed


def trial_data_step(trial: Path) -> None:
    """Write the dataset of a trial, whose experiment is that of its record."""
    generate_step(from_saved(read_record(trial).words), of_trial(trial))


def train_step(
    config: ExperimentConfig, folders: RunFolders, run: Callable[[JobSpec], None], *, trial: bool = False
) -> None:
    """Train, from the last checkpoint if there is one.

    Args:
        config: Experiment with the metadata of its data file.
        folders: Folders of the run.
        run: Runs the training job.
        trial: Whether the run is a trial of a study, whose failure is saved in its folder instead of raised.
    """
    dataset, training, written = map(str, (folders.dataset, folders.training, folders.logs))
    metadata = train_experiment(config, dataset, training, written, run, trial=trial)
    _save_metadata(folders.training.parent, {folders.logs: metadata, folders.training: metadata})


def tensorboard_step(folders: RunFolders) -> None:
    """Write the page that links the logs."""
    content = load_description("run", folders.logs.parent / METADATA)
    (logs,) = content["artifacts"]["logs"]["artifacts"]
    _save_metadata(
        folders.link.parent, {folders.link: tensorboard(str(folders.logs), logs["metadata"], "", str(folders.link))}
    )


@dataclasses.dataclass(frozen=True)
class BestTrial:
    """Result of a complete study.

    `best` is the index of the best trial, `folders` are its folders, and `trials` the results of all trials. `results`
    is the path of the table of trials as CSV, and `table` as HTML. `metric` selected the best trial. `repeated` are the
    rows that the trials repeat, and `rows` the path of their table as CSV, or None.
    """

    best: int
    folders: RunFolders
    trials: Sequence[Trial | FailedTrial]
    results: Path
    table: Path
    metric: str
    repeated: RepeatedRows | None = None
    rows: Path | None = None


def read_study(study: Path) -> BestTrial:
    """Return the result of a study whose last step is complete."""
    folders = _trials(study)
    trials = [read_trial(each.training) for each in folders]
    metric, repeated = load_metric(study), load_repeated(study)
    if repeated:
        chosen, trials = load_evaluated(study, trials)
    else:
        chosen = best(trials, metric)
    selected = _of_best(folders[chosen], study)
    rows = study / SELECT_STEP / _ROWS if repeated else None
    return BestTrial(chosen, selected, trials, *_tables(study), metric, repeated, rows)


def _trials(study: Path) -> list[RunFolders]:
    return [of_trial(folder) for folder in folders_by_trial(study, load_trials(study))]


def _tables(study: Path) -> tuple[Path, Path]:
    return study / SELECT_STEP / "results.csv", study / SELECT_STEP / "table.html"


def _of_best(trial: RunFolders, study: Path) -> RunFolders:
    """Return the folders of the best trial, whose model and evaluation are in the folder of the study."""
    folder = study / SELECT_STEP
    return dataclasses.replace(trial, exported=folder / "model", evaluation=folder)


def remove_model_of_fewer_epochs(config: ExperimentConfig, folders: RunFolders) -> None:
    """Remove the exported model if training has continued with more epochs since."""
    if folders.exported.exists():
        _, exported = model_folder.describe(folders.exported)
        if exported.epochs != config.epochs:
            shutil.rmtree(folders.exported)


def export_step(run: Path) -> None:
    """Export the model."""
    folders = of_run(run)
    if not folders.exported.exists():
        _save_metadata(folders.exported.parent, {folders.exported: _export(folders)})


def evaluate_step(run: Path) -> None:
    """Evaluate the exported model and write the report of the run."""
    folders = of_run(run)
    metrics = _save_evaluation(folders)
    track(str(folders.exported), str(folders.training), metrics, _uris(folders))


def register_step(folders: RunFolders, target: RegistrationTarget) -> None:
    """Register the exported model, and promote it if it is better than the present champion.

    Args:
        folders: Folders of the run.
        target: Where to register it.
    """
    metrics = load_metrics(str(folders.metrics))
    found = register(str(folders.exported), str(folders.dataset), metrics, str(folders.run), target)
    with writable(folders.registration):
        folders.registration.parent.mkdir(exist_ok=True)
    with new_file(folders.registration) as unfinished:
        unfinished.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    _save_metadata(folders.registration.parent, {folders.registration: found}, files=[folders.registration.name])


def evaluate_model_step(model: Path, dataset: Path, result: Path) -> None:
    """Evaluate a model, and write its predictions, metrics and confusion matrix to a new file.

    Args:
        model: Folder of the model.
        dataset: Folder of the dataset.
        result: File to create, which NumPy reads.
    """
    load_tensorflow()
    from qcnn.results import evaluate as evaluation

    found = evaluation.evaluate(model, data.load(dataset))
    described = {"metrics": found.metrics, "confusion": dataclasses.asdict(found.confusion)}
    np.savez(result, predictions=found.predictions, described=json.dumps(described))


def select_step(study: Path) -> None:
    """Tabulate the trials of a study, and export and evaluate the best one, into one folder."""
    trials, (results, page) = _trials(study), _tables(study)
    # The report is in the folder of the page.
    report = _of_best(trials[0], study).report.name
    trainings, datasets = [str(trial.training) for trial in trials], [str(trial.dataset) for trial in trials]
    repeated = load_repeated(study)
    chosen, evaluated = select_best(trainings, str(results), str(page), report, load_metric(study), repeated, datasets)
    if repeated:
        write_rows(repeated, evaluated, study / SELECT_STEP / _ROWS)
        save_evaluated(chosen, evaluated, study)
    folders = _of_best(trials[chosen], study)
    if not folders.exported.exists():
        _export(folders)
    metrics = _save_evaluation(folders)
    track_study(study, folders.exported, metrics, {**_uris(folders), "results": str(results)})


def _export(folders: RunFolders) -> dict[str, Any]:
    with quiet_tracing():
        return export_weights(str(folders.training), str(folders.exported))


def _evaluate(folders: RunFolders) -> dict[Path, Mapping[str, Any]]:
    """Evaluate the exported model and return the metadata of all outputs."""
    shutil.rmtree(folders.predictions, ignore_errors=True)
    read = folders.exported, folders.dataset, folders.training, folders.predictions
    with quiet_tracing():
        written = folders.metrics, folders.report, folders.evaluation
        metrics, confusion, metadata = evaluate(*map(str, (*read, *written)))
    save_confusion(confusion, str(folders.confusion))
    summarize(metrics, _uris(folders), str(folders.summary))
    return {
        folders.metrics: metrics,
        folders.predictions: metadata,
        folders.confusion: {"confusionMatrix": _confusion_matrix(confusion)} if confusion.classes else {},
        folders.report: metadata,
        folders.summary: metadata,
        **({folders.baselines: metadata} if folders.baselines.exists() else {}),
    }


def _uris(folders: RunFolders) -> dict[str, str]:
    """Return the paths of the artifacts of a summary by name."""
    summarized = folders.exported, folders.dataset, folders.training, folders.predictions, folders.report
    return {path.stem: str(path) for path in summarized}


def _confusion_matrix(confusion: Confusion) -> dict[str, Any]:
    """Return a confusion matrix in the format of KFP metadata (kfp.dsl.ClassificationMetrics)."""
    names = [{"displayName": name} for name in confusion.classes]
    return {"annotationSpecs": names, "rows": [{"row": row} for row in confusion.matrix]}


def _save_evaluation(folders: RunFolders) -> Mapping[str, float]:
    """Evaluate the exported model, write the metadata with the digests of all files but those of the model.

    Returns:
        The metrics.
    """
    artifacts, folder = _evaluate(folders), folders.evaluation
    files = [name for name in complete_files(folder) if not (folder / name).is_relative_to(folders.exported)]
    _save_metadata(folder, artifacts, files=[name for name in files if name != METADATA])
    return artifacts[folders.metrics]


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


_STEPS = {
    step.__name__: step for step in (trial_data_step, export_step, evaluate_step, evaluate_model_step, select_step)
}
_INTERRUPTED = 130
# Seconds between two questions whether another thread ends a step, and bytes of its output that are read at once.
_INTERVAL, _CHUNK_BYTES = 0.1, 65536


def run_in_subprocess(
    step: Step,
    paths: Sequence[Path],
    server: str | None,
    output: LineHandler,
    is_interrupted: IsInterrupted = never_interrupted,
) -> None:
    """Call a step in a separate process, which has none of the settings of this process, and ends with its memory.

    Args:
        step: Step to call.
        paths: Arguments of the step, absolute.
        server: Address of the fork server, see `start_process`.
        output: Handler of the output lines of the process.
        is_interrupted: Function that decides whether another thread ends the step.

    Raises:
        KeyboardInterrupt: If another thread ends the step.
        QcnnError: If the step raises it.
        TrainingError: If the process ends otherwise. The message contains its last line.
    """
    with contextlib.ExitStack() as stack:
        ends = [os.pipe() for _ in range(2)]
        printed, errors = (stack.enter_context(os.fdopen(end, "rb", buffering=0)) for end, _ in ends)
        (_, written), (_, raised) = ends
        try:
            argv = (sys.executable, "-m", "qcnn.components.local_steps", step.__name__, str(raised), *map(str, paths))
            child = start_process(
                argv, os.environ, stdin=0, stdout=written, stderr=written, pass_fds=(raised,), address=server
            )
        finally:
            os.close(written)
            os.close(raised)
        last_line = ""
        try:
            for line in _lines(printed, is_interrupted):
                last_line = line.strip() or last_line
                output(line)
            code = child.wait()
        except BaseException:
            _end(child)
            raise
        if error := errors.read():
            raise from_values(json.loads(error))
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise TrainingError(f"{step.__name__} ended with exit code {code}: {last_line}")


def _lines(printed: io.FileIO, is_interrupted: IsInterrupted) -> Iterator[str]:
    """Yield the lines of a pipe until it is closed, and raise KeyboardInterrupt if another thread ends the step."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    incomplete, is_open = "", True
    while is_open:
        if is_interrupted():
            raise KeyboardInterrupt
        if select.select([printed], [], [], _INTERVAL)[0]:
            chunk = printed.read(_CHUNK_BYTES)
            is_open = bool(chunk)
            *lines, incomplete = (incomplete + decoder.decode(chunk, final=not is_open)).split("\n")
            yield from lines
    if incomplete:
        yield incomplete


def _end(child: ChildProcess) -> None:
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE)
    child.kill()
    child.wait()


def main() -> None:
    """Call the step that the arguments name with paths, and write its error to a file descriptor."""
    name, raised, *paths = sys.argv[1:]
    with exit_immediately():
        try:
            with terminated_as_interrupt(), translate_limit_errors():
                log_to_stdout()
                _STEPS[name](*map(Path, paths))
        except QcnnError as error:
            os.write(int(raised), json.dumps(to_values(error)).encode())
            sys.exit(PERMANENT_ERROR)
        except KeyboardInterrupt:
            # The parent process reports the interruption.
            sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
