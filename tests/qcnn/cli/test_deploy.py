"""qcnn deploy and undeploy with model servers and InferenceServices, on an API server in memory."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from qcnn.jobs.kubernetes.manifest import Manifest
from qcnn.jobs.kubernetes.model_server import PROGRAM
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.jobs.apiserver import ApiServer

MODEL = "gs://bucket/digits"
KUBERNETES, KSERVE = (("--target", target, "--endpoint", "digits") for target in ("kubernetes", "kserve"))
IMAGE = ("--image", "qcnn:1")
READY = {"conditions": [{"type": "Ready", "status": "True"}], "url": "http://digits.example.com"}


@pytest.fixture
def api(api_server: ApiServer) -> ApiServer:
    # Created by deploy/rbac.yaml.
    api_server.put("serviceaccounts", {"metadata": {"name": "qcnn-server"}})
    return api_server


@contextlib.contextmanager
def _controller(server: ApiServer, plural: str, status: Manifest, watches: int = 1) -> Iterator[None]:
    """Set the status of the object after a watch is opened, and create the ReplicaSet of a Deployment."""

    def reconcile() -> None:
        server.until_watched(plural, watches)
        found = server.get(plural, "digits")
        assert found
        if plural == "deployments":
            _roll_out(server, found, watches)
            found = server.get(plural, "digits")
            assert found
        observed = {"observedGeneration": found["metadata"]["generation"]}
        server.put(plural, {**found, "status": {**observed, **status}})

    thread = threading.Thread(target=reconcile)
    thread.start()
    yield
    thread.join()


def _roll_out(server: ApiServer, found: Manifest, revision: int) -> None:
    """Replace the pods of a Deployment, as its controller does."""
    number = {"deployment.kubernetes.io/revision": str(revision)}
    for each in server.all("replicasets"):
        server.put("replicasets", {**each, "spec": {**each["spec"], "replicas": 0}, "status": {}})
    metadata = {
        "name": f"digits-{revision}",
        "labels": PROGRAM.pod_labels("digits"),
        "annotations": number,
        "ownerReferences": [{"kind": "Deployment", "name": "digits", "uid": found["metadata"]["uid"]}],
    }
    spec = {"replicas": 2, "template": found["spec"]["template"]}
    server.put("replicasets", {"metadata": metadata, "spec": spec, "status": {"readyReplicas": 2}})
    annotations = {**found["metadata"].get("annotations", {}), **number}
    server.put("deployments", {**found, "metadata": {**found["metadata"], "annotations": annotations}})


ROLLED_OUT = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}


def _command_of(found: Manifest | None) -> str:
    assert found
    return " ".join(found["spec"]["template"]["spec"]["containers"][0]["command"])


def test_model_server_is_deployed_replaced_rolled_back_and_undeployed(typed: Typed, api: ApiServer) -> None:
    with _controller(api, "deployments", ROLLED_OUT):
        code, out, err = typed("deploy", MODEL, *KUBERNETES, *IMAGE, "--version", "1")
    assert (code, err) == (0, "")
    assert f"digits-1  {MODEL}, version 1  100 %" in out
    assert "in the cluster: http://digits.a.svc:80/v1/models/digits\n" in out
    assert {plural: len(api.all(plural)) for plural in ("services", "horizontalpodautoscalers")} == {
        "services": 1,
        "horizontalpodautoscalers": 1,
    }
    with _controller(api, "deployments", ROLLED_OUT, watches=2):
        code, out, _ = typed("deploy", MODEL, *KUBERNETES, *IMAGE, "--version", "2", "--format", "json")
    assert code == 0
    assert json.loads(out) == [{"id": "digits-2", "version": f"{MODEL}, version 2", "traffic": "100 %"}]
    with _controller(api, "deployments", ROLLED_OUT, watches=3):
        assert typed("deploy", *KUBERNETES, "--rollback")[0] == 0
    assert "--versions 1 " in _command_of(api.get("deployments", "digits"))
    code, out, err = typed("undeploy", "--target", "kubernetes", "digits")
    assert (code, "delete: must be confirmed" in err) == (2, True)
    assert typed("undeploy", "--target", "kubernetes", "digits", "--yes")[0] == 0
    assert not [each for resource in PROGRAM.resources.values() for each in api.all(resource.plural)]
    assert typed("undeploy", "--target", "kubernetes", "digits", "--yes") == (
        2,
        "",
        "error: serving: not found in namespace a. Given: digits\n",
    )


def test_inference_service_is_deployed_replaced_rolled_back_and_undeployed(typed: Typed, api: ApiServer) -> None:
    with _controller(api, "inferenceservices", READY):
        code, out, err = typed("deploy", MODEL, *KSERVE, *IMAGE, "--version", "1")
    assert (code, err) == (0, "")
    assert out.endswith("endpoint: http://digits.example.com\n")
    for watches, (arguments, version) in enumerate((((MODEL, *IMAGE, "--version", "2"), 2), (("--rollback",), 1)), 2):
        with _controller(api, "inferenceservices", READY, watches):
            code, out, err = typed("deploy", *KSERVE, *arguments)
        assert (code, err) == (0, "")
        assert f"{MODEL}, version {version}  100 %" in out
        (found,) = api.all("inferenceservices")
        assert f"--versions {version} " in " ".join(found["spec"]["predictor"]["containers"][0]["command"])
    assert typed("undeploy", "--target", "kserve", "digits", "--yes")[0] == 0
    assert not api.all("inferenceservices")


def test_foreign_objects_are_kept(typed: Typed, api: ApiServer) -> None:
    for plural in ("services", "inferenceservices"):
        api.put(plural, {"metadata": {"name": "digits", "labels": {"app": "other"}}, "spec": {"predictor": {}}})
    lines = {
        KUBERNETES: "error: name: belongs to a Service that is not a model server of qcnn. Given: digits\n",
        KSERVE: "error: endpoint: belongs to an InferenceService that qcnn did not create. Given: digits\n",
    }
    for target, line in lines.items():
        assert typed("deploy", MODEL, *target, *IMAGE) == (2, "", line)
    assert not api.all("deployments")
    code, _, err = typed("undeploy", "--target", "kserve", "digits", "--yes")
    assert (code, err) == (2, "error: endpoint: qcnn created none in namespace a. Given: digits\n")


def test_cluster_without_kserve_is_one_line(typed: Typed, api: ApiServer) -> None:
    api.uninstall("InferenceService")
    code, _, err = typed("deploy", MODEL, *KSERVE, *IMAGE)
    assert (code, err) == (
        2,
        "error: cluster: it must have KServe. Given: patch inferenceservices in namespace a\n",
    )


def test_dry_run_prints_manifests_without_a_cluster(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, out, _ = typed("deploy", MODEL, *KUBERNETES, *IMAGE, "--namespace", "b", "--dry-run")
    assert code == 0
    printed = list(yaml.safe_load_all(out))
    assert [each["kind"] for each in printed] == list(PROGRAM.resources)
    assert {each["metadata"]["namespace"] for each in printed} == {"b"}
    code, out, _ = typed("deploy", MODEL, *KSERVE, "--server", "tensorflow", "--dry-run", "--format", "json")
    (service,) = json.loads(out)["items"]
    assert service["spec"]["predictor"]["model"]["storageUri"] == MODEL


ANY = (*KUBERNETES, *IMAGE)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("runs/a", *ANY), "model: must be gs://BUCKET/FOLDER, .* Given: runs/a"),
        (("/models/a", *ANY), "model: must be in a bucket, or on a volume of the pod settings. Given: /models/a"),
        (ANY, "deploy: must have either MODEL or --rollback. Given: none"),
        ((MODEL, *KUBERNETES, "--rollback"), "deploy: must have either MODEL or --rollback. Given: both"),
        ((*KUBERNETES, "--rollback", "--version", "1"), "rollback: must have no other settings. Given: --version 1"),
        ((*ANY, "--rollback"), "rollback: must have no other settings. Given: pod settings"),
        ((*KUBERNETES, "--rollback", "--dry-run"), "dry_run: must be without --rollback. Given: --rollback"),
        ((MODEL, *KUBERNETES), "pod.image: must be given. Given: none"),
        ((MODEL, *ANY, "--endpoint", "My"), "endpoint: must be at most 50 lowercase letters, .* Given: My"),
        ((MODEL, *ANY, "--version", "0"), "version: must be an integer, at least 1. Given: 0"),
        ((MODEL, *ANY, "--min-replicas", "5"), "min_replicas: must be at most max_replicas, 4. Given: 5"),
        ((MODEL, *ANY, "--env", "TOKEN=a"), "pod.environment: TOKEN looks like a secret, .* Given: TOKEN"),
        ((MODEL, *KSERVE, *IMAGE, "--traffic", "10"), "traffic: must be 100 without .* Given: 10"),
        ((MODEL, *KSERVE, "--server", "triton"), "server: must be one of qcnn, tensorflow. Given: 'triton'"),
        (
            (MODEL, *KSERVE, *IMAGE, "--server", "tensorflow"),
            "image: must be omitted with server tensorflow, whose pods KServe defines. Given: qcnn:1",
        ),
        (
            (MODEL, *KSERVE, "--server", "tensorflow", "--cpu", "a"),
            "pod.cpu: must be a quantity such as 2 or 500m. Given: 'a'",
        ),
        (
            ("minio://b/digits", *KSERVE, "--server", "tensorflow"),
            "model: must be gs://, s3:// or pvc:// with server tensorflow, which has no others. Given: minio://.*",
        ),
    ],
)
def test_invalid_settings_are_one_line(typed: Typed, arguments: tuple[Any, ...], line: str) -> None:
    dry_run = () if "--dry-run" in arguments else ("--dry-run",)
    code, out, err = typed("deploy", *arguments, *dry_run)
    assert (code, out) == (2, "")
    error = err.splitlines()[-1]
    assert error.startswith("error: ")
    assert re.fullmatch(line, error.removeprefix("error: ")), error
