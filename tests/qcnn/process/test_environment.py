"""Environment variables of pods and Vertex AI, and reports to the tuner."""

import json
from pathlib import Path

import pytest

from qcnn.errors import ConfigError
from qcnn.process.environment import HyperparameterReporter, address, in_pod, requested_gpus


@pytest.mark.parametrize(
    ("given", "environment", "found"),
    [
        ("/gcs/bucket/folder", {"CLOUD_ML_JOB_ID": "1"}, "gs://bucket/folder"),
        ("gs://bucket/folder", {"CLOUD_ML_JOB_ID": "1"}, "gs://bucket/folder"),
        ("/data/gcs/folder", {"CLOUD_ML_JOB_ID": "1"}, "/data/gcs/folder"),
        # The launcher of KFP uses local folders with this path.
        ("/gcs/bucket/folder", {}, "/gcs/bucket/folder"),
    ],
)
def test_address_converts_mounted_folder_to_bucket_uri(given: str, environment: dict[str, str], found: str) -> None:
    assert address(given, environment) == found


def test_reporter_writes_last_epochs_for_tuner(tmp_path: Path) -> None:
    path = tmp_path / "hypertune" / "output.metrics"
    reports = HyperparameterReporter({"CLOUD_ML_TRIAL_ID": "7", "CLOUD_ML_HP_METRIC_FILE": str(path)})
    reports.listen("state", state="training")
    assert not path.exists()
    for epoch in range(1, 103):
        reports.listen("epoch", epoch=epoch, val_loss=1 / epoch, train_loss=2.0)
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [int(line["global_step"]) for line in found] == [*range(3, 103)]
    assert all(line["timestamp"] for line in found)
    assert {**found[-1], "timestamp": 0} == {
        "timestamp": 0,
        "trial": "7",
        "val_loss": str(1 / 102),
        "global_step": "102",
    }


def test_reporter_of_accuracy_omits_epochs_without_it(tmp_path: Path) -> None:
    path = tmp_path / "output.metrics"
    environment = {"CLOUD_ML_TRIAL_ID": "7", "CLOUD_ML_HP_METRIC_FILE": str(path)}
    reports = HyperparameterReporter(environment, "val_accuracy")
    reports.listen("epoch", epoch=1, val_loss=0.5, val_accuracy=None)
    assert not path.exists()
    reports.listen("epoch", epoch=2, val_loss=0.5, val_accuracy=0.75)
    found = json.loads(path.read_text())
    assert (found["val_accuracy"], found["global_step"], "val_loss" in found) == ("0.75", "2", False)


def test_reporter_without_trial_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "output.metrics"
    HyperparameterReporter({"CLOUD_ML_HP_METRIC_FILE": str(path)}).listen("epoch", epoch=1, val_loss=1.0)
    assert not path.exists()


@pytest.mark.parametrize(("environment", "expected"), [({}, False), ({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, True)])
def test_in_pod_depends_on_kubernetes_variable(environment: dict[str, str], expected: bool) -> None:
    assert in_pod(environment) is expected


def test_requested_gpus_returns_number_from_variable() -> None:
    assert requested_gpus({}) == 0
    assert requested_gpus({"QCNN_GPUS": "4"}) == 4
    with pytest.raises(ConfigError, match=r"^QCNN_GPUS: must be an integer, at least 0\. Given: two$"):
        requested_gpus({"QCNN_GPUS": "two"})
