"""Manifests of predictions; tests/cluster has the API server judge them."""

from typing import Any

import pytest

from qcnn.components.training_job import cluster_job
from qcnn.errors import ConfigError
from qcnn.experiment_io import from_mapping
from qcnn.jobs.job import JobIdentity, run_label
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.manifest import JobTimeouts, tfjob
from qcnn.jobs.tfjob.predict_job import for_model, for_training

POD = PodSettings(image="qcnn:1", service_account="trainer", environment={"A": "b"}, labels={"team": "physics"})


SUCCEEDED = {"conditions": [{"type": "Succeeded", "status": "True"}]}


def _trained(state: str = "Succeeded", uid: str = "1-2-3", lease_seconds: int | None = 60) -> dict[str, Any]:
    job = cluster_job(from_mapping({}), "gs://bucket", POD)
    made = tfjob(job, JobIdentity("run", "train"), JobTimeouts(lease_seconds=lease_seconds))
    made["metadata"]["uid"] = uid
    made["status"] = {"conditions": [{"type": state, "status": "True"}]}
    return made


def _spec(job: dict[str, Any]) -> dict[str, Any]:
    return dict(job["spec"]["template"]["spec"])


def test_a_prediction_runs_as_the_training_did_but_alone() -> None:
    trained = _trained()
    made, pod_template = for_training(trained), trained["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    (container,), (of_training_container,) = _spec(made)["containers"], pod_template["spec"]["containers"]
    place = f"gs://bucket/{trained['metadata']['name']}/model"
    assert container["command"] == ["python", "-m", "qcnn.trainer.predict", "--model", place]
    same = ("image", "imagePullPolicy", "env", "resources", "securityContext", "volumeMounts")
    assert all(container[name] == of_training_container[name] for name in same)
    assert "ports" not in container
    assert "affinity" not in _spec(made)
    assert (_spec(made)["serviceAccountName"], _spec(made)["restartPolicy"]) == ("trainer", "Never")
    labels = {
        "team": "physics",
        "app.kubernetes.io/instance": run_label("run"),
        "app.kubernetes.io/component": "predict",
        "app.kubernetes.io/part-of": trained["metadata"]["name"],
    }
    assert made["spec"]["template"]["metadata"]["labels"].items() >= labels.items()
    assert made["metadata"]["annotations"]["qcnn/run"] == "run"
    assert _spec(made)["automountServiceAccountToken"] is False
    # What is read is left as it was.
    assert trained == _trained()


def test_what_is_predicted_is_said_to_the_program_and_tells_jobs_apart() -> None:
    files = ["--data", "gs://bucket/a.csv", "--output", "gs://bucket/b.csv"]
    for made, other in (
        (for_training(_trained(), files), for_training(_trained())),
        (for_model("gs://bucket/a", POD, files), for_model("gs://bucket/a", POD)),
    ):
        assert _spec(made)["containers"][0]["command"][-4:] == files
        assert made["metadata"]["name"] != other["metadata"]["name"]


def test_a_prediction_waits_in_the_queue_of_the_training_and_is_spread_over_nothing() -> None:
    pod = POD.model_copy(update={"queue": "team", "priority_class": "high", "topology_spread": "zone"})
    trained = tfjob(cluster_job(from_mapping({}), "gs://bucket", pod), JobIdentity("run", "train"), JobTimeouts())
    trained["metadata"]["uid"], trained["status"] = "1-2-3", SUCCEEDED
    for made in (for_training(trained), for_model("gs://bucket/a", pod)):
        assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
        assert "kueue.x-k8s.io/queue-name" not in made["spec"]["template"]["metadata"]["labels"]
        assert _spec(made)["priorityClassName"] == "high"
        assert "topologySpreadConstraints" not in _spec(made)


def test_one_model_has_one_prediction_and_another_model_another() -> None:
    names = [
        for_training(_trained())["metadata"]["name"],
        for_training(_trained(uid="trained once more"))["metadata"]["name"],
        for_model("gs://bucket/a", POD)["metadata"]["name"],
        for_model("gs://bucket/b", POD)["metadata"]["name"],
        for_model("gs://bucket/a", POD.model_copy(update={"image": "qcnn:2"}))["metadata"]["name"],
    ]
    assert len(set(names)) == len(names)
    assert for_training(_trained())["metadata"]["name"] == names[0]


def test_what_is_predicted_with_a_model_belongs_to_no_run_of_a_person() -> None:
    assert for_model("gs://bucket/a", POD)["metadata"]["annotations"]["qcnn/run"] == "gs://bucket/a"


def test_a_prediction_ends_for_good_and_goes_by_itself() -> None:
    spec = for_model("gs://bucket/a", POD)["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["ttlSecondsAfterFinished"] > 0
    assert spec["activeDeadlineSeconds"] > 0


@pytest.mark.parametrize("state", ["Created", "Running", "Failed"])
def test_what_has_not_been_trained_cannot_predict(state: str) -> None:
    with pytest.raises(ConfigError, match=rf"^TFJob: must have succeeded, but is {state}\. Given: "):
        for_training(_trained(state))


def test_a_job_that_exports_nothing_is_refused() -> None:
    job = cluster_job(from_mapping({}), "gs://bucket", POD, dataset="gs://bucket/dataset")
    trained = {**tfjob(job, JobIdentity("run", "train"), JobTimeouts()), "status": SUCCEEDED}
    with pytest.raises(ConfigError, match=r"^TFJob: exports no model; give --model\. Given: "):
        for_training(trained)
