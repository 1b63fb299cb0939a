"""The target local: this machine, whose runs are folders, read without TensorFlow and in whatever state they are."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from qcnn.artifact_io import text_of
from qcnn.atomic_files import readable
from qcnn.errors import ArtifactError, ConfigError, single_line
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_saved
from qcnn.model.history import HISTORY, EpochMetrics, load_history
from qcnn.results.local_run import FILE, LOG, RunRecord, model_in, of_run, read_metrics, read_record
from qcnn.startup import one_line_errors, terminated_as_interrupt
from qcnn.storage.copies import local_copy
from qcnn.targets import following
from qcnn.targets.base import ComparedRun, Deletable, JobStatus, PartStatus, Say, Selection
from qcnn.targets.settings import setting

_ENDED = ("succeeded", "failed", "interrupted")
# Of releases that kept no record: what makes a folder a run's.
_OLD_MARKS = ("log.txt", "generate-data")
_BEGINNING = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)

PREDICT_HELP = """
Predict the rows of a file; without --data the test split of the model.

MODEL is the folder of a model or of a run, or a model in a bucket such as gs://BUCKET/model; FILE may be in a bucket
too. A column label is compared with the predictions.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """Where runs are."""

    runs: Path = setting("Folder of runs.", Path("runs"), metavar="PATH")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictSettings:
    """What is predicted, with what, and where it goes."""

    model: str = setting("Folder of a model or of a run.", metavar="MODEL", is_argument=True)
    data: str | None = setting(
        "CSV, Parquet, npz or JSONL with the columns that the model takes.", None, metavar="FILE"
    )
    output: str | None = setting("Where predictions go, in one of these formats.", None, metavar="FILE")
    report: str | None = setting(
        "Where a page about their error goes; for data with labels.", None, metavar="FILE.html"
    )


class LocalTarget:
    """Runs of this machine, which are folders."""

    name: ClassVar[str] = "local"
    title: ClassVar[str] = "this machine"
    job_kind: ClassVar[str] = "run"
    extra: ClassVar[str] = "run"
    connection: ClassVar[type[Connection]] = Connection
    predict_settings: ClassVar[type[PredictSettings]] = PredictSettings
    predict_help: ClassVar[str] = PREDICT_HELP
    selections: ClassVar[Sequence[str]] = ("everything",)
    kinds: ClassVar[Sequence[str]] = ()
    has_experiments: ClassVar[bool] = False
    delete_notes: ClassVar[str] = "A run is its folder, which is deleted with all that it holds."

    def place(self, connection: Connection) -> str:
        """Return the folder of runs."""
        return f"folder {connection.runs}"

    def list_jobs(self, connection: Connection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the runs of the folder, the newest last."""
        return [_status(folder) for folder in find_runs((), connection.runs)]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a run, by its folder or its name in the folder of runs, with its steps.

        Raises:
            ArtifactError: there is no such run.
        """
        return _status(_folder(job, connection), with_steps=True)

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield the lines of a run's log.

        Raises:
            ArtifactError: there is no such run, or it has no log.
        """
        folder = _folder(job, connection)
        try:
            log = (folder / LOG).open(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ArtifactError(f"log: cannot be read ({error.strerror}). Given: {folder / LOG}") from None
        with log:
            while True:
                # Before the lines are read: none comes later.
                has_ended = _status(folder).has_ended
                yield from (line.rstrip("\n") for line in log)
                if not follow or has_ended:
                    return
                time.sleep(following.INTERVAL)

    def follow(self, job: str, connection: Connection, say: Say, restarts: int | None = None) -> None:
        """Say the lines of a run's log until it has ended.

        Raises:
            ArtifactError: there is no such run, or it has no log.
            StepError: it failed.
        """
        for line in self.logs(job, connection, follow=True):
            say(line)
        following.check_succeeded(self.get_job(job, connection), self.job_kind)

    def wait(self, job: str, connection: Connection, say: Say) -> None:
        """Say how the states of a run and its steps change until it has ended.

        Raises:
            ArtifactError: there is no such run.
            StepError: it failed.
        """
        following.wait(lambda: self.get_job(job, connection), say, self.job_kind)

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return what was measured of a run.

        Raises:
            ArtifactError: there is no such run, or nothing was measured yet.
        """
        return read_metrics(of_run(_folder(job, connection)))

    def model(self, job: str, connection: Connection) -> str:
        """Return the folder of the model that a run has exported.

        Raises:
            ArtifactError: there is no such run, or it has exported none.
        """
        folder = _folder(job, connection)
        return str(model_in(folder, folder))

    def delete(self, job: str, connection: Connection) -> None:
        """Delete the folder of a run.

        Raises:
            ArtifactError: there is no such run.
            ConfigError: it has not ended.
        """
        self.delete_found(self.find(Selection(names=(job,)), connection), connection)

    def find(self, selection: Selection, connection: Connection) -> Sequence[Deletable]:
        """Return runs that have ended.

        Raises:
            ArtifactError: there is no such run.
            ConfigError: one has not ended.
        """
        folders = find_runs(selection.names, connection.runs)
        found = [(folder, _status(folder)) for folder in folders]
        if alive := [status.job for _, status in found if not status.has_ended]:
            raise ConfigError(f"delete: the run has not ended; its own process ends it. Given: {', '.join(alive)}")
        return [
            Deletable("run", status.job, status.name, status.name, status.state, folder) for folder, status in found
        ]

    def delete_found(self, found: Sequence[Deletable], connection: Connection) -> None:
        """Delete the folders of runs.

        Raises:
            ArtifactError: one cannot be deleted.
        """
        for each in found:
            try:
                shutil.rmtree(each.object)
            except OSError as error:
                raise ArtifactError(f"run: cannot be deleted ({error.strerror}). Given: {each.object}") from None

    def predict(self, settings: PredictSettings, say: Say, warn: Say, progress: Any) -> Mapping[str, Any]:
        """Predict the rows of a file, or a model's test split, and print them.

        Raises:
            ArtifactError: a file cannot be read or written, or is no model.
        """
        # NumPy and pyarrow take longer to load than everything else here.
        from qcnn.results.predictions import files_of
        from qcnn.trainer.predict import predict_held_out, predict_new

        files = files_of(settings.data, settings.output, settings.report)
        with one_line_errors(), terminated_as_interrupt(), local_copy(settings.model) as copy:
            folder = model_in(copy, settings.model)
            if files:
                predicted = predict_new(folder, files, progress)
            else:
                dataset = of_run(copy).dataset
                predicted = predict_held_out(folder, str(dataset) if dataset.is_dir() else None)
        return {"rows": predicted.rows, **predicted.metrics}


def _folder(job: str, connection: Connection) -> Path:
    (folder,) = find_runs((job,), connection.runs)
    return folder


def _status(folder: Path, *, with_steps: bool = False) -> JobStatus:
    """Return the state of a run; damaged or unknown, where its record does not tell."""
    record: RunRecord | None = None
    try:
        record = read_record(folder)
        state: str = record.state
    except FileNotFoundError:
        # A release that kept no record.
        state = "unknown"
    except (OSError, ValueError):
        state = "damaged"
    now = datetime.datetime.now(datetime.timezone.utc)
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
        if record and with_steps
        else (),
    )


def find_runs(names: Sequence[str], root: Path) -> list[Path]:
    """Return the folders of the runs named, by their path or their name under `root`; of all under it, newest last.

    Raises:
        ArtifactError: a name is no folder of a run.
    """
    if not names:
        folders = [folder for folder in root.iterdir() if _is_run(folder)] if root.is_dir() else []
        return sorted(folders, key=lambda folder: (_started(folder), folder.name))
    found = [folder if _is_run(folder := Path(name)) else root / name for name in names]
    for name, folder in zip(names, found, strict=True):
        if not _is_run(folder):
            marks = ", ".join((FILE, *_OLD_MARKS))
            raise ArtifactError(f"run: must be a run's folder, with one of {marks} in it. Given: {name}")
    return found


def read_run(folder: Path) -> ComparedRun:
    """Read a run; a file that is not there yet leaves blanks, one that cannot be read makes it damaged.

    The state of a run of a release that kept no record is not known.
    """
    damaged = False

    def part(read: Callable[[Path], Any], blank: Any) -> Any:
        nonlocal damaged
        try:
            return read(folder)
        except FileNotFoundError:
            pass
        except Exception:  # Whatever a damaged file has its reader raise.
            damaged = True
        return blank

    record: RunRecord | None = part(read_record, None)
    parameters = _flat(record.words) if record else part(_parameters, {})
    metrics, history = part(_metrics, {}), part(_history, ())
    state = "damaged" if damaged else record.state if record else "unknown"
    return ComparedRun(folder.name, state, parameters, metrics, history, record.seconds if record else None)


def _is_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in (FILE, *_OLD_MARKS))


def _started(folder: Path) -> datetime.datetime:
    """Return when a run began; those of which that cannot be read come first, by their names."""
    try:
        return read_record(folder).started
    except (OSError, ValueError):
        return _BEGINNING


def _parameters(folder: Path) -> dict[str, Any]:
    output = json.loads(text_of(folder / "generate-data" / "executor_output.json"))
    return _flat(json.loads(output["parameterValues"]["experiment"]))


def _flat(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment's words with its options among them."""
    options = words.get("options", {})
    return {name: value for name, value in words.items() if name != "options"} | dict(options)


def _metrics(folder: Path) -> dict[str, float]:
    metrics = json.loads(text_of(folder / "evaluate" / "metrics"))
    return {name: float(value) for name, value in dict(metrics).items()}


def _history(folder: Path) -> tuple[EpochMetrics, ...]:
    path = folder / "train" / "training" / HISTORY
    return load_history(path) if path.exists() else ()


def read_metadata(run: Path, step: str, artifact: str) -> dict[str, Any]:
    """Return the metadata of an artifact, as Kubeflow's executor wrote it.

    Raises:
        ArtifactError: the run has no such artifact.
    """
    path = run / step / "executor_output.json"
    try:
        with readable("run", path):
            metadata = json.loads(text_of(path))["artifacts"][artifact]["artifacts"][0]["metadata"]
            return dict(metadata)
    except ArtifactError:
        raise ArtifactError(f"run: has no finished step {step} with artifact {artifact}. Given: {run}") from None


def read_experiment(run: Path, step: str = "generate-data", artifact: str = "dataset") -> ExperimentConfig:
    """Return the experiment in an artifact's metadata; by default of a run whose first step finished.

    Raises:
        ArtifactError: the folder is not such a run.
    """
    metadata = read_metadata(run, step, artifact)
    try:
        return from_saved(json.loads(str(metadata.get("experiment"))))
    except (ConfigError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"run: its experiment cannot be read ({single_line(error)}). Given: {run}") from None
