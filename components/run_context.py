"""What a step knows about the run that it belongs to."""

import os

# Filled from the label that Kubeflow gives all pods of a run. If the run's id were a parameter, no step that takes it
# would ever be cached.
RUN_VARIABLE = "QCNN_RUN"
RUN_FIELD = "metadata.labels['pipeline/runid']"
# Which try of the step this is, counted from 0, where the backend (2.17) tries it again by itself; a person's Retry of
# the run counts anew.
_RETRY_VARIABLE = "KFP_RETRY_INDEX"


def run_id() -> str:
    """Return the id of the backend's run that this step is part of, empty outside of one."""
    return os.environ.get(RUN_VARIABLE, "")


def is_retry() -> bool:
    """Whether the backend has by itself started this step again after a failure; a person's Retry does not count."""
    index = os.environ.get(_RETRY_VARIABLE, "")
    return index.isdecimal() and int(index) > 0
