"""Checks of a cluster that need no request: quotas and nodes. tests/cluster/test_doctor.py has the others."""

from typing import Any, cast

import pytest

from qcnn.components.training_job import cluster_job
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.api import Resource
from qcnn.jobs.kubernetes.engine import TrainingJob
from qcnn.jobs.kubernetes.manifest import pod_template
from qcnn.jobs.kubernetes.retry import RequestRejectedError
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.trainjob.engine import TRAINJOB
from qcnn.targets.checks import DrawbackError
from qcnn.targets.kubernetes import checks

POD = PodSettings(image="qcnn:1", cpu="2", memory="4Gi")
TWO = checks.demand_of([POD] * 2)


def quota(**limits: tuple[str, str]) -> dict[str, Any]:
    parts = {name.replace("__", "."): pair for name, pair in limits.items()}
    status = {
        part: {name: pair[number] for name, pair in parts.items()} for number, part in enumerate(("used", "hard"))
    }
    return {"metadata": {"name": "team"}, "status": status}


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"requests__cpu": ("6", "10")},
        {"cpu": ("0", "4"), "memory": ("0", "8Gi"), "pods": ("0", "2"), "limits__memory": ("100Mi", "9Gi")},
        {"count/services": ("5", "5")},
        {"requests__nvidia.com/gpu": ("0", "0")},
    ],
)
def test_sufficient_quota_passes(limits: dict[str, tuple[str, str]]) -> None:
    assert checks.enough_quota([quota(**limits)], TWO) == "team"
    assert checks.enough_quota([], TWO) == "none"


@pytest.mark.parametrize(
    ("name", "pair", "message"),
    [
        ("requests__cpu", ("7", "10"), "team must leave 4 of requests.cpu"),
        ("cpu", ("500m", "4"), "4 of cpu"),
        ("limits__memory", ("1Gi", "8Gi"), "limits.memory"),
        ("pods", ("9", "10"), r"2 of pods for two workers; .*\. Given: 9 of 10 used$"),
    ],
)
def test_quota_that_leaves_too_little_fails(name: str, pair: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checks.enough_quota([quota(**{name: pair})], TWO)


def node(name: str = "one", **changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": changes.get("labels", {})},
        "spec": {"taints": changes.get("taints", []), "unschedulable": changes.get("unschedulable", False)},
        "status": {
            "conditions": [{"type": "Ready", "status": changes.get("ready", "True")}],
            "allocatable": {"cpu": "3920m", "memory": "12Gi", **changes.get("allocatable", {})},
        },
    }


def template(**settings: Any) -> dict[str, Any]:
    return pod_template(POD.model_copy(update=settings), "", JobIdentity("a", "train"), (), mounts_token=False)


SPOT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({}, {}),
        ({"taints": [{**GPU, "effect": "PreferNoSchedule"}]}, {}),
        ({"taints": [GPU]}, {"tolerations": ({"key": "nvidia.com/gpu", "operator": "Exists"},)}),
        ({"taints": [GPU]}, {"tolerations": ({"key": "nvidia.com/gpu", "value": "present"},)}),
        ({"taints": [SPOT], "labels": {"cloud.google.com/gke-spot": "true"}}, {"spot": True}),
        ({"labels": {"pool": "big"}}, {"node_selector": {"pool": "big"}}),
        ({"allocatable": {"nvidia.com/gpu": "1"}}, {"gpus": 1}),
    ],
)
def test_node_that_holds_a_pod_passes(changes: dict[str, Any], settings: dict[str, Any]) -> None:
    nodes = [node("small", allocatable={"cpu": "1"}), node(**changes)]
    assert checks.suitable_nodes(nodes, template(**settings)) == "1 of 2 could hold a pod"


@pytest.mark.parametrize(
    ("changes", "settings", "obstacle"),
    [
        ({"ready": "Unknown"}, {}, "one: is not ready for pods$"),
        ({"unschedulable": True}, {}, "is not ready"),
        ({"allocatable": {"memory": "3Gi"}}, {}, "has 3Gi memory, less than 4Gi"),
        ({}, {"cpu": "4"}, "has 3920m cpu, less than 4"),
        ({}, {"gpus": 1}, "has no nvidia.com/gpu, less than 1"),
        ({"taints": [GPU]}, {}, "has the taint nvidia.com/gpu"),
        ({"taints": [GPU]}, {"tolerations": ({"key": "nvidia.com/gpu", "value": "other"},)}, "has the taint"),
        ({"taints": [GPU]}, {"tolerations": ({"operator": "Exists", "effect": "NoExecute"},)}, "has the taint"),
        ({}, {"node_selector": {"pool": "big"}}, "lacks the label pool=big"),
        ({}, {"accelerator": "nvidia-l4", "gpus": 1}, "lacks the label cloud.google.com/gke-accelerator=nvidia-l4"),
    ],
)
def test_node_that_holds_no_pod_has_reason(changes: dict[str, Any], settings: dict[str, Any], obstacle: str) -> None:
    with pytest.raises(ConfigError, match=obstacle):
        checks.suitable_nodes([node(**changes)], template(**settings))


def test_cluster_without_nodes_fails() -> None:
    with pytest.raises(ConfigError, match=r"Given: none$"):
        checks.suitable_nodes([], template())


class Answers:
    """API server of which only the answers matter: API groups, one object, and errors of dry runs."""

    namespace = "a"

    def __init__(self, found: dict[str, Any] | None = None, groups: tuple[str, ...] = (), error: str = "") -> None:
        self._found, self._groups, self._error = found, groups, error

    def groups(self) -> dict[str, str]:
        return dict.fromkeys(self._groups, "v1beta1")

    def get(self, resource: Resource, name: str) -> dict[str, Any] | None:
        assert (resource.prefix, name) == ("/apis/kueue.x-k8s.io/v1beta1", "team")
        return self._found

    def create(self, resource: Resource, manifest: dict[str, Any], *, dry_run: bool) -> None:
        assert dry_run
        if self._error and resource is TRAINJOB.resource:
            raise RequestRejectedError(self._error.format(manifest["spec"]["runtimeRef"]["name"]), 403)


KUEUE = ("kueue.x-k8s.io",)


def local_queue(active: str = "True", waiting: int = 0) -> dict[str, Any]:
    condition = {"type": "Active", "status": active, "message": "ClusterQueue none does not exist"}
    return {"status": {"conditions": [condition], "pendingWorkloads": waiting}}


@pytest.mark.parametrize(
    ("answers", "kind", "message"),
    [
        (Answers(), ConfigError, r"needs Kueue on the cluster\. Given: team$"),
        (Answers(None, KUEUE), ConfigError, r"must be a LocalQueue of namespace a\. Given: team$"),
        (
            Answers(local_queue("False"), KUEUE),
            ConfigError,
            r"active \(ClusterQueue none does not exist\)\. Given: team$",
        ),
        (Answers(local_queue(waiting=2), KUEUE), DrawbackError, "team is active, and 2 other jobs wait in it"),
    ],
)
def test_queue_that_admits_nothing_now_has_reason(answers: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        checks.queue(answers, "team")


def test_active_queue_passes() -> None:
    assert checks.queue(cast(Any, Answers(local_queue(), KUEUE)), "team") == "team is active"


@pytest.fixture
def train_job() -> TrainingJob:
    job = cluster_job(ExperimentConfig(), "gs://bucket/runs", POD)
    return TRAINJOB.training(job, JobIdentity("a", "train"), JobTimeouts(None, 0, None))


def test_operator_that_asks_for_the_runtime_of_a_dry_run_passes(train_job: TrainingJob) -> None:
    missing = 'admission webhook denied the request: TrainingRuntime "{}" not found'
    assert checks.operator(cast(Any, Answers(error=missing)), train_job) == "accepts a TrainJob"
    for rejected in ("exceeded quota: count/trainjobs", 'TrainingRuntime "{}" is forbidden'):
        with pytest.raises(RequestRejectedError):
            checks.operator(cast(Any, Answers(error=rejected)), train_job)
