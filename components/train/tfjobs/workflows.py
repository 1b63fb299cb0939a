"""What the Workflow of a run says of a step that is told to end (argoproj.io/v1alpha1, as the API returns it)."""

from collections.abc import Mapping
from typing import Any

from components.train.tfjobs.api import Resource

KIND = "Workflow"
WORKFLOWS = Resource("/apis/argoproj.io/v1alpha1", "workflows")

_ENDED = ("Succeeded", "Failed", "Error")


def goes_on(workflow: Mapping[str, Any] | None) -> bool:
    """Whether a run, by its Workflow, wants a step that is told to end again; None is a Workflow that is gone.

    Terminating a run in Kubeflow sets its deadline to 0 (TerminateWorkflow in the backend's API server), Argo's own
    commands set a shutdown. A pod that is evicted, or deleted alone, leaves the Workflow as it is.
    """
    if workflow is None or "deletionTimestamp" in workflow["metadata"]:
        return False
    spec, status = workflow["spec"], workflow.get("status", {})
    return spec.get("activeDeadlineSeconds") != 0 and not spec.get("shutdown") and status.get("phase") not in _ENDED
