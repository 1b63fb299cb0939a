"""MLflow server, by MLflow's own client, which is imported only after `prepare` has set the environment."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from qcnn.errors import QcnnError
from qcnn.results.model_folder import describe, read_files, write_files
from qcnn.tracking.destination import REQUEST_SECONDS, REQUEST_VARIABLE, Destination, TrackingError
from qcnn.tracking.epochs import TimedEpoch
from qcnn.tracking.identity import Identity

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_EXPERIMENT = "qcnn"
# Tags that find a run again, and what the server has of it.
_KEY, _EPOCHS, _MODEL = "qcnn.key", "qcnn.epochs", "qcnn.model_weights"
_PARENT, _SOURCE = "mlflow.parentRunId", "mlflow.source.name"
# Limits of a request (mlflow/utils/validation.py).
_MAX_METRICS, _MAX_PARAMETERS, _MAX_VALUE = 1000, 100, 5000
# A request that fails is repeated by the sender.
_SETTINGS = {
    REQUEST_VARIABLE: str(REQUEST_SECONDS),
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    # Usage statistics for MLflow's developers.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
_WARNINGS_LOCK = threading.Lock()
# Metrics of each epoch that an evaluation has, too.
_EPOCH_METRICS = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")
# State of a run on the server, by the state of the training run.
STATUS = {"running": "RUNNING", "succeeded": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}

T = TypeVar("T")


def prepare() -> None:
    """Set the environment of MLflow's client in this process, before it is imported: limits of all waits, no output."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def prepared() -> Iterator[None]:
    """Context manager that sets the environment of `prepare`, for processes in which users have the client, too."""
    added = [name for name in _SETTINGS if name not in os.environ]
    prepare()
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Context manager without the warnings of mlflow.pyfunc about its own type hints, for one thread after the other.

    Threads share the filters of warnings, and one would restore them while another one is in its block.
    """
    with _WARNINGS_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class MlflowServer:
    """Client of an MLflow server. All methods raise TrackingError if a request fails, and can be repeated.

    Args:
        destination: Server.
    """

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        with self._translated():
            from mlflow.tracking import MlflowClient

            self._client = MlflowClient(tracking_uri=destination.uri)
            self._experiment = experiment_id(self._client)

    def open(
        self,
        identity: Identity,
        name: str,
        parameters: Mapping[str, str],
        tags: Mapping[str, str],
        parent: str | None = None,
    ) -> str:
        """Return the ID of the run with an identity, which is created unless the server has it.

        Args:
            identity: Identity of the run.
            name: Name of a new run.
            parameters: Parameters. A parameter of an existing run keeps its value.
            tags: Tags to set.
            parent: ID of the parent run, or None.
        """
        from mlflow.entities import Param, RunTag

        all_tags = {**tags, _SOURCE: "qcnn", **({_PARENT: parent} if parent else {})}
        with self._translated():
            run = self._find(identity.key)
            if run is None:
                key = {_KEY: identity.key, **({_PARENT: parent} if parent else {})}
                run = self._client.create_run(self._experiment, identity.started, key, name)
            new = [Param(key, value[:_MAX_VALUE]) for key, value in parameters.items() if key not in run.data.params]
            for start in range(0, len(new), _MAX_PARAMETERS):
                self._client.log_batch(run.info.run_id, params=new[start : start + _MAX_PARAMETERS])
            self._client.log_batch(
                run.info.run_id, tags=[RunTag(key, value[:_MAX_VALUE]) for key, value in all_tags.items()]
            )
        return str(run.info.run_id)

    def epochs(self, run_id: str) -> int:
        """Return the number of epochs of a run that the server has."""
        text = self._run(run_id).data.tags.get(_EPOCHS, "0")
        return int(text) if text.isdecimal() else 0

    def log_epochs(self, run_id: str, started: int, epochs: Sequence[TimedEpoch]) -> None:
        """Send the metrics of epochs, with the epoch as step.

        The time of an epoch does not depend on when it is sent, so that the server recognizes metrics that it has.

        Args:
            run_id: ID of the run.
            started: Start of the run, in ms since the epoch.
            epochs: Epochs in order.
        """
        from mlflow.entities import Metric, RunTag

        chunk: list[Metric] = []

        def send(last: int) -> None:
            with self._translated():
                self._client.log_batch(run_id, metrics=chunk, tags=[RunTag(_EPOCHS, str(last))])
            chunk.clear()

        last = 0
        for epoch in epochs:
            values = epoch_values(epoch)
            if len(chunk) + len(values) > _MAX_METRICS:
                send(last)
            time = started + round(1000 * epoch.seconds)
            last = epoch.metrics.epoch
            chunk += [Metric(name, value, time, last) for name, value in values.items()]
        if chunk:
            send(last)

    def log_results(self, run_id: str, metrics: Mapping[str, float], time: int, tags: Mapping[str, str]) -> None:
        """Send the metrics of an evaluation, with the number of epochs as step, and tags.

        Args:
            run_id: ID of the run.
            metrics: Metrics by name. Those that each epoch has are not sent again.
            time: Time of the metrics, in ms since the epoch.
            tags: Tags to set.
        """
        self._log_results(self._run(run_id), metrics, time, tags)

    def _log_results(self, run: Run, metrics: Mapping[str, float], time: int, tags: Mapping[str, str]) -> None:
        from mlflow.entities import Metric, RunTag

        step = int(metrics.get("epochs", 0))
        known = run.data.metrics.keys() & {*_EPOCH_METRICS}
        values = [Metric(name, value, time, step) for name, value in metrics.items() if name not in known]
        with self._translated():
            self._client.log_batch(
                run.info.run_id, metrics=values, tags=[RunTag(key, value[:_MAX_VALUE]) for key, value in tags.items()]
            )

    def log_trials(self, trials: Mapping[str, Mapping[str, float]], run_id: str) -> None:
        """Make runs children of a run, and send the metrics of their test splits.

        Args:
            trials: Metrics by the key of the identity of the run. A run that the server does not have is skipped.
            run_id: ID of the parent run.
        """
        for key, metrics in trials.items():
            if run := self._find(key):
                self._log_results(run, metrics, run.info.start_time, {_PARENT: run_id})

    def log_model(self, run_id: str, folder: Path) -> None:
        """Send a model as a pyfunc with signature, unless the server has it.

        Args:
            run_id: ID of the run.
            folder: Model folder.
        """
        description, _ = describe(folder)
        weights = str(description["weights_sha256"])
        if self._run(run_id).data.tags.get(_MODEL) == weights:
            return
        with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary, self._translated():
            # Without the SavedModel, which predicts on other servers.
            data = Path(temporary, "model")
            data.mkdir()
            write_files(read_files(folder), data)
            with without_warnings():
                import mlflow
                from mlflow import pyfunc
                from mlflow.models import Model

                from qcnn.tracking import pyfunc_model

                mlflow.set_tracking_uri(self._destination.uri)
                mlflow.set_experiment(experiment_id=self._experiment)
                Model.log(
                    None,
                    pyfunc,
                    run_id=run_id,
                    name="model",
                    loader_module=pyfunc_model.__name__,
                    data_path=str(data),
                    signature=pyfunc_model.signature_of(data),
                    pip_requirements=pyfunc_model.requirements(),
                )
            self._client.set_tag(run_id, _MODEL, weights)

    def end(self, run_id: str, state: str, ended: int | None = None) -> None:
        """Set the state of a run.

        Args:
            run_id: ID of the run.
            state: running, succeeded, failed or interrupted.
            ended: End of the run, in ms since the epoch. None: the current time.
        """
        with self._translated():
            if state == "running":
                self._client.update_run(run_id, STATUS[state])
            else:
                self._client.set_terminated(run_id, STATUS[state], ended)

    def _find(self, key: str) -> Run | None:
        """Return the run with the key of an identity, or None if the server does not have it."""
        with self._translated():
            found = self._client.search_runs([self._experiment], f"tags.`{_KEY}` = '{key}'", max_results=1)
            return found[0] if found else None

    def _run(self, run_id: str) -> Run:
        with self._translated():
            return self._client.get_run(run_id)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Context manager that translates errors of the client to TrackingError, without secrets."""
        try:
            yield
        except (QcnnError, ModuleNotFoundError):
            raise
        except Exception as error:  # The client raises errors of requests, urllib3, stores and its own.
            reason = reason_of(error, self._destination.redact)
            raise TrackingError(f"tracking: {reason}. Given: {self._destination.display_name}") from None


def experiment_id(client: MlflowClient) -> str:
    """Return the ID of the experiment, MLFLOW_EXPERIMENT_ID or the one of MLFLOW_EXPERIMENT_NAME."""
    from mlflow.exceptions import MlflowException

    if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return given
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT
    if found := client.get_experiment_by_name(name):
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException:
        # Another run has created it in the meantime.
        if found := client.get_experiment_by_name(name):
            return str(found.experiment_id)
        raise


def epoch_values(epoch: TimedEpoch) -> dict[str, float]:
    """Return the metrics of an epoch by name. Only asynchronous training has staleness."""
    found = epoch.metrics
    values = {name: getattr(found, name) for name in _EPOCH_METRICS}
    values["seconds"] = found.seconds
    if found.largest_staleness:
        values |= {"staleness": found.staleness, "largest_staleness": float(found.largest_staleness)}
    return {name: float(value) for name, value in values.items() if value is not None}


def reason_of(error: Exception, redact: Callable[[object], str]) -> str:
    """Return the reason of an error of the client as a short clause."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < 10:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    names = {type(each).__name__ for each in causes}
    if names & {"ReadTimeout", "ConnectTimeout", "ReadTimeoutError", "ConnectTimeoutError"}:
        return f"no response in {os.environ[REQUEST_VARIABLE]} s"
    if "ConnectionRefusedError" in names:
        return "the connection is refused"
    if names & {"gaierror", "NameResolutionError"}:
        return "the host is unknown"
    return redact(error).rstrip(".")
