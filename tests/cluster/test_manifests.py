"""Validation of manifests by the API server and the webhook of the operator."""

import pytest
from kubernetes.client import BatchV1Api, CustomObjectsApi

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.predict_job import for_model, for_training
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings, RoleResources
from qcnn.jobs.tfjob.engine import TFJOB

SHAPES = [{"worker": 1}, {"worker": 2}, {"chief": 1, "worker": 1}, {"chief": 1, "worker": 2, "ps": 2}]


POD = PodSettings(
    image="qcnn",
    pull_secrets=("registry",),
    environment={"A": "b"},
    secrets={"B": "keys/id"},
    volumes={"/data": {"hostPath": {"path": "/data"}}},
    node_selector={"pool": "spot"},
    tolerations=({"key": "spot", "operator": "Exists", "effect": "NoSchedule"},),
    labels={"team": "physics"},
    queue="team",
    priority_class="high",
    topology_spread="topology.kubernetes.io/zone",
    roles={"chief": RoleResources(cpu="2"), "ps": RoleResources(memory="8Gi", gpus=0)},
)


@pytest.mark.parametrize("replicas", [*SHAPES, {"worker": 2, "evaluator": 1}], ids=str)
@pytest.mark.parametrize("gpus", [0, 1])
def test_api_server_accepts_job(namespace: str, replicas: dict[str, int], gpus: int) -> None:
    job = JobSpec(
        argv=("true",),
        replicas=replicas,
        restarts=3,
        heartbeat_timeout_seconds=60,
        pod=POD.model_copy(update={"gpus": gpus}),
    )
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "run", "uid": "3f2a9c1e-7d54-4c0b-9d7a-52f1a1c7b1ce"}
    manifest = TFJOB.manifest(job, JobIdentity("Run_1", "train"), JobTimeouts(active_deadline_seconds=100), owner)
    accepted = CustomObjectsApi().create_namespaced_custom_object(
        "kubeflow.org", "v1", namespace, "tfjobs", manifest, dry_run="All", field_validation="Strict"
    )
    assert accepted["spec"]["tfReplicaSpecs"].keys() == manifest["spec"]["tfReplicaSpecs"].keys()


def test_api_server_accepts_prediction(namespace: str) -> None:
    outputs = {"model": "gs://bucket/$(QCNN_JOB)/model"}
    job = JobSpec(("train",), {"worker": 2}, restarts=3, heartbeat_timeout_seconds=60, pod=POD, outputs=outputs)
    trained = CustomObjectsApi().create_namespaced_custom_object(
        "kubeflow.org",
        "v1",
        namespace,
        "tfjobs",
        TFJOB.manifest(job, JobIdentity("run", "train"), JobTimeouts()),
        dry_run="All",
    )
    trained["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    for manifest in (
        for_training(TFJOB, trained, trained["spec"]["tfReplicaSpecs"]["Worker"]["template"]),
        for_model("gs://bucket/model", POD),
    ):
        BatchV1Api().create_namespaced_job(namespace, manifest, dry_run="All", field_validation="Strict")
