"""What the events of a namespace tell, by pure functions (core/v1 Event, as the API returns it)."""

from collections.abc import Iterable, Mapping
from typing import Any


def last_warning(warnings: Iterable[Mapping[str, Any]], reason: str = "") -> str | None:
    """Return in one line the last of an object's warnings whose reason begins so, None if there is none."""
    telling = [event for event in warnings if event["reason"].startswith(reason)]
    if not telling:
        return None
    last = max(telling, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    return f"cannot start, {last['reason']}: {' '.join(last['message'].split())}"


def restarts(job: Mapping[str, Any], scheduled: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> int:
    """Return how often processes of a TFJob were started again, as far back as events are kept.

    `scheduled` are the events of pods that got a node, one for each life of a process. Those that the operator counts
    by itself it drops where there are many.
    """
    created, prefix = job["metadata"]["creationTimestamp"], f"{job['metadata']['name']}-"
    objects = [event["involvedObject"] for event in scheduled if event["metadata"]["creationTimestamp"] >= created]
    lives = {(found["name"], found["uid"]) for found in objects if found["name"].startswith(prefix)}
    lives |= {(pod["metadata"]["name"], pod["metadata"]["uid"]) for pod in pods}
    return len(lives) - len({name for name, _ in lives})
