"""Tracking of a run by a separate process, for which training never waits."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from qcnn.errors import RetryableError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.history import EpochMetrics
from qcnn.tracking.destination import destination_in, request_seconds

if TYPE_CHECKING:
    from qcnn.tracking.tracked_run import Results, TrackedRun

logger = logging.getLogger("qcnn")

# Callback for an event of a training process with its type and values, as in `qcnn.trainer.events`.
Listener: TypeAlias = Callable[..., None]

_FIELDS = [field.name for field in dataclasses.fields(EpochMetrics)]
# Start of a line of the process that is a warning.
WARNING = "warning: "
# Line of the process after the import of the client, which is slow on a busy machine.
READY = "ready"
# Seconds that a run waits at its end for the import, longest requests for which it then waits until the rest is sent,
# and seconds that it waits after an error or interrupt.
_IMPORT_SECONDS, _LAST_REQUESTS, _LAST_SECONDS_OF_FAILURE = 120.0, 3, 3.0
_POLL_SECONDS = 0.05
_CHUNK = 2**16


@contextlib.contextmanager
def tracked(
    environment: Mapping[str, str], config: ExperimentConfig, training: Path, uris: Mapping[str, str]
) -> Iterator[Listener]:
    """Context manager that sends a training run to the tracking server of an environment, if it has one.

    Args:
        environment: Environment variables.
        config: Experiment.
        training: Training folder, or a local copy of it.
        uris: URIs of the artifacts that training writes, see `training_run`.

    Yields:
        A listener of the events of training, which returns at once.
    """
    if destination_in(environment) is None:
        yield lambda kind, **values: None
        return
    # This import loads the modules of results.
    from qcnn.tracking.tracked_run import run_folder, training_run

    run, where = training_run(config, training, uris), run_folder(training) or uris["training"]
    process = _Process(environment, {"run": run.to_json(), "advice": sent_later(where)})
    state = "interrupted"
    try:
        yield process.listen
        state = "succeeded"
    except RetryableError:
        raise
    except Exception:
        state = "failed"
        raise
    finally:
        process.close(state)


def sent_later(run: object) -> str:
    """Return the end of a warning, which names the command that sends a run later, by its path or URI."""
    return f"training continues, and qcnn track {run} sends the run later"


def track_results(environment: Mapping[str, str], run: TrackedRun, results: Results, advice: str) -> None:
    """Send the results of a run to the tracking server of an environment. A failure is only logged.

    Args:
        environment: Environment variables, with the server.
        run: Run.
        results: Results of its evaluation.
        advice: End of the warning about a server that does not respond.
    """
    first = {"run": run.to_json(), "results": dataclasses.asdict(results), "advice": advice}
    _Process(environment, first).close("succeeded")


class _Process:
    """Process that sends a run.

    Args:
        environment: Environment variables, with the server.
        first: First message.
    """

    def __init__(self, environment: Mapping[str, str], first: Mapping[str, Any]) -> None:
        self._rest = b""
        self._is_ready = False
        self._request_seconds = request_seconds(environment)
        # A separate session, because Ctrl-C must not end it before the end of the run.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "qcnn.tracking.sender"],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        # It may be longer than what a pipe writes atomically.
        self._send(first)
        os.set_blocking(self._input, False)

    def listen(self, kind: str, **values: Any) -> None:
        """Send the metrics of an epoch, if the event is its end.

        They are dropped if the process does not read: the history of the run has them, too.
        """
        if kind == "epoch":
            self._send({"epoch": {name: values.get(name) for name in _FIELDS}})
        self._log()

    def _send(self, message: Mapping[str, Any]) -> bool:
        try:
            os.write(self._input, (json.dumps(message) + "\n").encode())
        except BlockingIOError:
            return False
        except OSError:
            # The process has ended, and its last line has the reason.
            pass
        return True

    def close(self, state: str) -> None:
        """End the process, which sends the rest before, for a limited time.

        Args:
            state: succeeded, failed or interrupted.
        """
        assert self._process.stdin
        seconds = _LAST_SECONDS_OF_FAILURE
        if state == "succeeded":
            self._wait(_IMPORT_SECONDS, lambda: self._is_ready)
            seconds = _LAST_REQUESTS * self._request_seconds
        end = time.monotonic() + seconds
        self._wait(seconds, lambda: self._send({"end": state}))
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._wait(end - time.monotonic(), lambda: False)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            logger.warning("tracking: the server has not accepted the whole run in %g s", seconds)
        self._log()
        assert self._process.stdout
        self._process.stdout.close()

    def _wait(self, seconds: float, is_done: Callable[[], bool]) -> None:
        """Wait until a condition holds or the process ends, for a limited time."""
        end = time.monotonic() + seconds
        while not is_done() and self._process.poll() is None and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            self._log()

    def _log(self) -> None:
        with contextlib.suppress(OSError):
            while content := os.read(self._output, _CHUNK):
                *lines, self._rest = (self._rest + content).split(b"\n")
                for line in lines:
                    text = line.decode(errors="replace")
                    if text == READY:
                        self._is_ready = True
                        continue
                    is_warning = text.startswith(WARNING)
                    logger.log(logging.WARNING if is_warning else logging.INFO, "%s", text.removeprefix(WARNING))
