"""TFJobs as the training operator (v1.9.4) knows them: their resource, their roles, the labels of their pods."""

from typing import Any

from qcnn.jobs.kubernetes.api import Resource
from qcnn.jobs.kubernetes.kinds import Kind

TFJOBS = Resource("/apis/kubeflow.org/v1", "tfjobs")
# Set by the operator on every pod.
JOB_NAME_LABEL = "training.kubeflow.org/job-name"
_ROLE_LABEL = "training.kubeflow.org/replica-type"
_INDEX_LABEL = "training.kubeflow.org/replica-index"
TFJOB = Kind("TFJob", TFJOBS, "Succeeded", JOB_NAME_LABEL, _ROLE_LABEL, _INDEX_LABEL, many=True)
REPLICA_TYPES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}


def pod_name(job: dict[str, Any], role: str, index: int) -> str:
    """Return the name that the operator gives the pod of a process (pkg/core GenGeneralName)."""
    return f"{job['metadata']['name']}-{role}-{index}"
