"""Remote jobs from Python. tests/cluster and tests/kfp run real jobs."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import qcnn
from qcnn.jobs.tfjob.engine import JOB_NAME_LABEL
from qcnn.targets import TARGETS, following, target_classes
from qcnn.targets.base import ReadsJobs, Submits, Target
from qcnn.targets.settings import describe_settings
from tests.buckets import ROWS
from tests.kfp_backend import fake_backend
from tests.qcnn.cli.run_folders import run_folder
from tests.qcnn.jobs.apiserver import ApiServer
from tests.vertex.fake_service.vertex import Vertex

FIELDS: dict[str, Any] = {"qubits": 4, "rounds": 12, "batch_size": 8, "epochs": 2, "workers": 1, "strategy": "none"}
PIPELINE: dict[str, Any] = {"project": "my-project", "location": "us-central1", "pipeline_root": "gs://bucket/runs"}
OUTPUT: dict[str, Any] = {"output": "gs://bucket/runs", "image": "qcnn:1"}


@pytest.fixture
def experiment() -> qcnn.Experiment:
    return qcnn.Experiment(**FIELDS)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "INTERVAL", 0.01)


def test_targets_implement_protocols_and_describe_settings() -> None:
    assert list(target_classes(Target)) == list(TARGETS)
    # KServe only serves models.
    assert list(target_classes(ReadsJobs)) == [name for name in TARGETS if name != "kserve"]
    for kind in target_classes(Submits).values():
        known = {field.name: field for field in describe_settings(kind.submit_settings)}
        assert {field.name for field in describe_settings(kind.connection_settings)} < known.keys()
        assert all(field.setting.help.endswith(".") for field in known.values())


def test_tfjob_is_submitted_once_read_and_deleted(experiment: qcnn.Experiment, api_server: ApiServer) -> None:
    job = qcnn.submit(experiment, "tfjob", **OUTPUT)
    assert (job.target, job.outcome, sorted(job.outputs)) == ("tfjob", "created", ["logs", "model", "training"])
    assert job.outputs["model"] == f"gs://bucket/runs/{job.name}/model"
    assert qcnn.submit(experiment, "tfjob", **OUTPUT).outcome == "adopted"
    status = job.status()
    assert (status.job, status.name, status.has_ended) == (job.name, "qcnn", False)
    assert [each.job for each in qcnn.list_jobs("tfjob")] == [job.name]
    assert qcnn.get_job("qcnn", "tfjob").name == job.name
    _end(api_server, job.name, "Succeeded")
    assert job.wait(timeout=10).state == "succeeded"
    job.delete()
    assert qcnn.list_jobs("tfjob") == []
    with pytest.raises(qcnn.ArtifactError, match=f"Given: {job.name}$"):
        job.status()


def _end(server: ApiServer, name: str, kind: str) -> None:
    found = server.get("tfjobs", name)
    assert found
    server.set_condition(found, kind, f"it has {kind.lower()}")


def test_job_wait_failure_or_timeout_raises(experiment: qcnn.Experiment, api_server: ApiServer) -> None:
    job = qcnn.submit(experiment, "tfjob", **OUTPUT)
    with pytest.raises(TimeoutError, match=rf"{job.name} has not ended within 0\.05 s"):
        job.wait(timeout=0.05)
    _end(api_server, job.name, "Failed")
    with pytest.raises(qcnn.TrainingError, match=rf"TFJob: it ended failed \(it has failed\)\. Given: {job.name}"):
        job.wait()


@pytest.mark.parametrize(
    ("target", "settings", "line"),
    [
        ("moon", {}, "target: must be one of kubeflow, kubernetes, tfjob, trainjob, vertex, vertex-job, or a plug-in "),
        ("tfjob", {}, "output: must be given to target tfjob. Given: none"),
        (
            "tfjob",
            {**OUTPUT, "nmae": "a"},
            "nmae: unknown setting of target tfjob; valid settings: namespace, image, pod, ",
        ),
        ("tfjob", {**OUTPUT, "namespace": "A_B"}, "namespace: must be"),
        ("tfjob", {"output": "/data", "image": "qcnn:1"}, "output: must be"),
        ("tfjob", {**OUTPUT, "pod": {"cpu": "many"}}, "pod.cpu: must be a quantity such as 2 or 500m. Given: "),
        ("kubeflow", {"namespace": "A_B"}, "namespace: must be"),
        ("kubeflow", {"pod": "pod.yaml"}, "pod: must be a mapping. Given: 'pod.yaml'"),
        ("kubeflow", {"caching": 1}, "caching: must be True or False. Given: 1"),
        (
            "tfjob",
            {**OUTPUT, "ttl_seconds_after_finished": "1"},
            "ttl_seconds_after_finished: must be an integer, at least 0. Given: '1'",
        ),
        ("tfjob", {**OUTPUT, "image": ["a"]}, "image: must be text. Given: ['a']"),
        (
            "vertex",
            {},
            "project: must be given to target vertex, or environment variable GOOGLE_CLOUD_PROJECT. Given: ",
        ),
        ("vertex", {**PIPELINE, "labels": [1]}, "labels: must be a list of text. Given: [1]"),
        ("vertex-job", {"project": "p", "location": "us-central1", **OUTPUT}, "project: must be"),
    ],
)
def test_submit_wrong_setting_raises_before_any_request(
    experiment: qcnn.Experiment, monkeypatch: pytest.MonkeyPatch, target: Any, settings: dict[str, Any], line: str
) -> None:
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_REGION", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    for call in (qcnn.submit, qcnn.requests):
        with pytest.raises(qcnn.ConfigError) as caught:
            call(experiment, target, **settings)
        assert str(caught.value).startswith(line)
        assert "\n" not in str(caught.value)


def test_kubeflow_run_has_typed_parameters(experiment: qcnn.Experiment) -> None:
    with fake_backend() as backend:
        job = qcnn.submit(experiment, "kubeflow", host=backend.host, run_name="mine", image="qcnn:1")
        (run,) = backend.objects["runs"].values()
        assert (run["run_id"], run["display_name"]) == (job.name, "mine")
        parameters = run["runtime_config"]["parameters"]
        assert (parameters["qubits"], parameters["learning_rate"], parameters["data_sha256"]) == (4, 0.05, "")
        assert job.status().state == "pending"
        run["state"] = "SUCCEEDED"
        assert job.wait().has_succeeded
        assert [each.name for each in qcnn.list_jobs("kubeflow", host=backend.host)] == ["mine"]
        job.delete()
        assert not backend.objects["runs"]
        with pytest.raises(qcnn.QcnnError, match=job.name):
            job.status()


def test_submit_data_file_sends_its_digest(rows: str) -> None:
    experiment = qcnn.Experiment(qubits=4, data=rows, encoding="ry")
    sha256 = hashlib.sha256(ROWS).hexdigest()
    with fake_backend() as backend:
        qcnn.submit(experiment, "kubeflow", host=backend.host, image="qcnn:1")
        (run,) = backend.objects["runs"].values()
        assert run["runtime_config"]["parameters"]["data_sha256"] == sha256
        (request,) = qcnn.requests(experiment, "kubeflow", host=backend.host, image="qcnn:1")
        assert request["runtime_config"]["parameters"]["data_sha256"] == sha256
    (request,) = qcnn.requests(experiment, "vertex", image="europe/qcnn:1", **PIPELINE)
    assert request["pipelineJob"]["runtimeConfig"]["parameterValues"]["data_sha256"] == sha256


def test_local_runs_are_jobs(tmp_path: Path) -> None:
    run_folder(tmp_path, "first", {}, mse=0.25)
    (status,) = qcnn.list_jobs("local", runs=str(tmp_path))
    job = qcnn.get_job("first", "local", runs=tmp_path)
    assert (status.name, job.status().state, job.metrics()["mse"]) == ("first", "succeeded", 0.25)
    with pytest.raises(qcnn.ArtifactError, match=r"Given: other$"):
        qcnn.get_job("other", "local", runs=str(tmp_path))


_PROGRAM = """
import json, sys
import qcnn
experiment = qcnn.Experiment(**json.loads(sys.argv[1]))
place = {"project": sys.argv[2], "location": sys.argv[3]}
job = qcnn.submit(experiment, "vertex-job", output=sys.argv[4], image="qcnn:1", **place)
again = qcnn.submit(experiment, "vertex-job", output=sys.argv[4], image="qcnn:1", **place)
state = job.wait(timeout=300).state
lines = list(job.logs(follow=True))
found = {
    "outcomes": [job.outcome, again.outcome],
    "state": state,
    "epochs": [line for line in lines if "epoch 2/2" in line],
    "metrics": job.metrics(),
    "prediction": job.model().predict(qubit=[0], angle=[0.1]).tolist(),
    "jobs": [each.job for each in qcnn.list_jobs("vertex-job", **place)] == [job.name],
}
job.delete()
print(json.dumps({**found, "left": len(qcnn.list_jobs("vertex-job", **place))}))
"""


@pytest.mark.long
def test_vertex_custom_job_trains_and_model_predicts(vertex: Vertex, tmp_path: Path) -> None:
    arguments = (json.dumps(FIELDS), vertex.project, vertex.location, f"gs://{vertex.bucket}/runs")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        cwd=tmp_path,
        env=vertex.process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["outcomes"] == ["created", "adopted"]
    assert (found["state"], found["jobs"], found["left"]) == ("succeeded", True, 0)
    assert len(found["epochs"]) == 1
    assert found["metrics"]["epochs"] == 2
    assert len(found["prediction"]) == 1


def _running_worker(server: ApiServer, job: str, index: int) -> None:
    """Create a running worker pod of a TFJob."""
    found = server.get("tfjobs", job)
    assert found
    labels = {
        JOB_NAME_LABEL: job,
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": str(index),
    }
    owner = {"uid": found["metadata"]["uid"], "kind": "TFJob", "name": job, "controller": True}
    running = {"containerStatuses": [{"name": "tensorflow", "state": {"running": {}}}], "phase": "Running"}
    metadata = {"name": f"{job}-worker-{index}", "labels": labels, "ownerReferences": [owner]}
    server.put("pods", {"metadata": metadata, "status": running})


def test_tfjob_logs_are_ordered_without_duplicates(experiment: qcnn.Experiment, api_server: ApiServer) -> None:
    job = qcnn.submit(experiment, "tfjob", **OUTPUT)
    _running_worker(api_server, job.name, 0)
    api_server.logs[f"{job.name}-worker-0"] = ["epoch 1/2", "epoch 2/2"]
    assert list(job.logs()) == ["[worker 0] epoch 1/2", "[worker 0] epoch 2/2"]
    _end(api_server, job.name, "Succeeded")
    assert list(job.logs(follow=True)) == ["[worker 0] epoch 1/2", "[worker 0] epoch 2/2"]


def test_tfjob_logs_skip_deleted_pod(experiment: qcnn.Experiment, api_server: ApiServer) -> None:
    job = qcnn.submit(experiment, "tfjob", **OUTPUT)
    _running_worker(api_server, job.name, 0)
    _running_worker(api_server, job.name, 1)

    class Logs(dict[str, list[str]]):
        """Pod logs. The operator deletes worker 1 while the log of worker 0 is read."""

        def get(self, name: str, default: Any = None) -> Any:
            if name.endswith("worker-0"):
                api_server.remove("pods", f"{job.name}-worker-1")
            return super().get(name, default)

    api_server.logs = Logs({f"{job.name}-worker-0": ["epoch 1/2", "epoch 2/2"]})
    assert list(job.logs()) == ["[worker 0] epoch 1/2", "[worker 0] epoch 2/2"]
