"""The folder of a local run: its record run.json, and the folders of its steps."""

import contextlib
import dataclasses
import datetime
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pydantic

from qcnn.artifact_io import FILES, check_files, load_description, save_description, text_of, unseal
from qcnn.atomic_files import folder_lock, is_locked, new_file, readable
from qcnn.errors import ArtifactError
from qcnn.results import model_folder

FILE = "run.json"
# Results of classical models, in the folder of the evaluation.
BASELINES_FILE = "baselines.json"
# Output of the steps.
LOG = "log.txt"
# Output metadata in the folder of a step, in the format of the KFP executor.
METADATA = "executor_output.json"
# Maximum bytes of an output file that is read again: metrics, or the table of a study.
_MAX_OUTPUT_BYTES = 2**27

State = Literal["running", "succeeded", "failed", "interrupted"]


@dataclasses.dataclass(frozen=True)
class RecordedStep:
    """Step of a run, with its duration in seconds, or None while it runs."""

    name: str
    state: State
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """State, times (UTC), steps in start order, and experiment fields (`words`) of a run.

    `earlier_epochs` are the numbers of epochs with which training began, before a later one was requested.
    """

    state: State
    started: pydantic.AwareDatetime
    ended: pydantic.AwareDatetime | None
    steps: tuple[RecordedStep, ...]
    words: Mapping[str, Any]
    earlier_epochs: tuple[int, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Duration in seconds, or None if the run has not ended or was killed."""
        return round((self.ended - self.started).total_seconds(), 3) if self.ended else None


_ADAPTER = pydantic.TypeAdapter(RunRecord)


def read_record(run: Path) -> RunRecord:
    """Return the record of a run, with state interrupted if its process was killed.

    The process of a run holds a lock on its folder, which the operating system releases when the process ends.

    Raises:
        FileNotFoundError: If there is no record, as for runs of older releases.
        ValueError: If the record is damaged.
    """
    record = _read(run)
    if record.state == "running" and not is_locked(run):
        # The run may have ended between the two checks.
        record = _read(run)
        if record.state == "running":
            return dataclasses.replace(record, state="interrupted")
    return record


class RunRecorder:
    """Context manager that writes the record of a run, including its end."""

    def __init__(self, words: Mapping[str, Any], earlier_epochs: Sequence[int] = ()) -> None:
        self.folder: Path | None = None
        self._record = RunRecord("running", _now(), None, (), words, tuple(earlier_epochs))
        self._lock = contextlib.ExitStack()
        self._step_started = 0.0

    def __enter__(self) -> "RunRecorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        state: State = "succeeded"
        if error is not None:
            state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        try:
            self._write(state=state, ended=_now(), steps=self._ended_steps(state))
        except ArtifactError:
            # This error must not hide the error that ended the run.
            if error is None:
                raise
        finally:
            self._lock.close()

    @property
    def failed_step(self) -> str | None:
        """Name of the failed step, or None."""
        return next((step.name for step in self._record.steps if step.state == "failed"), None)

    def begin_step(self, name: str, run: Path) -> None:
        """Record the start of a step of the run in a folder.

        Raises:
            ArtifactError: If the folder cannot be written, or is in use by another run.
        """
        if self.folder is None:
            self._lock.enter_context(folder_lock("run", run))
            self.folder = run
        self._step_started = time.monotonic()
        self._write(steps=(*self._record.steps, RecordedStep(name, "running")))

    def end_step(self, succeeded: bool) -> None:
        """Record the end of the current step."""
        self._write(steps=self._ended_steps("succeeded" if succeeded else "failed"))

    def _ended_steps(self, state: State) -> tuple[RecordedStep, ...]:
        steps = self._record.steps
        if not steps or steps[-1].state != "running":
            return steps
        seconds = round(time.monotonic() - self._step_started, 3)
        return (*steps[:-1], dataclasses.replace(steps[-1], state=state, seconds=seconds))

    def _write(self, **changes: Any) -> None:
        self._record = dataclasses.replace(self._record, **changes)
        if self.folder is not None:
            with new_file(self.folder / FILE) as unfinished:
                save_description(_ADAPTER.dump_python(self._record, mode="json"), unfinished)


def _read(run: Path) -> RunRecord:
    return _ADAPTER.validate_python(unseal(text_of(run / FILE), unversioned=True))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclasses.dataclass(frozen=True)
class RunFolders:
    """Folders and files of a run."""

    run: Path
    dataset: Path
    exported: Path
    evaluation: Path

    @property
    def training(self) -> Path:
        """Folder of checkpoints and history."""
        return self.run / "train" / "training"

    @property
    def logs(self) -> Path:
        """Folder of TensorBoard logs."""
        return self.run / "train" / "logs"

    @property
    def link(self) -> Path:
        """Page with instructions to open the logs in TensorBoard."""
        return self.run / "tensorboard" / "link"

    @property
    def predictions(self) -> Path:
        """Folder of predictions.csv."""
        return self.evaluation / "predictions"

    @property
    def metrics(self) -> Path:
        """File of the metrics."""
        return self.evaluation / "metrics"

    @property
    def baselines(self) -> Path:
        """Results of classical models, which exist with the field `baseline` only."""
        return self.evaluation / BASELINES_FILE

    @property
    def registration(self) -> Path:
        """File of the metrics of the registration."""
        return self.run / "register" / "registration"

    @property
    def confusion(self) -> Path:
        """File of the confusion matrix."""
        return self.evaluation / "confusion"

    @property
    def summary(self) -> Path:
        """Markdown summary of metrics and artifact URIs."""
        return self.evaluation / "summary.md"

    @property
    def report(self) -> Path:
        """HTML report of the run."""
        return self.evaluation / "report.html"


def of_run(folder: Path) -> RunFolders:
    """Return the folders of a run."""
    return RunFolders(
        folder, folder / "generate-data" / "dataset", folder / "export-weights" / "model", folder / "evaluate"
    )


def of_trial(folder: Path) -> RunFolders:
    """Return the folders of a trial of a study, which has another dataset folder and no evaluation."""
    return dataclasses.replace(of_run(folder), dataset=folder / "trial-data" / "dataset")


def model_in(folder: Path, uri: object) -> Path:
    """Return the model folder in a model folder or run folder.

    Args:
        folder: Local folder of a model or a run.
        uri: URI from which the folder was copied, for error messages.

    Raises:
        ArtifactError: If there is no model.
    """
    for candidate in (folder, of_run(folder).exported):
        if (candidate / model_folder.FILE).is_file():
            return candidate
    raise ArtifactError(
        f"model: must be the folder of a model or of a run, with {model_folder.FILE} in it. Given: {uri}"
    )


def read_metrics(folders: RunFolders) -> dict[str, float]:
    """Return the metrics of a run.

    Raises:
        ArtifactError: If their file is missing or damaged.
    """
    with readable("run", folders.metrics):
        return load_metrics(folders.metrics)


def load_metrics(path: Path) -> dict[str, float]:
    """Return the metrics in a file of a run.

    Raises:
        ArtifactError: If the file is not that of the run's evaluation.
        FileNotFoundError: If the file is missing.
        Exception: If the file is damaged.
    """
    text = text_of(path)
    check_output(path)
    return {name: float(value) for name, value in json.loads(text).items()}


def check_output(path: Path) -> None:
    """Check an output file of a step against the digest in the metadata of the step.

    Earlier versions wrote no digests.

    Raises:
        ArtifactError: If the file or the metadata are damaged.
    """
    metadata = path.parent / METADATA
    if metadata.exists():
        digests = load_description("run", metadata, unversioned=True).get(FILES)
        if digests is not None:
            check_files("run", metadata, digests, path.name, _MAX_OUTPUT_BYTES)
