"""Manifests of prediction Jobs. The tests in tests/cluster submit them to an API server."""

from collections.abc import Sequence
from typing import Any

import pytest

from qcnn.components.training_job import cluster_job
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.job import JobIdentity, run_label
from qcnn.jobs.kubernetes.predict_job import for_model, for_training
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB

POD = PodSettings(image="qcnn:1", service_account="trainer", environment={"A": "b"}, labels={"team": "physics"})


SUCCEEDED = {"conditions": [{"type": "Succeeded", "status": "True"}]}


def _trained(state: str = "Succeeded", uid: str = "1-2-3", lease_seconds: int | None = 60) -> dict[str, Any]:
    job = cluster_job(from_mapping({}), "gs://bucket", POD)
    manifest = TFJOB.manifest(job, JobIdentity("run", "train"), JobTimeouts(lease_seconds=lease_seconds))
    manifest["metadata"]["uid"] = uid
    manifest["status"] = {"conditions": [{"type": state, "status": "True"}]}
    return manifest


def _for_training(job: dict[str, Any], arguments: Sequence[str] = ()) -> dict[str, Any]:
    return for_training(TFJOB, job, job["spec"]["tfReplicaSpecs"]["Worker"]["template"], arguments)


def _spec(job: dict[str, Any]) -> dict[str, Any]:
    return dict(job["spec"]["template"]["spec"])


def test_prediction_has_pod_settings_of_training_job() -> None:
    trained = _trained()
    job, pod_template = _for_training(trained), trained["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    (container,), (training_container,) = _spec(job)["containers"], pod_template["spec"]["containers"]
    model = f"gs://bucket/{trained['metadata']['name']}/model"
    assert container["command"] == ["python", "-m", "qcnn.trainer.predict", "--model", model]
    same = ("image", "imagePullPolicy", "env", "resources", "securityContext", "volumeMounts")
    assert all(container[name] == training_container[name] for name in same)
    assert "ports" not in container
    assert "affinity" not in _spec(job)
    assert (_spec(job)["serviceAccountName"], _spec(job)["restartPolicy"]) == ("trainer", "Never")
    labels = {
        "team": "physics",
        "app.kubernetes.io/instance": run_label("run"),
        "app.kubernetes.io/component": "predict",
        "app.kubernetes.io/part-of": trained["metadata"]["name"],
    }
    assert job["spec"]["template"]["metadata"]["labels"].items() >= labels.items()
    assert job["metadata"]["annotations"]["qcnn/run"] == "run"
    assert _spec(job)["automountServiceAccountToken"] is False
    # The TFJob itself is unchanged.
    assert trained == _trained()


def test_arguments_are_passed_and_change_job_name() -> None:
    files = ["--data", "gs://bucket/a.csv", "--output", "gs://bucket/b.csv"]
    for job, other in (
        (_for_training(_trained(), files), _for_training(_trained())),
        (for_model("gs://bucket/a", POD, files), for_model("gs://bucket/a", POD)),
    ):
        assert _spec(job)["containers"][0]["command"][-4:] == files
        assert job["metadata"]["name"] != other["metadata"]["name"]


def test_prediction_is_queued_without_topology_spread() -> None:
    pod = POD.model_copy(update={"queue": "team", "priority_class": "high", "topology_spread": "zone"})
    trained = TFJOB.manifest(
        cluster_job(from_mapping({}), "gs://bucket", pod), JobIdentity("run", "train"), JobTimeouts()
    )
    trained["metadata"]["uid"], trained["status"] = "1-2-3", SUCCEEDED
    for job in (_for_training(trained), for_model("gs://bucket/a", pod)):
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
        assert "kueue.x-k8s.io/queue-name" not in job["spec"]["template"]["metadata"]["labels"]
        assert _spec(job)["priorityClassName"] == "high"
        assert "topologySpreadConstraints" not in _spec(job)


def test_job_name_depends_on_model_and_image() -> None:
    names = [
        _for_training(_trained())["metadata"]["name"],
        _for_training(_trained(uid="retrained"))["metadata"]["name"],
        for_model("gs://bucket/a", POD)["metadata"]["name"],
        for_model("gs://bucket/b", POD)["metadata"]["name"],
        for_model("gs://bucket/a", POD.model_copy(update={"image": "qcnn:2"}))["metadata"]["name"],
    ]
    assert len(set(names)) == len(names)
    assert _for_training(_trained())["metadata"]["name"] == names[0]


def test_run_of_model_prediction_is_model_uri() -> None:
    assert for_model("gs://bucket/a", POD)["metadata"]["annotations"]["qcnn/run"] == "gs://bucket/a"


def test_prediction_is_not_retried_and_has_timeouts() -> None:
    spec = for_model("gs://bucket/a", POD)["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["ttlSecondsAfterFinished"] > 0
    assert spec["activeDeadlineSeconds"] > 0


@pytest.mark.parametrize("state", ["Created", "Running", "Failed"])
def test_job_that_has_not_succeeded_is_config_error(state: str) -> None:
    with pytest.raises(ConfigError, match=rf"^TFJob: must have succeeded, but is {state}\. Given: "):
        _for_training(_trained(state))


def test_job_without_model_output_is_config_error() -> None:
    job = cluster_job(from_mapping({}), "gs://bucket", POD, dataset="gs://bucket/dataset")
    trained = {**TFJOB.manifest(job, JobIdentity("run", "train"), JobTimeouts()), "status": SUCCEEDED}
    with pytest.raises(ConfigError, match=r"^TFJob: exports no model; give --model\. Given: "):
        _for_training(trained)
