"""Train step on Kubernetes, with an in-memory API server."""

import json
from pathlib import Path

import pytest

from qcnn.components.steps.train_on_kubernetes import train
from qcnn.components.training_job import RUN_VARIABLE
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.kubernetes.training_manifest import outputs
from qcnn.jobs.pod_settings import pod_settings
from qcnn.studies.trials import load_failure
from tests.components.conftest import in_component
from tests.qcnn.jobs.apiserver import ApiServer
from tests.qcnn.jobs.training_operator import DONE, RUNNING, Operator, ended

EXPERIMENT = from_mapping({"qubits": 4, "options": {"max_restarts": 0}}).to_json()
POD = json.dumps({"image": "qcnn"})
TASK_FOLDER = "gs://bucket/root/qcnn/run-1/train"
ATTEMPT = f"{TASK_FOLDER}/attempt-1/training"


@pytest.fixture
def server(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    monkeypatch.setenv(RUN_VARIABLE, "run-1")
    monkeypatch.delenv("KFP_POD_NAME", raising=False)
    return api_server


def test_tfjob_outputs_are_equal_for_all_attempts(server: ApiServer) -> None:
    Operator(server, DONE)
    training, logs, metadata = train(EXPERIMENT, POD, "gs://bucket/dataset", ATTEMPT)
    (job,) = server.all("tfjobs")
    folder = f"{TASK_FOLDER}/{job['metadata']['name']}"
    assert (training, logs) == (f"{folder}/training", f"{folder}/logs")
    assert outputs(job) == {"training": training, "logs": logs}
    assert metadata["experiment"] == EXPERIMENT
    assert train(EXPERIMENT, POD, "gs://bucket/dataset", f"{TASK_FOLDER}/attempt-2/training")[0] == training


def test_tfjob_is_owned_by_the_workflow(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "qcnn-1", "uid": "of workflow"}
    pod = {"metadata": {"name": "step", "ownerReferences": [{**workflow, "controller": True}]}, "status": {}}
    server.put("pods", pod)
    monkeypatch.setenv("KFP_POD_NAME", "step")
    Operator(server, DONE)
    train(EXPERIMENT, POD, "gs://bucket/dataset", ATTEMPT)
    (job,) = server.all("tfjobs")
    assert job["metadata"]["ownerReferences"] == [workflow]


def test_tfjob_has_compiled_pod_settings(server: ApiServer) -> None:
    Operator(server, DONE)
    settings = {"image": "qcnn", "queue": "team", "priority_class": "high", "roles": {"worker": {"memory": "8Gi"}}}
    train(EXPERIMENT, json.dumps(pod_settings(settings).model_dump()), "gs://bucket/dataset", ATTEMPT)
    (job,) = server.all("tfjobs")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    spec = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    assert spec["priorityClassName"] == "high"
    assert spec["containers"][0]["resources"]["limits"] == {"memory": "8Gi"}


def test_failed_trial_succeeds_and_saves_the_reason(server: ApiServer, tmp_path: Path) -> None:
    failed = "Failed: TFJob a is failed because 1 Worker replica(s) failed."
    Operator(server, [[RUNNING, RUNNING], [ended(1), RUNNING], failed])
    training, _, _ = train(EXPERIMENT, POD, "gs://bucket/dataset", ATTEMPT, str(tmp_path / "failure"))
    assert training == ATTEMPT
    failure = load_failure(tmp_path / "failure")
    assert failure
    assert failure.reason.startswith("worker 0 ended with exit code 1: it printed nothing. Given: ")


@pytest.mark.parametrize(
    ("training", "run", "message"),
    [
        (
            "/local/training",
            "run-1",
            "error: pipeline root: must be in a bucket that the job's pods can access. Given: ",
        ),
        (ATTEMPT, "", "error: QCNN_RUN: must be the run ID, which compile.py configures. Given: none"),
    ],
)
def test_train_without_requirement_is_a_single_line_error(
    server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    training: str,
    run: str,
    message: str,
) -> None:
    monkeypatch.setenv(RUN_VARIABLE, run)
    with pytest.raises(SystemExit):
        in_component(train, EXPERIMENT, POD, "gs://bucket/dataset", training)
    assert capfd.readouterr().err.startswith(message)
    assert server.all("tfjobs") == []
