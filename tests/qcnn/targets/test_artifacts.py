"""Metrics, fields and logs of a run from its artifacts."""

from typing import Any

from qcnn.experiment.parsing import from_mapping
from qcnn.targets.artifacts import Artifact, LogSource, run_fields, run_logs, run_metrics


def _artifact(kind: str = "system.Artifact", uri: str = "gs://b/r/1/run/train/logs", **metadata: Any) -> Artifact:
    return Artifact(kind, uri, metadata)


def test_run_metrics_are_sorted_without_backend_keys() -> None:
    artifacts = [_artifact("system.Metrics", val_loss=0.5, mse=1, display_name="metrics"), _artifact(mse=7)]
    assert list(run_metrics(artifacts).items()) == [("mse", 1.0), ("val_loss", 0.5)]


def test_run_fields_are_those_of_trained_experiment() -> None:
    ran = from_mapping({"qubits": 6, "seed": 77}).to_json()
    assert run_fields([_artifact(experiment=ran)], {"qubits": 6})["seed"] == 77
    assert run_fields([], {"qubits": 6}) == run_fields([], {"qubits": 6.0, "data_sha256": ""})
    assert run_fields([], {"qubits": 6})["qubits"] == 6
    assert run_fields([], {"qubits": "ten"}) == {"qubits": "ten"}
    # A study has the fields of its selected model.
    other = from_mapping({"qubits": 8}).to_json()
    artifacts = [_artifact(experiment=ran), _artifact(experiment=other), _artifact("system.Model", experiment=other)]
    assert run_fields(artifacts, {})["qubits"] == 8


def test_run_fields_of_study_are_shared_by_trials() -> None:
    shared = from_mapping({"qubits": 6, "options": {"shots": 10}}).model_dump()
    study = {
        "experiment": shared,
        "grid": {"learning_rate": [0.01, 0.02]},
        "ranges": {"heartbeat_timeout_seconds": [60, 90]},
    }
    fields = run_fields([], {**study, "random": 3})
    assert (fields["qubits"], fields["shots"]) == (6, 10)
    assert not fields.keys() & {"experiment", "grid", "ranges", "random", "learning_rate", "heartbeat_timeout_seconds"}
    # Fields that the first step of the study rejects.
    assert run_fields([], {**study, "experiment": {"qubits": 3}}) == {"qubits": 3}
    assert run_fields([], {"experiment": "text", "grid": None, "pages": {"a": 1}}) == {}


def test_run_logs_of_running_run_are_its_folder() -> None:
    artifacts = [_artifact(display_name="logs"), _artifact(uri="gs://b/r/1/run/data/dataset", display_name="dataset")]
    assert run_logs("mine", "run", artifacts, ended=True) == [LogSource("mine", "gs://b/r/1/run/train/logs")]
    assert run_logs("mine", "run", artifacts, ended=False) == [LogSource("mine", "gs://b/r/1/run", of_run=True)]
    assert run_logs("mine", "run", [], ended=False) == []
