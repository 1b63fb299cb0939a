"""Metrics of one process, served for Prometheus (prometheus.io/docs/instrumenting/exposition_formats)."""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily

from qcnn.errors import ConfigError, format_value
from qcnn.monitoring.logs import JOB_VARIABLE, PORT_VARIABLE

logger = logging.getLogger("qcnn")

# Which process of which job a value is of; Prometheus itself sets the labels job and instance.
_LABELS = ("job_name", "role", "index")
_MOST = 65535
# What is served of a training: a value of its events, the name of its metric, and what that is.
_OF_TRAINING = {
    "epochs": ("qcnn_epochs", "Epochs that the experiment asks for."),
    "epoch": ("qcnn_epoch", "Epochs done of the start that goes on, or is being tried."),
    "train_loss": ("qcnn_train_loss", "Mean squared error of the last epoch over the training samples."),
    "val_loss": ("qcnn_validation_loss", "Mean squared error after the last epoch over the validation samples."),
    "samples_per_second": ("qcnn_samples_per_second", "Training samples a second of the last epoch."),
    "seconds": ("qcnn_epoch_duration_seconds", "Wall time of the last epoch, its validation included."),
    "checkpoint": ("qcnn_checkpoint_timestamp_seconds", "Time at which this process last wrote a checkpoint."),
}
# What is served of a launcher.
_RESTARTS, _PHASE = "qcnn_restarts", "qcnn_job_phase"
_OF_LAUNCHER = {
    _RESTARTS: ("How often the job was started again; what is lost together counts once.", ()),
    _PHASE: ("1 for the phase that the job is in, 0 for all others.", ("phase",)),
}


class Metrics:
    """The gauges of one process, by name: their meaning, and the labels of each beside those of the process.

    One that was never set has no value. What is set together is served together.
    """

    def __init__(self, role: str, index: int, job: str, gauges: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
        self.registry = CollectorRegistry()
        self._process = (job, role, str(index))
        self._gauges = gauges
        # By name and further labels. It is replaced as a whole: it is read in another thread.
        self._values: dict[tuple[str, ...], float] = {}
        self.registry.register(self)

    def set(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Set gauges, each by its name and the values of its further labels."""
        self._values = {**self._values, **values}

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges as they are now (prometheus_client.registry.Collector)."""
        values = self._values
        for name, (meaning, more) in self._gauges.items():
            gauge = GaugeMetricFamily(name, meaning, labels=(*_LABELS, *more))
            for (of, *labels), value in values.items():
                if of == name:
                    gauge.add_metric((*self._process, *labels), value)
            yield gauge

    @contextlib.contextmanager
    def served(self, port: int) -> Iterator[None]:
        """Serve them on a port of all interfaces, 0 for any free one; where it cannot be used, go on without."""
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
    """The metrics of a process of a training, by the events that it observes."""

    def __init__(self, role: str, index: int, job: str = "") -> None:
        super().__init__(role, index, job, {name: (meaning, ()) for name, meaning in _OF_TRAINING.values()})

    def listen(self, kind: str, **values: Any) -> None:
        """Take note of an event of the training."""
        self.set({(name,): values[value] for value, (name, _) in _OF_TRAINING.items() if value in values})


@contextlib.contextmanager
def training_metrics(environment: Mapping[str, str], role: str, index: int) -> Iterator[TrainingMetrics]:
    """Serve the metrics of a process on the port that the environment names.

    Raises:
        ConfigError: it names no port.
    """
    text = environment[PORT_VARIABLE]
    if not text.isdecimal() or int(text) > _MOST:
        raise ConfigError(f"{PORT_VARIABLE}: must be a port, 0 to {_MOST}. Given: {format_value(text)}")
    metrics = TrainingMetrics(role, index, environment.get(JOB_VARIABLE, ""))
    with metrics.served(int(text)):
        yield metrics


class LauncherMetrics(Metrics):
    """The metrics of the launcher of a job, which is always in one of these phases."""

    def __init__(self, job: str, phases: Sequence[str]) -> None:
        super().__init__("launcher", 0, job, _OF_LAUNCHER)
        self._phases = phases

    def see(self, phase: str, restarts: int) -> None:
        """Take note of the phase of the job, and of how often it was started again."""
        self.set({(_RESTARTS,): restarts, **{(_PHASE, each): each == phase for each in self._phases}})
