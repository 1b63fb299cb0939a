"""What events say of objects, by pure functions (core/v1 Event, as the API returns it)."""

import collections
import re
from collections.abc import Iterable, Mapping
from typing import Any

from qcnn.jobs.kubernetes.pods import Process
from qcnn.trainer.errors import one_line

# The kubelet reports the cause of a failed pull once, and then only the state's name, as "Error: ImagePullBackOff".
_NAME_ALONE = re.compile(r"Error: \w+")
# As in 'Error creating: pods "a-worker-0" is forbidden: exceeded quota'.
_POD = re.compile(r'pods "([^"]+)"')


def last_warning(warnings: Iterable[Mapping[str, Any]], reason: str = "", pod: str = "") -> str | None:
    """Return in one line the last of an object's warnings whose reason begins so, None if there is none.

    A warning that says why is preferred to those that only name the state. With `pod`, those that name another pod are
    left out.
    """
    telling = [
        event
        for event in warnings
        if event["reason"].startswith(reason) and (not pod or set(_POD.findall(event["message"])) <= {pod})
    ]
    if not telling:
        return None
    last = max(telling, key=lambda event: (not _NAME_ALONE.fullmatch(event["message"]), _when(event)))
    return f"cannot start, {last['reason']}: {one_line(last['message'])}"


def restarts(job: Mapping[str, Any], scheduled: Iterable[Mapping[str, Any]], processes: Iterable[Process]) -> int:
    """Return how often a TFJob was started again since its last suspension, or as far back as events are kept.

    `scheduled` are the events of pods that got a node: one for each time that a process was started. The operator's own
    count of restarts cannot be used, as it drops events where there are many.
    """
    metadata, prefix = job["metadata"], f"{job['metadata']['name']}-"
    began = max([metadata["creationTimestamp"], *_suspensions(job)])
    objects = [event["involvedObject"] for event in scheduled if event["metadata"]["creationTimestamp"] >= began]
    lives = {(found["name"], found["uid"]) for found in objects if found["name"].startswith(prefix)}
    lives |= {(process.pod, process.uid) for process in processes}
    return max(collections.Counter(name for name, _ in lives).values(), default=1) - 1


def _when(event: Mapping[str, Any]) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def _suspensions(job: Mapping[str, Any]) -> list[str]:
    """Return when a TFJob was last suspended or resumed."""
    conditions = job.get("status", {}).get("conditions", ())
    return [found["lastTransitionTime"] for found in conditions if found["type"] == "Suspended"]
