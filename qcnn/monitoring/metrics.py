"""Prometheus metrics of a process (prometheus.io/docs/instrumenting/exposition_formats)."""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily

from qcnn.errors import ConfigError, format_value
from qcnn.monitoring.logs import JOB_VARIABLE, PORT_VARIABLE

logger = logging.getLogger("qcnn")

# Labels of the job and process of a value. Prometheus itself sets the labels job and instance.
_LABELS = ("job_name", "role", "index")
_MAX_PORT = 65535
# Metrics of training: field of a training event, name of the metric and its description.
_TRAINING_METRICS = {
    "epochs": ("qcnn_epochs", "Number of epochs of the experiment."),
    "epoch": ("qcnn_epoch", "Completed epochs of the current initialization."),
    "train_loss": ("qcnn_train_loss", "Mean squared error over the training samples in the last epoch."),
    "val_loss": ("qcnn_validation_loss", "Mean squared error over the validation samples after the last epoch."),
    "samples_per_second": ("qcnn_samples_per_second", "Training samples per second in the last epoch."),
    "seconds": ("qcnn_epoch_duration_seconds", "Duration of the last epoch including its validation, in seconds."),
    "checkpoint": ("qcnn_checkpoint_timestamp_seconds", "Time of the last checkpoint of this process."),
}
# Metrics of a launcher: name, description and labels.
_RESTARTS, _PHASE = "qcnn_restarts", "qcnn_job_phase"
_LAUNCHER_METRICS = {
    _RESTARTS: ("Number of restarts of the job. Processes that fail together count once.", ()),
    _PHASE: ("1 for the current phase of the job, 0 for the other phases.", ("phase",)),
}


class Metrics:
    """Gauges of a process.

    A gauge that was never set has no value. Values that are set together are served together.

    Args:
        role: Role of the process in the job.
        index: Index of the process in its role.
        job: Name of the job.
        gauges: Description and additional labels of each gauge, by name.
    """

    def __init__(self, role: str, index: int, job: str, gauges: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
        self.registry = CollectorRegistry()
        self._process = (job, role, str(index))
        self._gauges = gauges
        # Values by name and additional labels. Another thread reads the mapping, so it is replaced and never changed.
        self._values: dict[tuple[str, ...], float] = {}
        self.registry.register(self)

    def set(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Set gauges by name and the values of their additional labels."""
        self._values = {**self._values, **values}

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges with their current values (prometheus_client.registry.Collector)."""
        values = self._values
        for name, (description, additional_labels) in self._gauges.items():
            gauge = GaugeMetricFamily(name, description, labels=(*_LABELS, *additional_labels))
            for (gauge_name, *labels), value in values.items():
                if gauge_name == name:
                    gauge.add_metric((*self._process, *labels), value)
            yield gauge

    @contextlib.contextmanager
    def served(self, port: int) -> Iterator[None]:
        """Context manager that serves the metrics on a port of all interfaces, 0 for any free port.

        If the port cannot be used, it logs a warning and serves no metrics.
        """
        try:
            server, _ = start_http_server(port, registry=self.registry)
        except OSError as error:
            logger.warning("no metrics are served: metrics_port: cannot be used (%s). Given: %d", error, port)
            yield
            return
        logger.info("metrics on port %d", server.server_port)
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


class TrainingMetrics(Metrics):
    """Metrics of a training process, updated by its training events."""

    def __init__(self, role: str, index: int, job: str = "") -> None:
        super().__init__(role, index, job, {name: (text, ()) for name, text in _TRAINING_METRICS.values()})

    def listen(self, kind: str, **values: Any) -> None:
        """Update the metrics with the fields of a training event."""
        self.set({(name,): values[field] for field, (name, _) in _TRAINING_METRICS.items() if field in values})


@contextlib.contextmanager
def training_metrics(environment: Mapping[str, str], role: str, index: int) -> Iterator[TrainingMetrics]:
    """Context manager that serves the metrics of a training process on the port in the environment.

    Args:
        environment: Environment variables, including `PORT_VARIABLE`.
        role: Role of the process in the job.
        index: Index of the process in its role.

    Raises:
        ConfigError: If the variable is not a port.
    """
    text = environment[PORT_VARIABLE]
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise ConfigError(f"{PORT_VARIABLE}: must be a port, 0 to {_MAX_PORT}. Given: {format_value(text)}")
    metrics = TrainingMetrics(role, index, environment.get(JOB_VARIABLE, ""))
    with metrics.served(int(text)):
        yield metrics


class LauncherMetrics(Metrics):
    """Metrics of the launcher of a job, which is in one of the given phases."""

    def __init__(self, job: str, phases: Sequence[str]) -> None:
        super().__init__("launcher", 0, job, _LAUNCHER_METRICS)
        self._phases = phases

    def observe(self, phase: str, restarts: int) -> None:
        """Set the phase and the number of restarts of the job."""
        self.set({(_RESTARTS,): restarts, **{(_PHASE, each): each == phase for each in self._phases}})
