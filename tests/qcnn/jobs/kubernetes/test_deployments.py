"""Reasons of programs on a cluster that do not start."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from qcnn.errors import ArtifactError, ConfigError
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.model_server import PROGRAM
from tests.qcnn.jobs.apiserver import ApiServer

OVERDUE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
LINES = ["10:00 WARNING model m: version 2 does not exist", "10:01 INFO serving"]


@pytest.fixture
def api(api_server: ApiServer) -> Iterator[NamespaceClient]:
    with contextlib.closing(NamespaceClient("a")) as api:
        yield api


def _container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "tensorflow", **state}]}


def _put(server: ApiServer, status: dict[str, Any], pods: list[dict[str, Any]]) -> None:
    found = server.put("deployments", {"metadata": PROGRAM.metadata("m")})
    server.put("deployments", {**found, "status": {"observedGeneration": 1, **status}})
    for number, pod in enumerate(pods):
        metadata = {"name": f"m-{number}", "labels": PROGRAM.pod_labels("m")}
        server.put("pods", {"metadata": metadata, "status": pod})
        server.logs[f"m-{number}"] = LINES


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        # A server that runs without its model, beside a pod of the revision before.
        ([READY, _container(state={"running": {}})], LINES[0]),
        # A server that ends at its start.
        ([_container(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": {}})], LINES[0]),
        ([_container(state={"waiting": {"reason": "ErrImagePull"}})], "cannot start, ErrImagePull: "),
        ([], "it does not answer"),
    ],
)
def test_wait_reports_why_pods_are_not_ready(
    api: NamespaceClient, api_server: ApiServer, pods: list[dict[str, Any]], reason: str
) -> None:
    _put(api_server, {"updatedReplicas": 1, "conditions": [OVERDUE]}, pods)
    with pytest.raises(ConfigError, match=rf"^serving: not started after 60 s: {reason}\. Given: m$"):
        PROGRAM.wait(api, "m", 60)


@pytest.mark.parametrize(
    ("replicas", "updated", "available", "minimum", "is_complete"),
    [(2, 2, 2, 2, True), (3, 3, 3, 2, True), (1, 1, 1, 2, False), (3, 2, 3, 2, False), (2, 2, 1, 2, False)],
)
def test_wait_ends_with_all_pods_of_the_revision(
    api: NamespaceClient,
    api_server: ApiServer,
    replicas: int,
    updated: int,
    available: int,
    minimum: int,
    is_complete: bool,
) -> None:
    counts = {"replicas": replicas, "updatedReplicas": updated, "availableReplicas": available}
    # An incomplete rollout fails, so that the test ends.
    _put(api_server, {**counts, "conditions": [OVERDUE]}, [])
    with contextlib.nullcontext() if is_complete else pytest.raises(ConfigError, match=r"^serving: not started"):
        PROGRAM.wait(api, "m", 60, minimum)


def test_find_missing_or_foreign_program_is_an_error(api: NamespaceClient, api_server: ApiServer) -> None:
    api_server.put("deployments", {"metadata": {"name": "other", "labels": {"app": "other"}}})
    for name in ("other", "none"):
        with pytest.raises(ArtifactError, match=rf"^serving: not found in namespace a\. Given: {name}$"):
            PROGRAM.find(api, name)
