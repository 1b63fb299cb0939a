"""Manifests of model servers, and the selection of revisions."""

from typing import Any

import pytest
import yaml

from qcnn.cli.serve import serve
from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.manifest import OWN, Manifest
from qcnn.jobs.kubernetes.model_server import (
    DRAIN_SECONDS,
    ModelServer,
    RunningRevision,
    Scaling,
    deployment,
    manifests,
    previous_revision,
    running_revisions,
    server_command,
)
from qcnn.jobs.pod_settings import pod_settings
from tests.deploy.test_deploy import DEPLOY

POD = pod_settings({"image": "qcnn:1", "service_account": "qcnn-server"})
SERVER = ModelServer("digits", "gs://bucket/digits", 2, POD)


def _server(version: int | None = 2, trust: bool = False, **pod: Any) -> ModelServer:
    return ModelServer("digits", "gs://bucket/digits", version, pod_settings({"image": "qcnn:1", **pod}), trust)


def _container(server: ModelServer) -> Manifest:
    (container,) = deployment(server, 600)["spec"]["template"]["spec"]["containers"]
    return dict(container)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (_server(), {"versions": "2", "processes": 1, "trust": False}),
        (_server(version=None), {"versions": "latest:1"}),
        (_server(cpu="500m"), {"processes": 1}),
        (_server(cpu="2500m"), {"processes": 2}),
        (_server(cpu="4"), {"processes": 4}),
        (_server(trust=True), {"trust": True}),
    ],
)
def test_command_is_one_of_qcnn_serve(server: ModelServer, expected: dict[str, object]) -> None:
    command = server_command(server, 8501)
    assert command[:4] == ["python", "-m", "qcnn.cli", "serve"]
    with serve.make_context("serve", command[4:]) as context:
        given = context.params
    assert given["models"] == ("digits=gs://bucket/digits",)
    assert (given["host"], given["port"]) == ("0.0.0.0", 8501)
    assert given.items() >= expected.items()


def test_pod_is_restricted_and_has_time_to_drain() -> None:
    spec, container = deployment(SERVER, 600)["spec"]["template"]["spec"], _container(SERVER)
    assert spec["automountServiceAccountToken"] is False
    assert (
        spec["securityContext"].items() >= {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}.items()
    )
    assert (
        container["securityContext"].items()
        >= {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }.items()
    )
    hook = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["terminationGracePeriodSeconds"] > hook + DRAIN_SECONDS


def test_probes_use_the_health_paths_of_the_server() -> None:
    container = _container(SERVER)
    (port,) = container["ports"]
    for probe, path in (("startup", "live"), ("liveness", "live"), ("readiness", "ready")):
        action = container[f"{probe}Probe"]["httpGet"]
        assert action == {"path": f"/v2/health/{path}", "port": port["containerPort"]}


def test_pods_have_gpus_and_labels_of_training_jobs_left_out() -> None:
    template = deployment(_server(gpus=1, labels={"team": "a"}, topology_spread="zone"), 600)["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert container["image"] == "qcnn:1"
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert template["metadata"]["labels"]["team"] == "a"
    # Else the NetworkPolicy of training jobs would block the port.
    assert not template["metadata"]["labels"].items() >= OWN.items()
    (constraint,) = template["spec"]["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "zone"


def test_objects_belong_together() -> None:
    created = manifests(SERVER, Scaling(2, 5, 60), 300)
    assert [each["kind"] for each in created] == [
        "Deployment",
        "Service",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
    ]
    assert {each["metadata"]["name"] for each in created} == {"digits"}
    assert all(each["metadata"]["labels"].items() >= OWN.items() for each in created)
    deployed, service, autoscaler, budget = (each["spec"] for each in created)
    labels = deployed["template"]["metadata"]["labels"]
    selectors = (deployed["selector"]["matchLabels"], service["selector"], budget["selector"]["matchLabels"])
    assert all(labels.items() >= selector.items() and len(selector) == 2 for selector in selectors)
    assert (
        service["ports"][0]["targetPort"] == deployed["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]
    )
    # The autoscaler alone sets the number of pods.
    assert "replicas" not in deployed
    assert (autoscaler["minReplicas"], autoscaler["maxReplicas"]) == (2, 5)
    assert autoscaler["metrics"][0]["resource"]["target"]["averageUtilization"] == 60
    assert autoscaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "digits"}
    # Old pods serve until new ones are ready.
    assert deployed["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert deployed["progressDeadlineSeconds"] == 300


def test_service_account_exists_in_deploy() -> None:
    accounts = {
        each["metadata"]["name"]
        for each in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text())
        if each["kind"] == "ServiceAccount"
    }
    assert SERVER.pod.service_account in accounts


def test_minimum_above_maximum_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^min_replicas: must be at most max_replicas, 4\. Given: 5$"):
        Scaling(5, 4, 70)


def _replica_set(revision: int, version: int | None, replicas: int, ready: int, owner: str = "1") -> Manifest:
    """Return the ReplicaSet that the controller creates for a version."""
    template = deployment(_server(version), 600)["spec"]["template"]
    template["metadata"]["labels"]["pod-template-hash"] = f"hash{revision}"
    return {
        "metadata": {
            "name": f"digits-{revision}",
            "annotations": {"deployment.kubernetes.io/revision": str(revision)},
            "ownerReferences": [{"uid": owner}],
        },
        "spec": {"replicas": replicas, "template": template},
        "status": {"readyReplicas": ready} if ready else {},
    }


def _deployed(version: int | None, revision: int) -> Manifest:
    manifest = deployment(_server(version), 600)
    revisions = {"deployment.kubernetes.io/revision": str(revision)}
    metadata = {**manifest["metadata"], "uid": "1", "annotations": {**manifest["metadata"]["annotations"], **revisions}}
    return {**manifest, "metadata": metadata}


@pytest.mark.parametrize(
    ("revisions", "current", "expected"),
    [
        ([(1, 1), (2, 2)], 2, 1),
        ([(9, 1), (10, 2), (8, 3)], 10, 1),
        ([(1, None), (3, 3)], 3, None),
    ],
)
def test_rollback_restores_the_revision_before(
    revisions: list[tuple[int, int | None]], current: int, expected: int | None
) -> None:
    sets = [_replica_set(revision, version, 0, 0) for revision, version in revisions]
    foreign = _replica_set(current - 1, 77, 1, 1, owner="2")
    found = previous_revision(_deployed(99, current), [*sets, foreign])
    assert found == deployment(_server(expected), 600)


def test_rollback_of_first_revision_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^rollback: must have a revision before the current one\. Given: digits$"):
        previous_revision(_deployed(1, 1), [_replica_set(1, 1, 2, 2)])


def test_running_revisions_have_pods() -> None:
    sets = [_replica_set(3, None, 1, 0), _replica_set(2, 2, 2, 2), _replica_set(1, 1, 0, 0)]
    model = "gs://bucket/digits"
    assert running_revisions(_deployed(None, 3), sets) == [
        RunningRevision("digits-2", model, "2", 2),
        RunningRevision("digits-3", model, "highest", 0),
    ]
