"""The states of a job, by the names of JobState without what all begin with (google.cloud.aiplatform_v1)."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, HyperparameterTuningJob

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")


def state_of(job: CustomJob | HyperparameterTuningJob) -> str:
    """Return the state of a job."""
    return str(job.state.name).removeprefix("JOB_STATE_")


def creation_time(resource: Any) -> datetime.datetime:
    """Return when a resource was created; 1970 if the service does not give that time."""
    time: datetime.datetime | None = resource.create_time
    return time or datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
