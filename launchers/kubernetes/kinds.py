"""The kinds of object that run processes until they end: how each is found, and told to have ended."""

import dataclasses

from launchers.kubernetes.api import JOBS, TFJOBS, Resource
from launchers.tfjob.manifest import JOB_NAME_LABEL


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind, the condition of one that has succeeded, and the label that names it on its pods.

    `many`: whether it is made of several processes, which need names.
    """

    name: str
    resource: Resource
    succeeded: str
    pod_label: str
    many: bool


TFJOB = Kind("TFJob", TFJOBS, "Succeeded", JOB_NAME_LABEL, many=True)
JOB = Kind("Job", JOBS, "Complete", "batch.kubernetes.io/job-name", many=False)
