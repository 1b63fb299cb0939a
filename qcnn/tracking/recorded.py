"""Sending of runs from their folders, when their tracking server was away, or when they had none."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

from qcnn.artifact_io import load_description
from qcnn.errors import ArtifactError
from qcnn.model.checkpoints import FOLDER, load_latest
from qcnn.results import model_folder
from qcnn.results.local_run import METADATA, RunFolders, RunRecord, of_run, read_metrics, read_record
from qcnn.storage.copies import working_copy
from qcnn.studies.record import SELECT_STEP, has_succeeded, is_study, trial_folders
from qcnn.tracking.destination import Destination
from qcnn.tracking.identity import identity_of
from qcnn.tracking.mlflow import prepare
from qcnn.tracking.sender import RunSender
from qcnn.tracking.tracked_run import Results, TrackedRun, study_run, tracked_trials, training_run

# Seconds that an upload to a bucket may take before it is an error.
_PATIENCE = 60.0


@dataclasses.dataclass(frozen=True)
class SentRun:
    """Run that a server has: its name, and its ID on the server."""

    name: str
    run_id: str


def send_recorded(uri: str, destination: Destination) -> Iterator[SentRun]:
    """Send a run, or the trials of a study and the study. What the server has is not sent again.

    Args:
        uri: Folder of a local run or study, or the path or URI of the outputs of a training job.
        destination: Server.

    Yields:
        Each run that was sent.

    Raises:
        ArtifactError: If the folder has no training run, or another process tracks the run.
        ModuleNotFoundError: If the client is not installed.
        TrackingError: If a request fails.
    """
    prepare()
    with working_copy(uri, filled=True, written=True, patience=_PATIENCE) as copy:
        folder = copy.folder.absolute()
        if is_study(folder):
            for trial in trial_folders(folder):
                # A trial that ended before its first checkpoint has nothing to send.
                with contextlib.suppress(_MissingCheckpointError):
                    yield _send_local(trial, destination)
            yield _send_study(folder, destination)
        elif of_run(folder).training.exists():
            yield _send_local(folder, destination)
        else:
            yield _send_job(uri, folder, destination)
        copy.flush()


class _MissingCheckpointError(ArtifactError):
    """Error of a run without a checkpoint."""


def _send_local(run: Path, destination: Destination) -> SentRun:
    folders = of_run(run)
    uris = {"training": str(folders.training), "logs": str(folders.logs)}
    found: Mapping[str, str] = {}
    # A run that was interrupted, or that is of an earlier release, has no metadata of its training.
    with contextlib.suppress(ArtifactError, LookupError):
        content = load_description("run", folders.training.parent / METADATA, unversioned=True)
        found = content["artifacts"]["training"]["artifacts"][0]["metadata"]
    tracked = _tracked(folders.training, str(run), uris, found)
    try:
        record: RunRecord | None = read_record(run)
    except (OSError, ValueError):
        # A run of an earlier release.
        record = None
    state = record.state if record else "succeeded"
    ended = round(record.ended.timestamp() * 1000) if record and record.ended else None
    return _send(tracked, _results(folders), destination, state, ended)


def _send_study(study: Path, destination: Destination) -> SentRun:
    folders = dataclasses.replace(of_run(study), exported=study / SELECT_STEP / "model", evaluation=study / SELECT_STEP)
    state, results = "succeeded" if has_succeeded(study) else "interrupted", _results(folders)
    if results:
        results = dataclasses.replace(results, trials=tracked_trials(study))
    return _send(study_run(study), results, destination, state)


def _send_job(uri: str, folder: Path, destination: Destination) -> SentRun:
    """Send the run of a training job, whose folder has its outputs, or of a training folder."""
    is_training = (folder / FOLDER).exists()
    training = folder if is_training else folder / "training"
    root = uri.rstrip("/").rpartition("/")[0] if is_training else uri.rstrip("/")
    uris = {name: f"{root}/{name}" for name in ("training", "logs")}
    model, found, results = folder / "model", {}, None
    if (model / model_folder.FILE).exists():
        found = model_folder.describe(model)[0]["provenance"]
        results = Results({}, {"model": f"{root}/model"}, str(model))
    tracked = _tracked(training, uri, uris, found)
    return _send(tracked, results, destination, "succeeded" if results else "interrupted")


def _tracked(training: Path, uri: str, uris: Mapping[str, str], found: Mapping[str, str]) -> TrackedRun:
    saved = load_latest(training / FOLDER)
    if saved is None:
        raise _MissingCheckpointError(f"run: must be the folder of a run, a study or a training job. Given: {uri}")
    return training_run(saved.config, training, uris, found)


def _results(folders: RunFolders) -> Results | None:
    """Return the results of a run, or None if it has not been evaluated."""
    if not folders.metrics.exists():
        return None
    artifacts = {"model": folders.exported, "predictions": folders.predictions, "report": folders.report}
    return Results(read_metrics(folders), {name: str(path) for name, path in artifacts.items()}, str(folders.exported))


def _send(
    run: TrackedRun, results: Results | None, destination: Destination, state: str, ended: int | None = None
) -> SentRun:
    with identity_of(run.folder) as identity:
        sender = RunSender(run, identity, destination)
        run_id = sender.connect()
        sender.send_epochs(is_complete=True)
        if results:
            sender.send_results(results)
        sender.end(state, ended)
        return SentRun(run.name, run_id)
