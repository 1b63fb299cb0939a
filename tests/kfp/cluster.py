"""What a run has in the backend's cluster, for tests that KUBECONFIG gives access to that."""

import kubernetes.client
import kubernetes.config

from components.train.tfjobs.identity import RUN_LABEL, label

_STEPS_OF_RUN = "pipeline/runid"


def steps_log(run: str) -> str:
    """Return what the user's containers of a run have printed."""
    kubernetes.config.load_kube_config()
    core = kubernetes.client.CoreV1Api()
    pods = core.list_pod_for_all_namespaces(label_selector=f"{_STEPS_OF_RUN}={run}").items
    return "".join(
        core.read_namespaced_pod_log(pod.metadata.name, pod.metadata.namespace, container="main")
        for pod in pods
        if "impl" in pod.metadata.name
    )


def tfjobs(run: str) -> dict[str, str]:
    """Return the names of a run's TFJobs, by their uids."""
    kubernetes.config.load_kube_config()
    listed = kubernetes.client.CustomObjectsApi().list_cluster_custom_object(
        "kubeflow.org", "v1", "tfjobs", label_selector=f"{RUN_LABEL}={label(run)}"
    )
    return {job["metadata"]["uid"]: job["metadata"]["name"] for job in listed["items"]}
