"""Output of `kubectl kustomize` for deploy/ and overlays. No cluster is required."""

import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from qcnn.cli.output import as_text
from qcnn.components.training_job import cluster_job
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.create_or_adopt import NextAction, next_action
from qcnn.jobs.kubernetes.engine import TrainingJob
from qcnn.jobs.kubernetes.launch import manifests_to_apply
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import pod_settings
from qcnn.jobs.tfjob.engine import REPLICA_TYPES, TFJOB

DEPLOY = Path(__file__).parents[2] / "deploy"
EXAMPLE = DEPLOY.parent / "examples" / "overlay"
NAMESPACE, IMAGE, BUCKET = "quantum", "registry.example.com/quantum/qcnn:0.1.0", "gs://example-bucket/pipelines"

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is missing")


def _build(folder: Path) -> list[dict[str, Any]]:
    """Return the objects that kustomize builds from a folder."""
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def _of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """Copy of the example overlay next to its base."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    return shutil.copytree(EXAMPLE, tmp_path / "examples" / "overlay")


def test_base_contains_all_manifests_unchanged() -> None:
    files = [DEPLOY / f"{name}.yaml" for name in ("rbac", "network", "kubeflow")]
    expected = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    objects = _build(DEPLOY)
    assert len(objects) == len(expected)
    assert all(each in objects for each in expected)


def test_overlay_sets_namespace_and_bucket() -> None:
    objects = _build(EXAMPLE)
    (namespace,) = _of_kind(objects, "Namespace")
    assert namespace["metadata"]["name"] == NAMESPACE
    assert {each["metadata"].get("namespace") for each in objects if each["kind"] != "Namespace"} == {NAMESPACE}
    (root,) = _of_kind(objects, "ConfigMap")
    assert (root["metadata"]["name"], root["data"]) == ("kfp-launcher", {"defaultPipelineRoot": BUCKET})
    accounts = {each["metadata"]["name"]: each["metadata"] for each in _of_kind(objects, "ServiceAccount")}
    assert accounts["qcnn-worker"]["annotations"].keys() == {"iam.gke.io/gcp-service-account"}
    assert "annotations" not in accounts["qcnn-launcher"]


def _training(image: str) -> TrainingJob:
    """Return a TFJob with processes of every role."""
    fields = {"strategy": "parameter_server", "workers": 2, "options": {"ps": 1, "evaluator": 1}}
    environment = {"REGISTRY": "registry/qcnn", "ADDRESS": "http://qcnn:80"}
    secrets = {"KEY": "store/key"}
    pod = pod_settings({"image": image, "environment": environment, "secrets": secrets, "queue": "team"})
    job = cluster_job(from_mapping(fields), "gs://example-bucket/runs", pod)
    return TFJOB.training(job, JobIdentity("run", "train"), JobTimeouts(lease_seconds=None))


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("image", ["qcnn:latest", "qcnn", f"qcnn@sha256:{'0' * 64}"])
def test_job_in_overlay_has_new_image_and_is_adopted(overlay: Path, form: Literal["yaml", "json"], image: str) -> None:
    training = _training(image)
    (overlay / "training.yaml").write_text(as_text(manifests_to_apply(training, None), form))
    settings = yaml.safe_load((overlay / "kustomization.yaml").read_text())
    settings["resources"].append("training.yaml")
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(settings))

    objects = _build(overlay)
    (job,) = _of_kind(objects, "TFJob")
    (service,) = _of_kind(objects, "Service")
    assert job["metadata"]["namespace"] == service["metadata"]["namespace"] == NAMESPACE
    specs, before = job["spec"]["tfReplicaSpecs"], training.manifest["spec"]["tfReplicaSpecs"]
    assert specs.keys() == set(REPLICA_TYPES.values())
    for role, spec in specs.items():
        (container,), (printed,) = (
            spec["template"]["spec"]["containers"],
            before[role]["template"]["spec"]["containers"],
        )
        assert container["image"] == IMAGE
        environment = {each["name"]: each.get("value") for each in container["env"]}
        expected = {each["name"]: each.get("value") for each in printed["env"]}
        assert environment == {**expected, "QCNN_IMAGE": IMAGE}
        assert container["command"] == printed["command"]
    # Submission of the original manifest adopts the job.
    assert next_action(TFJOB, training.manifest, job) is NextAction.ADOPT
