"""Prometheus metrics of a real training process, and port errors."""

import contextlib
import logging
import re
import socket

import pytest

from qcnn.errors import ConfigError
from qcnn.monitoring.metrics import TrainingMetrics, training_metrics
from tests.monitored_process import EPOCHS, JOB, Watched, objects, scrape, values

_EPOCH = re.compile(r"epoch (\d+)/\d+: train_loss ([\d.]+), val_loss ([\d.]+), .* ([\d.]+) s")


def test_served_metrics_match_log(watched_training: Watched) -> None:
    found = values(watched_training.metrics)
    for labels, _ in found.values():
        assert labels == {"job_name": JOB, "role": "worker", "index": "0"}
    served = {name: value for name, (_, value) in found.items()}
    assert served["qcnn_epochs"] == EPOCHS
    # The process may train more epochs before the scrape.
    logged = {each[1]: each for line in objects(watched_training.lines) if (each := _EPOCH.match(line["message"]))}
    epoch = logged[str(int(served["qcnn_epoch"]))]
    assert int(epoch[1]) >= 3
    assert f"{served['qcnn_train_loss']:.4f}" == epoch[2]
    assert f"{served['qcnn_validation_loss']:.4f}" == epoch[3]
    assert served["qcnn_epoch_duration_seconds"] == pytest.approx(float(epoch[4]), abs=0.006)
    samples = served["qcnn_samples_per_second"] * served["qcnn_epoch_duration_seconds"]
    training = next(
        line["message"] for line in objects(watched_training.lines) if "training samples" in line["message"]
    )
    assert round(samples) == int(training.split()[0])
    began, scraped = watched_training.times
    assert began <= served["qcnn_checkpoint_timestamp_seconds"] <= scraped


def test_unknown_metrics_have_no_value() -> None:
    metrics = TrainingMetrics("ps", 1, "job")
    metrics.listen("asked", epochs=5)
    metrics.listen("state", state="serving")
    assert values(list(metrics.registry.collect())) == {
        "qcnn_epochs": ({"job_name": "job", "role": "ps", "index": "1"}, 5.0)
    }


def test_metrics_port_closes_with_process(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with training_metrics({"QCNN_METRICS_PORT": "0"}, "worker", 0) as metrics:
        metrics.listen("epoch", epoch=2)
        (line,) = caplog.messages
        port = int(line.removeprefix("metrics on port "))
        assert values(scrape(port))["qcnn_epoch"][1] == 2
    with pytest.raises(ConnectionRefusedError):
        scrape(port)


def test_training_continues_if_metrics_port_is_in_use(caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.closing(socket.create_server(("", 0))) as taken:
        port = taken.getsockname()[1]
        with training_metrics({"QCNN_METRICS_PORT": str(port)}, "worker", 0) as metrics:
            metrics.listen("epoch", epoch=1)
    (line,) = caplog.messages
    assert line.startswith("no metrics are served: metrics_port: cannot be used (")
    assert line.endswith(f"Given: {port}")


@pytest.mark.parametrize("port", ["", "-1", "65536", "http"])
def test_invalid_metrics_port_is_rejected(port: str) -> None:
    with pytest.raises(ConfigError) as error, training_metrics({"QCNN_METRICS_PORT": port}, "worker", 0):
        pass
    assert str(error.value) == f"QCNN_METRICS_PORT: must be a port, 0 to 65535. Given: {port!r}"
