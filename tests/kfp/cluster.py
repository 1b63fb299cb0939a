"""What a run has in the backend's cluster, for tests that KUBECONFIG gives access to that."""

import contextlib

from qcnn.jobs.job import run_label
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.manifest import RUN_LABEL
from qcnn.jobs.tfjob.manifest import TFJOBS
from qcnn.targets.kubeflow.client import SINGLE_USER

# What the pod of a train step calls.
_TRAIN_STEP = "qcnn.components.steps.train_tfjob"


def steps_log(run: str) -> str:
    """Return what the user's containers of a run have printed."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        names = [pod["metadata"]["name"] for pod in api.find(PODS, labelSelector=f"pipeline/runid={run}")]
        lines = [api.log(name, "main", "", follow=False) for name in names if "impl" in name]
        return "".join(f"{text}\n" for log in lines for _, text in log)


def launchers(run: str) -> dict[str, str]:
    """Return the names of the pods of a run's train step that run, by their uids."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        found = api.find(PODS, labelSelector=f"pipeline/runid={run}", fieldSelector="status.phase=Running")
        return {
            pod["metadata"]["uid"]: pod["metadata"]["name"]
            for pod in found
            if any(_TRAIN_STEP in word for own in pod["spec"]["containers"] for word in own.get("args", ()))
        }


def evict(pod: str) -> None:
    """Delete a pod, as draining its node does."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        assert api.delete(PODS, pod)


def log(pod: str) -> str:
    """Return what the user's container of a step's pod has printed so far."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        return "".join(f"{text}\n" for _, text in api.log(pod, "main", "", follow=False))


def tfjobs(run: str) -> dict[str, str]:
    """Return the names of a run's TFJobs, by their uids."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        found = api.find(TFJOBS, labelSelector=f"{RUN_LABEL}={run_label(run)}")
        return {job["metadata"]["uid"]: job["metadata"]["name"] for job in found}
