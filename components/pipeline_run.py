"""What a step knows of the run that it belongs to."""

import os

# Filled from the label by which Kubeflow marks all pods of a run. Were the run's id a parameter, the step that takes it
# would never be found in the cache.
RUN_VARIABLE = "QCNN_RUN"
RUN_FIELD = "metadata.labels['pipeline/runid']"
# Which try of the step this is, counted from 0, where the backend (2.17) tries it again by itself; a person's Retry of
# the run counts anew.
_RETRY_VARIABLE = "KFP_RETRY_INDEX"


def run_id() -> str:
    """Return the id of the backend's run that this step is part of, empty outside of one."""
    return os.environ.get(RUN_VARIABLE, "")


def is_retry() -> bool:
    """Whether this step has failed in this run, and nobody has asked for the run to be retried since."""
    index = os.environ.get(_RETRY_VARIABLE, "")
    return index.isdecimal() and int(index) > 0
