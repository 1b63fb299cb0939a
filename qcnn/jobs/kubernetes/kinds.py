"""The kinds of object that run processes until they end: how their pods are found, and in which condition they are."""

import dataclasses
from typing import Any

from qcnn.jobs.kubernetes.api import JOBS, Resource
from qcnn.jobs.kubernetes.manifest import TASK_LABEL


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind, the condition in which it has succeeded, and the labels of its pods.

    `pod_label` names the object on its pods, `role_label` the role of a process, and `index_label` its index, without
    which every index is 0. `many`: whether it is made of several processes, which need names.
    """

    name: str
    resource: Resource
    succeeded: str
    pod_label: str
    role_label: str
    index_label: str | None
    many: bool


JOB = Kind("Job", JOBS, "Complete", "batch.kubernetes.io/job-name", TASK_LABEL, index_label=None, many=False)


def condition(job: dict[str, Any], kind: str) -> str | None:
    """Return the message of a condition (Succeeded, Failed, ...) that a job is in, None if it is not in it."""
    for found in job.get("status", {}).get("conditions", ()):
        if found["type"] == kind and found["status"] == "True":
            return str(found.get("message") or kind)
    return None


def is_suspended(job: dict[str, Any]) -> bool:
    """Whether a TFJob or a Job (batch/v1) is suspended, as a queue does until there is room; it has no pods then."""
    spec = job["spec"]
    return bool(spec.get("runPolicy", spec).get("suspend"))
