"""TrainJobs in a runtime that a platform has prepared, as those that Kubeflow Trainer ships."""

import os
import re
import secrets
from collections.abc import Iterator
from typing import Any

import kubernetes.client
import pytest

from qcnn.components.resources import IMAGE
from qcnn.jobs.engines import ENGINES
from tests.cluster.launchers import Launchers
from tests.cluster.programs import Qcnn

pytestmark = pytest.mark.parametrize("engine", [ENGINES["trainjob"]], ids=["trainjob"], indirect=True)

_GROUP, _VERSION = "trainer.kubeflow.org", "v1alpha1"


def _runtime(kind: str, name: str) -> dict[str, Any]:
    container = {
        "name": "node",
        "image": "localhost/none:1",
        # The default of images with the tag "latest" is to pull them.
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    nodes = {
        "name": "node",
        "template": {
            "metadata": {"labels": {f"{_GROUP}/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        },
    }
    return {
        "apiVersion": f"{_GROUP}/{_VERSION}",
        "kind": kind,
        "metadata": {"name": name, "labels": {f"{_GROUP}/framework": "tensorflow"}},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [nodes]}}},
    }


@pytest.fixture(params=["ClusterTrainingRuntime", "TrainingRuntime"])
def runtime(request: pytest.FixtureRequest, namespace: str) -> Iterator[str]:
    """Value of the pod setting for a runtime of all namespaces, and for one of the namespace."""
    api, name = kubernetes.client.CustomObjectsApi(), f"qcnn-test-{secrets.token_hex(4)}"
    kind = request.param
    plural, manifest = f"{kind.lower()}s", _runtime(kind, name)
    if kind == "ClusterTrainingRuntime":
        api.create_cluster_custom_object(_GROUP, _VERSION, plural, manifest)
        yield name
        api.delete_cluster_custom_object(_GROUP, _VERSION, plural, name)
    else:
        api.create_namespaced_custom_object(_GROUP, _VERSION, namespace, plural, manifest)
        yield f"{kind}/{name}"
        api.delete_namespaced_custom_object(_GROUP, _VERSION, namespace, plural, name)


def test_two_workers_train_in_runtime(launchers: Launchers, qcnn: Qcnn, bucket: str, runtime: str) -> None:
    run = launchers.identity.run
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    fields = ("--qubits", "4", "--rounds", "10", "--epochs", "5", "--workers", "2", "--env", server)
    pods = ("--image", IMAGE, "--cpu", "200m", "--memory", "2Gi", "--output", bucket)
    submit = ("submit", "--target", "kubernetes", "--runtime", runtime, "--name", run, *fields, *pods)
    following = qcnn.start(*submit, "--follow")
    (name,) = re.findall(r"^training job (\S+) is created", following.wait_for_line("^training job"))
    assert following.exit_code() == 0, following.output
    assert [line for line in following.lines("worker 0") if line.startswith("epoch 5/5: ")]
    shown = qcnn.read("status", name)
    assert (shown["state"], [part["name"] for part in shown["parts"]]) == ("succeeded", ["worker 0", "worker 1"])
    assert re.search(rf"^{name} .* succeeded ", qcnn("status"), re.MULTILINE)
    qcnn("delete", name, "--yes")
    launchers.wait_until_deleted()
