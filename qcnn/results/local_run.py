"""The folder of a run of this machine: run.json, replaced whenever a fact changes, and where its steps write."""

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pydantic

from qcnn.artifact_io import text_of
from qcnn.atomic_files import new_file, readable, writable
from qcnn.errors import ArtifactError
from qcnn.results import model_folder

FILE = "run.json"
# What the steps print.
LOG = "log.txt"
# In the folder of a step: what it has left, as Kubeflow's executor writes it.
METADATA = "executor_output.json"

State = Literal["running", "succeeded", "failed", "interrupted"]


@dataclasses.dataclass(frozen=True)
class RecordedStep:
    """A step of a run; `seconds` is how long it took, None while it runs."""

    name: str
    state: State
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """State, times (UTC) and steps of a run, in the order of their start, and the experiment's words that it runs."""

    state: State
    started: pydantic.AwareDatetime
    ended: pydantic.AwareDatetime | None
    steps: tuple[RecordedStep, ...]
    words: Mapping[str, Any]

    @property
    def seconds(self) -> float | None:
        """How long the run took, None where it has not ended or was killed."""
        return round((self.ended - self.started).total_seconds(), 3) if self.ended else None


_ADAPTER = pydantic.TypeAdapter(RunRecord)


def read_record(run: Path) -> RunRecord:
    """Return the record of a run; one whose process was killed before it could write its end is interrupted.

    Whoever runs it holds a lock on its folder, which the system takes from it however it ends.

    Raises:
        FileNotFoundError: there is none, as of a run of a release that wrote none.
        ValueError: it is damaged.
    """
    record = _read(run)
    if record.state == "running" and not _is_held(run):
        # It may have ended between the two looks.
        record = _read(run)
        if record.state == "running":
            return dataclasses.replace(record, state="interrupted")
    return record


class RunRecorder:
    """Keeps the record of a run that is going on; a block of it ends with the run's end written down."""

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.folder: Path | None = None
        self._record = RunRecord("running", _now(), None, (), words)
        self._lock: int | None = None
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
            # What ended the run must not be hidden by a record that cannot be written either.
            if error is None:
                raise
        finally:
            if self._lock is not None:
                os.close(self._lock)

    @property
    def failed_step(self) -> str | None:
        """The name of the step that failed, if one did."""
        return next((step.name for step in self._record.steps if step.state == "failed"), None)

    def begin_step(self, name: str, run: Path) -> None:
        """Write down that a step of the run in this folder begins.

        Raises:
            ArtifactError: the folder cannot be written.
        """
        if self.folder is None:
            with writable(run):
                run.mkdir(parents=True, exist_ok=True)
                self._lock = _lock(run)
            self.folder = run
        self._step_started = time.monotonic()
        self._write(steps=(*self._record.steps, RecordedStep(name, "running")))

    def end_step(self, succeeded: bool) -> None:
        """Write down how the step ended that began last."""
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
                unfinished.write_bytes(_ADAPTER.dump_json(self._record, indent=2) + b"\n")


def _read(run: Path) -> RunRecord:
    return _ADAPTER.validate_json(text_of(run / FILE))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _lock(run: Path) -> int:
    """Hold a run's folder until this process ends, or closes what is returned."""
    descriptor = os.open(run, os.O_RDONLY)
    # Some file systems have no locks: a run is none the worse for it.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _is_held(run: Path) -> bool:
    """Whether a process runs this; where the file system has no locks, none is known to have ended."""
    descriptor = os.open(run, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@dataclasses.dataclass(frozen=True)
class RunFolders:
    """The folders of a run, by what they hold."""

    run: Path
    dataset: Path
    exported: Path
    evaluation: Path

    @property
    def training(self) -> Path:
        """Checkpoints and the losses of every epoch."""
        return self.run / "train" / "training"

    @property
    def logs(self) -> Path:
        """TensorBoard's."""
        return self.run / "train" / "logs"

    @property
    def link(self) -> Path:
        """The page that says how to look at the logs."""
        return self.run / "tensorboard" / "link"

    @property
    def predictions(self) -> Path:
        """The folder of the predictions."""
        return self.evaluation / "predictions"

    @property
    def metrics(self) -> Path:
        """The file of the metrics."""
        return self.evaluation / "metrics"

    @property
    def confusion(self) -> Path:
        """The file of the confusion matrix."""
        return self.evaluation / "confusion"

    @property
    def summary(self) -> Path:
        """The page of metrics and addresses."""
        return self.evaluation / "summary.md"

    @property
    def report(self) -> Path:
        """The page of the run."""
        return self.evaluation / "report.html"


def of_run(folder: Path) -> RunFolders:
    """Return the folders of a run."""
    return RunFolders(
        folder, folder / "generate-data" / "dataset", folder / "export-weights" / "model", folder / "evaluate"
    )


def of_trial(folder: Path) -> RunFolders:
    """Return the folders of a trial of a study, which exports and evaluates no model of its own."""
    return dataclasses.replace(of_run(folder), dataset=folder / "trial-data" / "dataset")


def model_in(folder: Path, address: object) -> Path:
    """Return the folder of a model, which may be that of its run; errors name the address that it was copied from.

    Raises:
        ArtifactError: there is none.
    """
    for found in (folder, of_run(folder).exported):
        if (found / model_folder.FILE).is_file():
            return found
    raise ArtifactError(
        f"model: must be the folder of a model or of a run, with {model_folder.FILE} in it. Given: {address}"
    )


def read_metrics(folders: RunFolders) -> dict[str, float]:
    """Return the metrics that were measured.

    Raises:
        ArtifactError: their file is missing or damaged.
    """
    with readable("run", folders.metrics):
        return {name: float(value) for name, value in json.loads(text_of(folders.metrics)).items()}
