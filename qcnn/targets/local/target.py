"""The target local: runs on the local machine, stored as folders.

Reading runs needs no TensorFlow. Incomplete and damaged runs are reported as such.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from typing_extensions import override

from qcnn.artifact_io import text_of, unseal
from qcnn.atomic_files import is_locked, readable
from qcnn.errors import ArtifactError, ConfigError, single_line
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.saved import from_saved
from qcnn.model.history import EpochMetrics
from qcnn.process.error_lines import one_line_errors
from qcnn.process.signals import terminated_as_interrupt
from qcnn.registry.address import DEFAULT, HELP, VARIABLE
from qcnn.results.local_run import (
    FILE,
    LOG,
    METADATA,
    RunRecord,
    load_metrics,
    model_in,
    of_run,
    read_metrics,
    read_record,
)
from qcnn.studies.record import SELECT_STEP, has_succeeded, is_study, trial_folders
from qcnn.targets import following
from qcnn.targets.base import (
    ComparedRun,
    Deletable,
    IsChecked,
    JobStatus,
    PartStatus,
    Predicts,
    ReportLine,
    Selection,
    TargetSettings,
)
from qcnn.targets.bound import BoundJobs
from qcnn.targets.checks import Check
from qcnn.targets.output_check import output_checks
from qcnn.targets.settings import CheckSettings, setting

if TYPE_CHECKING:
    from qcnn.results.batch_prediction import Progress

_ENDED = ("succeeded", "failed", "interrupted")
# Files that identify a run of earlier releases, which stored no record.
_OLD_MARKS = ("log.txt", "generate-data")
_BEGINNING = datetime.datetime.min.replace(tzinfo=datetime.UTC)

PREDICT_HELP = """
Predict the rows of a file. Without --data, predict the test split.

MODEL is the folder of a model or of a run, a model in a bucket such as gs://BUCKET/model, or a registered model such as
NAME@champion or NAME@2. FILE can be in a bucket, too, or - for CSV on standard input. With a column label, the error of
the predictions is printed.

--url predicts by a server: qcnn serve, TensorFlow Serving or KServe.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection(TargetSettings):
    """Location of local runs."""

    runs: Path = setting("Folder of runs.", Path("runs"), metavar="FOLDER")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictSettings(TargetSettings):
    """Settings of a local prediction."""

    model: str | None = setting("Folder of a model or of a run.", None, metavar="MODEL", is_argument=True)
    registry: str | None = setting(
        HELP,
        None,
        variables=(VARIABLE,),
        shown=DEFAULT,
        metavar="FOLDER|URI",
    )
    url: str | None = setting("URL of a model on a server, instead of MODEL. Requires --data.", None, metavar="URL")
    data: str | None = setting(
        "CSV, Parquet, npz or JSONL file with the columns of the model's inputs.", None, metavar="FILE"
    )
    output: str | None = setting(
        "File for the predictions, in one of these formats.", None, shown="CSV on stdout", metavar="FILE"
    )
    report: str | None = setting("HTML file for a report about the error. Requires labels.", None, metavar="FILE.html")

    def __post_init__(self) -> None:
        """Raise ConfigError unless there is one model."""
        if (self.model is None) == (self.url is None):
            raise ConfigError(f"predict: must have either MODEL or --url. Given: {'both' if self.url else 'none'}")
        if self.url is not None and self.data is None:
            raise ConfigError("data: must be given with --url. Given: none")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LocalCheckSettings(Connection, CheckSettings):
    """Settings of the checks of this machine."""


class LocalTarget(BoundJobs[Connection], Predicts[PredictSettings], IsChecked[LocalCheckSettings]):
    """The target for local runs."""

    name: ClassVar[str] = "local"
    title: ClassVar[str] = "the local machine"
    job_kind: ClassVar[str] = "run"
    extra: ClassVar[str] = "run"
    connection_settings: ClassVar[type[Connection]] = Connection
    predict_settings: ClassVar[type[PredictSettings]] = PredictSettings
    predict_help: ClassVar[str] = PREDICT_HELP
    check_settings: ClassVar[type[LocalCheckSettings]] = LocalCheckSettings
    selections: ClassVar[Sequence[str]] = ("everything",)
    delete_notes: ClassVar[str] = "The folder of a run is deleted with all outputs."

    @override
    def place(self) -> str:
        return f"folder {self.connection.runs}"

    @override
    def list_jobs(self, experiment: str | None = None) -> Sequence[JobStatus]:
        folders = _folders(self.connection.runs, lambda each: _is_run(each) or is_study(each))
        return [_status(folder) for folder in folders]

    @override
    def get_job(self, job: str) -> JobStatus:
        """Return a run with its steps, or a study with its trials, by its folder or its name in the folder of runs.

        Raises:
            ArtifactError: If the run does not exist.
        """
        study = next((folder for folder in (Path(job), self.connection.runs / job) if is_study(folder)), None)
        return _status(study or self._folder(job), with_parts=True)

    @override
    def logs(self, job: str, *, follow: bool) -> Iterator[str]:
        folder = self._folder(job)
        try:
            log = (folder / LOG).open(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ArtifactError(f"log: cannot be read ({error.strerror}). Given: {folder / LOG}") from None
        with log:
            while True:
                # Checked before the lines are read, so that no line of an ended run is missed.
                has_ended = _status(folder).has_ended
                yield from (line.rstrip("\n") for line in log)
                if not follow or has_ended:
                    return
                time.sleep(following.INTERVAL)

    @override
    def metrics(self, job: str) -> Mapping[str, float]:
        return read_metrics(of_run(self._folder(job)))

    @override
    def model(self, job: str) -> str:
        folder = self._folder(job)
        return str(model_in(folder, folder))

    @override
    def delete(self, job: str) -> None:
        """Delete the folder of a run.

        Raises:
            ArtifactError: If the run does not exist.
            ConfigError: If the run is active.
        """
        self.delete_found(self.find(Selection(names=(job,))))

    @override
    def find(self, selection: Selection) -> Sequence[Deletable]:
        folders = find_runs(selection.names, self.connection.runs)
        found = [(folder, _status(folder)) for folder in folders]
        if alive := [status.job for _, status in found if not status.has_ended]:
            raise ConfigError(f"delete: the run must have ended; stop its process. Given: {', '.join(alive)}")
        return [
            Deletable("run", status.job, status.name, status.name, status.state, folder) for folder, status in found
        ]

    @override
    def delete_found(self, found: Sequence[Deletable]) -> None:
        for each in found:
            try:
                shutil.rmtree(cast(Path, each.object))
            except OSError as error:
                raise ArtifactError(f"run: cannot be deleted ({error.strerror}). Given: {each.object}") from None

    @override
    def predict(
        self, settings: PredictSettings, report: ReportLine, warn: ReportLine, progress: Progress
    ) -> Mapping[str, float | str]:
        """Predict the rows of a file, or a model's test split, whose first predictions are logged."""
        # Importing NumPy and pyarrow takes longer than all other imports here.
        from qcnn.registry.references import model_copy
        from qcnn.results.predictions import files_or_streams_of
        from qcnn.trainer.predict import predict_file, predict_test_split

        files = files_or_streams_of(settings.data, settings.output, settings.report)
        if settings.url is not None and files:
            from qcnn.serving.client import predict_by_url

            with one_line_errors(), terminated_as_interrupt():
                return {"rows": predict_by_url(settings.url, files, progress, report).rows}
        assert settings.model is not None
        with one_line_errors(), terminated_as_interrupt(), model_copy(settings.model, settings.registry) as copy:
            folder = model_in(copy, settings.model)
            if files:
                predicted = predict_file(folder, files, progress, report)
            else:
                dataset = of_run(copy).dataset
                predicted = predict_test_split(folder, str(dataset) if dataset.is_dir() else None)
        return {"rows": predicted.rows, **predicted.metrics}

    @override
    def checks(self, settings: LocalCheckSettings) -> Sequence[Check]:
        # This import loads pydantic.
        from qcnn.targets.local.checks import local_checks

        return (*local_checks(self.connection.runs), *output_checks(settings))

    def _folder(self, job: str) -> Path:
        (folder,) = find_runs((job,), self.connection.runs)
        return folder


def _status(folder: Path, *, with_parts: bool = False) -> JobStatus:
    """Return the status of a run or study. Without a readable record of a run, the state is damaged or unknown."""
    if is_study(folder):
        return _study_status(folder, with_parts=with_parts)
    record: RunRecord | None = None
    try:
        record = read_record(folder)
        state: str = record.state
    except FileNotFoundError:
        # A run of an earlier release, which stored no record.
        state = "unknown"
    except (OSError, ValueError):
        state = "damaged"
    now = datetime.datetime.now(datetime.UTC)
    model = of_run(folder).exported
    return JobStatus(
        job=str(folder),
        name=folder.name,
        state=state,
        has_ended=state in _ENDED or record is None,
        has_succeeded=state == "succeeded",
        age=(now - record.started).total_seconds() if record else None,
        duration=record.seconds if record else None,
        outputs={"model": str(model)} if model.is_dir() else {},
        parts=[PartStatus(step.name, step.state, duration=step.seconds) for step in record.steps]
        if record and with_parts
        else (),
    )


def _study_status(folder: Path, *, with_parts: bool) -> JobStatus:
    """Return the status of a study."""
    trials = [_status(trial) for trial in trial_folders(folder)]
    # A study that has just ended had written its last files before.
    is_running, is_complete = is_locked(folder), has_succeeded(folder)
    model = folder / SELECT_STEP / "model"
    return JobStatus(
        job=str(folder),
        name=folder.name,
        state="running" if is_running else "succeeded" if is_complete else "interrupted",
        has_ended=not is_running,
        has_succeeded=is_complete and not is_running,
        age=max((trial.age for trial in trials if trial.age is not None), default=None),
        outputs={"model": str(model)} if model.is_dir() else {},
        parts=[PartStatus(trial.name, trial.state, duration=trial.duration) for trial in trials] if with_parts else (),
    )


def find_runs(names: Sequence[str], root: Path) -> list[Path]:
    """Return the folders of named runs, or of all runs in `root`, newest last.

    Raises:
        ArtifactError: If a name is not the path of a run, or its name in `root`.
    """
    if not names:
        return _folders(root, _is_run)
    found = [folder if _is_run(folder := Path(name)) else root / name for name in names]
    for name, folder in zip(names, found, strict=True):
        if not _is_run(folder):
            marks = ", ".join((FILE, *_OLD_MARKS))
            raise ArtifactError(f"run: must be the folder of a run, with one of {marks}. Given: {name}")
    return found


def read_run(folder: Path) -> ComparedRun:
    """Read a run for a comparison.

    Values of missing files are empty. An unreadable file makes the state damaged. Without a record, as in runs of
    earlier releases, the state is unknown.
    """
    damaged = False

    def part(read: Callable[[Path], Any], blank: Any) -> Any:
        nonlocal damaged
        try:
            return read(folder)
        except FileNotFoundError:
            pass
        except Exception:  # The reader of a damaged file can raise any exception.
            damaged = True
        return blank

    record: RunRecord | None = part(read_record, None)
    parameters = _flat(record.words) if record else part(_parameters, {})
    metrics, history = part(lambda run: load_metrics(of_run(run).metrics), {}), part(_history, ())
    state = "damaged" if damaged else record.state if record else "unknown"
    report = of_run(folder).report
    seconds = record.seconds if record else None
    existing = report if report.is_file() else None
    return ComparedRun(folder.name, state, parameters, metrics, history, seconds, existing)


def _folders(root: Path, is_wanted: Callable[[Path], bool]) -> list[Path]:
    """Return the folders of runs or studies in `root`, newest last."""
    folders = [folder for folder in root.iterdir() if is_wanted(folder)] if root.is_dir() else []
    return sorted(folders, key=lambda folder: (_start_time(folder), folder.name))


def _is_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in (FILE, *_OLD_MARKS))


def _start_time(folder: Path) -> datetime.datetime:
    """Return the start time of a run, or of a study's first trial. Those without a readable time are sorted first."""
    first = next(iter(trial_folders(folder)), folder) if is_study(folder) else folder
    try:
        return read_record(first).started
    except (OSError, ValueError):
        return _BEGINNING


def _parameters(folder: Path) -> dict[str, Any]:
    output = unseal(text_of(folder / "generate-data" / METADATA), unversioned=True)
    return _flat(json.loads(output["parameterValues"]["experiment"]))


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment's fields, with its options at the same level."""
    options = fields.get("options", {})
    return {name: value for name, value in fields.items() if name != "options"} | dict(options)


def _history(folder: Path) -> tuple[EpochMetrics, ...]:
    from qcnn.model import checkpoints

    training = folder / "train" / "training"
    return checkpoints.load_history(training) if checkpoints.any_in(training / checkpoints.FOLDER) else ()


def read_metadata(run: Path, step: str, artifact: str) -> dict[str, Any]:
    """Return the metadata of an artifact, as written by the KFP executor.

    Args:
        run: Folder of the run.
        step: Name of the step.
        artifact: Output of the step.

    Raises:
        ArtifactError: If the run has no such artifact.
    """
    path = run / step / METADATA
    try:
        with readable("run", path):
            content = unseal(text_of(path), unversioned=True)
            return dict(content["artifacts"][artifact]["artifacts"][0]["metadata"])
    except ArtifactError:
        raise ArtifactError(f"run: must have a finished step {step} with artifact {artifact}. Given: {run}") from None


def read_experiment(run: Path, step: str = "generate-data", artifact: str = "dataset") -> ExperimentConfig:
    """Return the experiment in an artifact's metadata, by default in that of the first step.

    Args:
        run: Folder of the run.
        step: Name of the step.
        artifact: Output of the step.

    Raises:
        ArtifactError: If the folder is not a run with this artifact.
    """
    metadata = read_metadata(run, step, artifact)
    try:
        return from_saved(json.loads(str(metadata.get("experiment"))))
    except (ConfigError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"run: its experiment is unreadable ({single_line(error)}). Given: {run}") from None
