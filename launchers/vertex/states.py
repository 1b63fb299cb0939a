"""The states of a job, by the names of JobState without what all begin with (google.cloud.aiplatform_v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, HyperparameterTuningJob

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")


def state_of(job: CustomJob | HyperparameterTuningJob) -> str:
    """Return the state of a job."""
    return str(job.state.name).removeprefix("JOB_STATE_")
