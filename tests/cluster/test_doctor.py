"""`qcnn doctor` on a cluster: each check is seen to pass and to fail."""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes.client import AppsV1Api, CoreV1Api

from tests.cluster.conftest import new_namespace
from tests.cluster.programs import Qcnn

# Seconds between two requests for the state of an object.
_INTERVAL = 0.2
IMAGE = ("--image", "qcnn:latest", "--cpu", "100m", "--memory", "64Mi")


def findings(qcnn: Qcnn, *arguments: str, code: int = 0) -> dict[str, tuple[str, str]]:
    """Run the command and return state and text by check."""
    output = qcnn("doctor", "--target", "tfjob", "--format", "json", *arguments, code=code)
    found = json.loads(output[output.index("[\n") :])
    return {each["check"]: (each["state"], each["found"]) for each in found}


@pytest.fixture
def ready() -> Iterator[str]:
    """Namespace with the objects of deploy/."""
    with new_namespace() as name:
        yield name


@pytest.fixture
def admin(ready: str) -> Iterator[Qcnn]:
    with contextlib.closing(Qcnn(Path(os.environ["KUBECONFIG"]))) as qcnn:
        yield qcnn


def test_ready_cluster_passes(admin: Qcnn, ready: str, bucket: str) -> None:
    found = findings(admin, "--namespace", ready, *IMAGE, "--output", bucket)
    assert {name: state for name, (state, _) in found.items()} == dict.fromkeys(found, "passed"), found
    assert found["API server"][1].startswith("Kubernetes v1.")
    assert found["engine"][1] == "TFJob (kubeflow.org/v1)"
    assert found["nodes"][1] == "1 of 1 could hold a pod"
    assert found["image"][1] == "qcnn:latest is on a node"
    # Nothing was created.
    assert not CoreV1Api().list_namespaced_pod(ready).items


def test_user_without_cluster_rights_passes(qcnn: Qcnn) -> None:
    found = findings(qcnn, *IMAGE)
    assert {name for name, (state, _) in found.items() if state == "unknown"} <= {
        *("quota", "nodes", "account of pods", "image")
    }
    assert found["rights"][0] == found["operator"][0] == "passed"
    assert found["nodes"] == ("unknown", "no right to list nodes")


def test_account_without_rights_fails(qcnn: Qcnn, kubeconfig: Path, namespace: str) -> None:
    with contextlib.closing(Qcnn(kubeconfig)) as launcher:
        found = findings(launcher, "--namespace", namespace, *IMAGE, code=1)
    state, text = found["rights"]
    assert state == "failed"
    assert "create rolebinding qcnn-user-binding --role qcnn-user --user USER`. Given: without " in text
    assert "get services" in text
    assert "create tfjobs" not in text


def test_account_of_pods_without_role_fails(admin: Qcnn, ready: str) -> None:
    CoreV1Api().create_namespaced_service_account(ready, {"metadata": {"name": "other"}})
    found = findings(admin, "--namespace", ready, *IMAGE, "--service-account", "other", code=1)
    assert found["account of pods"][0] == "failed"
    assert (
        f"--role qcnn-worker --serviceaccount {ready}:other`. Given: without get leases" in found["account of pods"][1]
    )
    found = findings(admin, "--namespace", ready, *IMAGE, "--service-account", "none", code=1)
    assert "must exist" in found["account of pods"][1]


def test_quota_nodes_and_queue_that_do_not_suffice_fail(admin: Qcnn, ready: str) -> None:
    core, quota = CoreV1Api(), {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "150m"}}}
    core.create_namespaced_resource_quota(ready, quota)
    while not core.read_namespaced_resource_quota("small", ready).status.hard:
        time.sleep(_INTERVAL)
    found = findings(admin, "--namespace", ready, *IMAGE, "--queue", "none", code=1)
    assert found["nodes"][0] == "passed"
    assert found["quota"][1].startswith("quota: small must leave 0.2 of requests.cpu for two workers")
    assert found["queue"][0] == "failed"
    found = findings(admin, "--namespace", ready, "--cpu", "500", code=1)
    assert "cpu, less than 500" in found["nodes"][1]
    assert "image" not in found


def test_missing_namespace_fails(admin: Qcnn) -> None:
    found = findings(admin, "--namespace", "qcnn-none", *IMAGE, code=1)
    assert found["namespace"][0] == "failed"
    assert "kubectl create namespace qcnn-none" in found["namespace"][1]
    assert found["rights"] == ("unknown", "needs the check namespace")


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        ("server", "API server", "the API server is unavailable"),
        ("token", "API server", "credentials: must be valid; log in again"),
        ("file", "kubeconfig", "cluster: no valid configuration; set KUBECONFIG"),
    ],
)
def test_cluster_without_access_fails(qcnn: Qcnn, tmp_path: Path, change: str, check: str, message: str) -> None:
    content = yaml.safe_load(qcnn.kubeconfig.read_text())
    if change == "server":
        content["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    elif change == "token":
        content["users"][0]["user"]["token"] = "expired"
    path = tmp_path / "changed"
    path.write_text("" if change == "file" else yaml.safe_dump(content))
    with contextlib.closing(Qcnn(path)) as changed:
        found = findings(changed, *IMAGE, code=1)
    assert found[check][0] == "failed"
    assert message in found[check][1]
    assert {state for name, (state, _) in found.items() if name not in ("kubeconfig", check)} == {"unknown"}


@pytest.mark.alone
def test_stopped_operator_fails(admin: Qcnn, ready: str) -> None:
    apps, where = AppsV1Api(), ("training-operator", "kubeflow")
    apps.patch_namespaced_deployment_scale(*where, {"spec": {"replicas": 0}})
    try:
        while apps.read_namespaced_deployment(*where).status.replicas:
            time.sleep(_INTERVAL)
        found = findings(admin, "--namespace", ready, *IMAGE, code=1)
        assert found["engine"][0] == "passed"
        assert found["operator"][0] == "failed"
        assert "webhook" in found["operator"][1] or "no answer" in found["operator"][1]
    finally:
        apps.patch_namespaced_deployment_scale(*where, {"spec": {"replicas": 1}})
        while not apps.read_namespaced_deployment(*where).status.available_replicas:
            time.sleep(_INTERVAL)
