"""TensorBoard is brought to a cluster and taken away, beside an API server that answers as told."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from qcnn.jobs.kubernetes.api import Api
from qcnn.jobs.pod import pod_settings
from qcnn.jobs.tensorboard.deploy import deploy, undeploy
from qcnn.jobs.tensorboard.manifest import Board, deployment
from qcnn.trainer.errors import ArtifactError, ConfigError
from tests.qcnn.jobs.apiserver import ApiServer

BOARD = Board("tensorboard", ["gs://bucket/a"], pod_settings({"image": "qcnn"}))
UP = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}


@pytest.fixture
def api(api_server: ApiServer) -> Iterator[Api]:
    with contextlib.closing(Api("a")) as api:
        yield api


@contextlib.contextmanager
def _controller(server: ApiServer, status: dict[str, Any]) -> Iterator[None]:
    """Tell a status of the Deployment once somebody watches it, as the cluster's controller does."""

    def tell() -> None:
        server.until_watched("deployments")
        found = server.get("deployments", "tensorboard")
        assert found
        # What was seen before the last change counts for nothing.
        server.put("deployments", {**found, "status": {"observedGeneration": 0, **UP, "availableReplicas": 0}})
        # Nor does what is said of a pod that is replaced.
        overdue = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
        server.put("deployments", {**found, "status": {"observedGeneration": 1, "conditions": [overdue]}})
        server.put("deployments", {**found, "status": {"observedGeneration": 1, **status}})

    thread = threading.Thread(target=tell)
    thread.start()
    yield
    thread.join()


def test_it_is_waited_for_until_it_answers(api: Api, api_server: ApiServer) -> None:
    with _controller(api_server, UP):
        deploy(api, BOARD)
    (made,) = api_server.all("services")
    assert made["metadata"]["name"] == "tensorboard"
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
def test_what_does_not_start_says_why_in_one_line(
    api: Api, api_server: ApiServer, condition: dict[str, str], line: str
) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    labels = deployment(BOARD)["spec"]["template"]["metadata"]["labels"]
    status = {"containerStatuses": [{"name": "tensorflow", "state": {"waiting": waiting}}]}
    api_server.put("pods", {"metadata": {"name": "tensorboard-1", "labels": labels}, "status": status})
    with (
        _controller(api_server, {"updatedReplicas": 1, "conditions": [condition]}),
        pytest.raises(ConfigError, match=f"^{line}$"),
    ):
        deploy(api, BOARD)


def test_what_somebody_else_made_is_left_alone(api: Api, api_server: ApiServer) -> None:
    api_server.put("services", {"metadata": {"name": "tensorboard", "labels": {"app": "other"}}})
    with pytest.raises(ConfigError, match=r"^name: a Service that is no TensorBoard of qcnn has it\. Given: "):
        deploy(api, BOARD)
    with pytest.raises(ArtifactError, match=r"^tensorboard: none of this name in namespace a\. Given: tensorboard$"):
        undeploy(api, "tensorboard")
    assert [each["metadata"]["labels"] for each in api_server.all("services")] == [{"app": "other"}]
    assert not api_server.all("deployments")
