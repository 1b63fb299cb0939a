"""What the artifacts of a run tell of it."""

from typing import Any

from qcnn.experiment_io import from_mapping
from qcnn.targets.artifacts import Artifact, LogSource, run_fields, run_logs, run_metrics


def _artifact(kind: str = "system.Artifact", uri: str = "gs://b/r/1/run/train/logs", **metadata: Any) -> Artifact:
    return Artifact(kind, uri, metadata)


def test_metrics_stand_in_one_order_without_what_backends_add() -> None:
    made = [_artifact("system.Metrics", val_loss=0.5, mse=1, display_name="metrics"), _artifact(mse=7)]
    assert list(run_metrics(made).items()) == [("mse", 1.0), ("val_loss", 0.5)]


def test_the_words_are_those_that_were_run() -> None:
    ran = from_mapping({"qubits": 6, "seed": 77}).to_json()
    assert run_fields([_artifact(experiment=ran)], {"qubits": 6})["seed"] == 77
    assert run_fields([], {"qubits": 6}) == run_fields([], {"qubits": 6.0, "data_sha256": ""})
    assert run_fields([], {"qubits": 6})["qubits"] == 6
    assert run_fields([], {"qubits": "ten"}) == {"qubits": "ten"}
    # Of a study, those of the model that was chosen.
    other = from_mapping({"qubits": 8}).to_json()
    made = [_artifact(experiment=ran), _artifact(experiment=other), _artifact("system.Model", experiment=other)]
    assert run_fields(made, {})["qubits"] == 8


def test_words_of_a_study_without_artifacts_are_those_that_its_trials_share() -> None:
    shared = from_mapping({"qubits": 6, "options": {"shots": 10}}).model_dump()
    study = {
        "experiment": shared,
        "grid": {"learning_rate": [0.01, 0.02]},
        "ranges": {"heartbeat_timeout_seconds": [60, 90]},
    }
    words = run_fields([], {**study, "random": 3})
    assert (words["qubits"], words["shots"]) == (6, 10)
    assert not words.keys() & {"experiment", "grid", "ranges", "random", "learning_rate", "heartbeat_timeout_seconds"}
    # What its first step refuses.
    assert run_fields([], {**study, "experiment": {"qubits": 3}}) == {"qubits": 3}
    assert run_fields([], {"experiment": "text", "grid": None, "pages": {"a": 1}}) == {}


def test_logs_are_artifacts_or_while_it_runs_the_folder_of_the_run() -> None:
    made = [_artifact(display_name="logs"), _artifact(uri="gs://b/r/1/run/data/dataset", display_name="dataset")]
    assert run_logs("mine", "run", made, ended=True) == [LogSource("mine", "gs://b/r/1/run/train/logs")]
    assert run_logs("mine", "run", made, ended=False) == [LogSource("mine", "gs://b/r/1/run", of_run=True)]
    assert run_logs("mine", "run", [], ended=False) == []
