"""What all messages of Vertex AI's API have: how they are written, and the times in them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, PipelineJob, PipelineTaskDetail


def as_json(request: Any) -> str:
    """Return a request as JSON, as Google's own API takes it."""
    from google.protobuf import json_format

    text: str = json_format.MessageToJson(type(request).pb(request), indent=2, sort_keys=True)
    return text


def id_of(resource: Any) -> str:
    """Return the id of a run, a job or a schedule: the end of its name."""
    return str(resource.name.rpartition("/")[2])


def age_of(resource: PipelineJob | CustomJob) -> float | None:
    """Return the seconds since a run or a job was created; None where the service does not give that time."""
    if not resource.create_time:
        return None
    age = datetime.datetime.now(datetime.timezone.utc) - resource.create_time
    return max(float(age.total_seconds()), 0.0)


def seconds_of(ended: PipelineJob | PipelineTaskDetail | CustomJob) -> float | None:
    """Return how long a run, a task or a job took, from its start to its end; None where it has not ended."""
    if not (ended.start_time and ended.end_time):
        return None
    return round(float((ended.end_time - ended.start_time).total_seconds()), 3)
