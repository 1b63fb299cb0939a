"""The API server and the operator's webhook accept every shape of job."""

import pytest
from kubernetes.client import CustomObjectsApi

from components.train.job import Job, Pod
from components.train.tfjobs.manifest import Identity, Policy, tfjob

SHAPES = [{"worker": 1}, {"worker": 2}, {"chief": 1, "worker": 1}, {"chief": 1, "worker": 2, "ps": 2}]


@pytest.mark.parametrize("replicas", [*SHAPES, {"worker": 2, "evaluator": 1}], ids=str)
@pytest.mark.parametrize("gpus", [0, 1])
def test_every_shape_of_job_is_accepted(namespace: str, replicas: dict[str, int], gpus: int) -> None:
    pod = Pod(
        image="qcnn",
        gpus=gpus,
        pull_secrets=("registry",),
        environment={"A": "b"},
        volumes={"/data": {"hostPath": {"path": "/data"}}},
        node_selector={"pool": "spot"},
        tolerations=({"key": "spot", "operator": "Exists", "effect": "NoSchedule"},),
        labels={"team": "physics"},
    )
    job = Job(argv=("true",), replicas=replicas, restarts=3, hang_seconds=60, pod=pod)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "run", "uid": "3f2a9c1e-7d54-4c0b-9d7a-52f1a1c7b1ce"}
    manifest = tfjob(job, Identity("Run_1", "train"), Policy(active_seconds=100), owner)
    accepted = CustomObjectsApi().create_namespaced_custom_object(
        "kubeflow.org", "v1", namespace, "tfjobs", manifest, dry_run="All", field_validation="Strict"
    )
    assert accepted["spec"]["tfReplicaSpecs"].keys() == manifest["spec"]["tfReplicaSpecs"].keys()
