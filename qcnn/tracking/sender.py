"""Sender of a run to its tracking server, also as a process: python -m qcnn.tracking.sender.

The process has the environment of MLflow's client to itself, and a server that does not respond cannot stop training:
the training process neither waits for it nor imports the client. Epochs arrive as JSON lines on stdin, and those that
were dropped are read from the history of the run. The end of stdin ends the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Mapping
from typing import Any

from qcnn.errors import QcnnError, as_clause, single_line
from qcnn.model.history import EpochMetrics
from qcnn.process.extras import missing
from qcnn.process.standard_streams import open_standard_streams
from qcnn.storage.copies import local_copy
from qcnn.tracking.background import READY, WARNING
from qcnn.tracking.destination import Destination, TrackingError, destination_in
from qcnn.tracking.epochs import Epochs, TimedEpoch
from qcnn.tracking.identity import FOLDER, Identity, identity_of
from qcnn.tracking.mlflow import MlflowServer, prepare
from qcnn.tracking.tracked_run import Results, TrackedRun, study_run

# Seconds between two requests, and after a failed one.
_INTERVAL, _RETRY_INTERVAL = 1.0, 15.0
_CHUNK = 2**16
# File in the folder of the identity, after a warning.
_UNSENT = "unsent"


class RunSender:
    """Sender of one run. Its methods raise TrackingError if the server fails, and can be repeated.

    Args:
        run: Run to send.
        identity: Identity of the run.
        destination: Server.
    """

    def __init__(self, run: TrackedRun, identity: Identity, destination: Destination) -> None:
        self._run, self._identity, self._destination = run, identity, destination
        self._server: MlflowServer | None = None
        self._epochs = Epochs(run.folder)
        self._unsent: list[TimedEpoch] = []
        # Number of epochs that the server has, and training time at the last epoch in seconds.
        self._sent, self._seconds = 0, 0.0
        self._id = ""

    def add(self, epoch: EpochMetrics) -> None:
        """Add an epoch to send."""
        self._epochs.add(epoch)

    def connect(self) -> str:
        """Open the run on the server, with that of its study, and return its ID."""
        if not self._id:
            server = MlflowServer(self._destination)
            parent = None
            if self._run.study:
                study = study_run(self._run.study)
                with identity_of(study.folder) as identity:
                    parent = server.open(identity, study.name, study.parameters, study.tags)
            run = self._run
            opened = server.open(self._identity, run.name, run.parameters, run.tags, parent)
            server.end(opened, "running")
            self._sent = server.epochs(opened)
            self._server, self._id = server, opened
        return self._id

    def send_epochs(self, *, is_complete: bool = False) -> None:
        """Send the epochs that the server does not have.

        Args:
            is_complete: Whether training has ended, so that the history of the run has all epochs.
        """
        run_id, server = self._opened()
        for epoch in self._epochs.take(is_complete=is_complete):
            self._unsent.append(epoch)
            self._seconds = epoch.seconds
        self._unsent = [epoch for epoch in self._unsent if epoch.metrics.epoch > self._sent]
        if self._unsent:
            server.log_epochs(run_id, self._identity.started, self._unsent)
            self._sent = self._unsent[-1].metrics.epoch
            self._unsent.clear()

    def send_results(self, results: Results) -> None:
        """Send the results of an evaluation, and the model."""
        run_id, server = self._opened()
        time_of_last_epoch = self._identity.started + round(1000 * self._seconds)
        server.log_results(run_id, results.metrics, time_of_last_epoch, results.tags)
        server.log_trials(results.trials, run_id)
        if results.model:
            with local_copy(results.model) as model:
                server.log_model(run_id, model)

    def end(self, state: str, ended: int | None = None) -> None:
        """Set the state of the run, see `MlflowServer.end`."""
        run_id, server = self._opened()
        server.end(run_id, state, ended)

    def _opened(self) -> tuple[str, MlflowServer]:
        run_id = self.connect()
        assert self._server
        return run_id, self._server


class _Messages:
    """Messages of the parent process: JSON lines on stdin."""

    def __init__(self) -> None:
        self._rest, self._waiting = b"", list[Mapping[str, Any]]()
        self.has_ended = False

    def first(self) -> Mapping[str, Any]:
        """Return the first message, or an empty one if there is none."""
        while not (self._waiting or self.has_ended):
            self._receive(_RETRY_INTERVAL)
        return self._waiting.pop(0) if self._waiting else {}

    def read(self, timeout: float) -> list[Mapping[str, Any]]:
        """Return the messages that have arrived, after at most a number of seconds."""
        if not self._waiting:
            self._receive(timeout)
        taken, self._waiting = self._waiting, []
        return taken

    def _receive(self, timeout: float) -> None:
        if select.select([0], [], [], max(0.0, timeout))[0]:
            content = os.read(0, _CHUNK)
            self.has_ended = not content
            *lines, self._rest = (self._rest + content).split(b"\n")
            self._waiting += map(json.loads, lines)


class _Warning:
    """Warning about a server that does not respond, once for a run, or for a study.

    A file in the folder of the identity exists until the run is sent, because separate processes send training and
    evaluation.

    Args:
        run: Run.
        advice: End of the warning.
        is_training: Whether a run begins, which has a separate warning.
    """

    def __init__(self, run: TrackedRun, advice: str, *, is_training: bool) -> None:
        self._advice = advice
        self._file = (run.study or run.folder) / FOLDER / _UNSENT
        if is_training and not run.study:
            self.clear()

    def __call__(self, error: TrackingError) -> None:
        """Print the warning, unless the file exists."""
        if not self._file.exists():
            _print(f"{WARNING}{as_clause(error)}; {self._advice}")
            with contextlib.suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._file.touch()

    def clear(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):
            self._file.unlink()


def _send(sender: RunSender, results: Results | None, messages: _Messages, where: str, warn: _Warning) -> None:
    """Send a run until its end. A server that does not respond is reported once, and tried again until then."""
    state = "interrupted"
    is_announced = is_failing = False
    next_attempt = 0.0
    while True:
        for message in messages.read(next_attempt - time.monotonic()):
            if "epoch" in message:
                sender.add(EpochMetrics(**message["epoch"]))
            else:
                state = message["end"]
        if messages.has_ended and is_failing:
            return
        if not messages.has_ended and time.monotonic() < next_attempt:
            continue
        try:
            run_id = sender.connect()
            if not is_announced and results is None:
                _print(f"tracking: run {run_id} on {where}")
            is_announced = True
            sender.send_epochs(is_complete=messages.has_ended)
            if messages.has_ended:
                if results:
                    sender.send_results(results)
                sender.end(state)
                warn.clear()
                return
            next_attempt, is_failing = time.monotonic() + _INTERVAL, False
        except TrackingError as error:
            warn(error)
            is_failing = True
            next_attempt = time.monotonic() + _RETRY_INTERVAL
            if messages.has_ended:
                return


def _print(line: str) -> None:
    # The parent process may have been killed.
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def main() -> None:
    """Send the run of the first line of stdin to the server of the environment."""
    open_standard_streams()
    destination = destination_in(os.environ)
    assert destination
    prepare()
    messages = _Messages()
    first = messages.first()
    run, results = TrackedRun.from_json(first["run"]), first.get("results")
    try:
        with identity_of(run.folder) as identity:
            sender = RunSender(run, identity, destination)
            # The parent process waits for this import before it counts requests.
            import mlflow.tracking  # noqa: F401

            _print(READY)
            warn = _Warning(run, str(first["advice"]), is_training=results is None)
            _send(sender, Results(**results) if results else None, messages, destination.display_name, warn)
    except ModuleNotFoundError as error:
        reason = missing(error, "tracking", "mlflow") or destination.redact(error)
        if results is None:
            _print(f"{WARNING}{as_clause(reason)}; the run is not tracked")
    except QcnnError as error:
        _print(f"{WARNING}tracking: {as_clause(error)}; the run is not tracked")
    except Exception as error:  # A defect here, or in the client, must not be printed with a secret.
        _print(f"{WARNING}tracking: {type(error).__name__}: {single_line(destination.redact(error))}")


if __name__ == "__main__":
    main()
