"""Deployment and Service of TensorBoard."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from qcnn.errors import ArtifactError, ConfigError
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.manifest import OWN
from qcnn.jobs.kubernetes.tensorboard import PORT, TensorBoardSpec, deploy, deployment, service, undeploy
from qcnn.jobs.pod_settings import pod_settings
from tests.qcnn.jobs.apiserver import ApiServer

POD = pod_settings({"image": "qcnn:1", "service_account": "reader", "environment": {"A": "1"}})
BOARD = TensorBoardSpec("tensorboard", ["gs://bucket/a", "gs://bucket/b"], POD)
POLICY = Path(__file__).parents[4] / "deploy" / "network.yaml"


def test_deployment_command_has_all_uris_and_wait() -> None:
    (container,) = deployment(BOARD)["spec"]["template"]["spec"]["containers"]
    command = " ".join(container["command"])
    assert command == (
        "python -m qcnn.cli tensorboard gs://bucket/a gs://bucket/b --bind-address 0.0.0.0 --port 6006 --wait"
    )
    assert container["image"] == "qcnn:1"
    assert {"name": "A", "value": "1"} in container["env"]


def test_deployment_pod_has_no_token_and_is_restricted() -> None:
    spec = deployment(BOARD)["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "reader"
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def test_service_selects_pod_and_port() -> None:
    created, template = service(BOARD)["spec"], deployment(BOARD)["spec"]["template"]
    assert created["type"] == "ClusterIP"
    (port,) = created["ports"]
    assert port["port"] == PORT == 5001
    assert template["metadata"]["labels"].items() >= created["selector"].items()
    assert port["targetPort"] in [each["name"] for each in template["spec"]["containers"][0]["ports"]]


def test_service_of_public_board_is_load_balancer() -> None:
    public = TensorBoardSpec("tensorboard", ["gs://bucket/a"], POD, public=True)
    assert service(public)["spec"]["type"] == "LoadBalancer"


def test_network_policy_allows_tensorboard_to_capture_profiles() -> None:
    labels = deployment(BOARD)["spec"]["template"]["metadata"]["labels"]
    (policy,) = yaml.safe_load_all(POLICY.read_text())
    allowed = [rule["from"][0]["podSelector"]["matchLabels"] for rule in policy["spec"]["ingress"]]
    assert any(labels.items() >= each.items() for each in allowed)
    assert not labels.items() >= OWN.items()


@pytest.mark.parametrize("name", ["", "A", "9", "a-", "a_b", "a" * 51])
def test_spec_invalid_name_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^name: must be at most 50 lowercase letters.* Given: {name}$"):
        TensorBoardSpec(name, ["gs://bucket/a"], POD)


DEPLOYED_BOARD = TensorBoardSpec("tensorboard", ["gs://bucket/a"], pod_settings({"image": "qcnn"}))
UP = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}


@pytest.fixture
def api(api_server: ApiServer) -> Iterator[NamespaceClient]:
    with contextlib.closing(NamespaceClient("a")) as api:
        yield api


@contextlib.contextmanager
def _controller(server: ApiServer, status: dict[str, Any]) -> Iterator[None]:
    """Set the status of the Deployment after a watch is opened, as the controller of a cluster does."""

    def set_status() -> None:
        server.until_watched("deployments")
        found = server.get("deployments", "tensorboard")
        assert found
        # A status of an earlier generation is ignored.
        server.put("deployments", {**found, "status": {"observedGeneration": 0, **UP, "availableReplicas": 0}})
        # The condition of a replaced pod is ignored, too.
        overdue = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
        server.put("deployments", {**found, "status": {"observedGeneration": 1, "conditions": [overdue]}})
        server.put("deployments", {**found, "status": {"observedGeneration": 1, **status}})

    thread = threading.Thread(target=set_status)
    thread.start()
    yield
    thread.join()


def test_deploy_waits_until_available(api: NamespaceClient, api_server: ApiServer) -> None:
    with _controller(api_server, UP):
        deploy(api, DEPLOYED_BOARD)
    (created,) = api_server.all("services")
    assert created["metadata"]["name"] == "tensorboard"
    undeploy(api, "tensorboard")
    assert not api_server.all("services") + api_server.all("deployments")


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        (
            {"type": "ReplicaFailure", "status": "True", "message": "pods is forbidden: no such account"},
            r"tensorboard: its pod cannot be created \(pods is forbidden: no such account\)\. Given: tensorboard",
        ),
        (
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
            r"tensorboard: not started after 300 s: cannot start, ImagePullBackOff: no such image\. Given: tensorboard",
        ),
    ],
)
def test_deploy_without_start_is_an_error_with_reason(
    api: NamespaceClient, api_server: ApiServer, condition: dict[str, str], line: str
) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    labels = deployment(DEPLOYED_BOARD)["spec"]["template"]["metadata"]["labels"]
    status = {"containerStatuses": [{"name": "tensorflow", "state": {"waiting": waiting}}]}
    api_server.put("pods", {"metadata": {"name": "tensorboard-1", "labels": labels}, "status": status})
    with (
        _controller(api_server, {"updatedReplicas": 1, "conditions": [condition]}),
        pytest.raises(ConfigError, match=f"^{line}$"),
    ):
        deploy(api, DEPLOYED_BOARD)


def test_deploy_and_undeploy_keep_foreign_objects(api: NamespaceClient, api_server: ApiServer) -> None:
    api_server.put("services", {"metadata": {"name": "tensorboard", "labels": {"app": "other"}}})
    with pytest.raises(ConfigError, match=r"^name: belongs to a Service that is not a TensorBoard of qcnn\. Given: "):
        deploy(api, DEPLOYED_BOARD)
    with pytest.raises(ArtifactError, match=r"^tensorboard: not found in namespace a\. Given: tensorboard$"):
        undeploy(api, "tensorboard")
    assert [each["metadata"]["labels"] for each in api_server.all("services")] == [{"app": "other"}]
    assert not api_server.all("deployments")
