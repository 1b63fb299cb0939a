"""Pods and TFJobs of a run in the cluster of KFP; requires KUBECONFIG."""

import contextlib

from qcnn.jobs.job import run_label
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.manifest import RUN_LABEL
from qcnn.jobs.tfjob.engine import TFJOBS
from qcnn.targets.kubeflow.client import SINGLE_USER

# Module that the pod of a train step imports.
_TRAIN_STEP = "qcnn.components.steps.train_on_kubernetes"


def steps_log(run: str) -> str:
    """Return the logs of the user containers of a run."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        names = [pod["metadata"]["name"] for pod in api.find(PODS, labelSelector=f"pipeline/runid={run}")]
        lines = [api.log(name, "main", "", follow=False) for name in names if "impl" in name]
        return "".join(f"{text}\n" for log in lines for _, text in log)


def launchers(run: str) -> dict[str, str]:
    """Return the names of the running pods of a run's train step by UID."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        found = api.find(PODS, labelSelector=f"pipeline/runid={run}", fieldSelector="status.phase=Running")
        return {
            pod["metadata"]["uid"]: pod["metadata"]["name"]
            for pod in found
            if any(_TRAIN_STEP in text for each in pod["spec"]["containers"] for text in each.get("args", ()))
        }


def evict(pod: str) -> None:
    """Delete a pod, like a drain of its node."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        assert api.delete(PODS, pod)


def log(pod: str) -> str:
    """Return the current log of the user container of a step's pod."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        return "".join(f"{text}\n" for _, text in api.log(pod, "main", "", follow=False))


def tfjobs(run: str) -> dict[str, str]:
    """Return the names of a run's TFJobs by UID."""
    with contextlib.closing(NamespaceClient(SINGLE_USER)) as api:
        found = api.find(TFJOBS, labelSelector=f"{RUN_LABEL}={run_label(run)}")
        return {job["metadata"]["uid"]: job["metadata"]["name"] for job in found}
