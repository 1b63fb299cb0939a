"""Events of pods and Jobs (core/v1): why a process has not started, and how often a job was restarted."""

import collections
import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from qcnn.errors import service_message
from qcnn.jobs.kubernetes.api import EVENTS, NamespaceClient
from qcnn.jobs.kubernetes.manifest import JobKind
from qcnn.jobs.kubernetes.pods import PodProcess

# The kubelet reports the cause of a failed pull once, and then only the state, as "Error: ImagePullBackOff".
_STATE_NAME_ONLY = re.compile(r"Error: \w+")
_SCHEDULING = "FailedScheduling"
# As in 'Error creating: pods "a-worker-0" is forbidden: exceeded quota'.
_POD = re.compile(r'pods "([^"]+)"')


def last_warning(warnings: Iterable[Mapping[str, Any]], reason: str = "", pod: str = "") -> str | None:
    """Return the last matching warning as a single line, or None if there is no such warning.

    A warning with a cause is preferred to a warning that contains only the state.

    Args:
        warnings: Warning events of one object.
        reason: Prefix of the reason of the event.
        pod: Name of a pod, or its beginning up to "-"; events that name another pod are ignored.
    """
    matching = [
        event
        for event in warnings
        if event["reason"].startswith(reason) and all(_names(pod, found) for found in _POD.findall(event["message"]))
    ]
    if not matching:
        return None
    last = max(matching, key=lambda event: (not _STATE_NAME_ONLY.fullmatch(event["message"]), _event_time(event)))
    return f"cannot start, {last['reason']}: {service_message(last['message'])}"


def _names(pod: str, found: str) -> bool:
    return found.startswith(pod) if not pod or pod.endswith("-") else found == pod


def count_restarts(
    job: Mapping[str, Any], scheduled: Iterable[Mapping[str, Any]], processes: Iterable[PodProcess]
) -> int:
    """Return the number of restarts of a training job since its last suspension.

    The attempts of pods count if they have a label with it. Otherwise the starts of pods with one name count; those
    before the retention time of events are not known. The operator's count of restarts is not reliable,
    because the operator drops events if there are many.

    Args:
        job: Training job, as the API returned it.
        scheduled: "Scheduled" events of pods, one for each start of a process.
        processes: Current processes of the job.
    """
    processes = list(processes)
    if attempts := [process.attempt for process in processes if process.attempt]:
        return max(attempts)
    metadata, prefix = job["metadata"], f"{job['metadata']['name']}-"
    began = max([metadata["creationTimestamp"], *_suspensions(job)])
    objects = [event["involvedObject"] for event in scheduled if event["metadata"]["creationTimestamp"] >= began]
    pods = {(each["name"], each["uid"]) for each in objects if each["name"].startswith(prefix)}
    pods |= {(process.pod, process.uid) for process in processes}
    return max(collections.Counter(name for name, _ in pods).values(), default=1) - 1


def _event_time(event: Mapping[str, Any]) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def _suspensions(job: Mapping[str, Any]) -> list[str]:
    """Return the time at which a job was last suspended or resumed, if any."""
    conditions = job.get("status", {}).get("conditions", ())
    return [each["lastTransitionTime"] for each in conditions if each["type"] == "Suspended"]


@dataclasses.dataclass(frozen=True)
class EventQuery:
    """Query for warning events that explain why a process has not started.

    Attributes:
        selector: Selector of the events.
        reason: Prefix of the reason of the events.
        pod: Name of a pod, or its beginning up to "-"; events that name another pod are ignored.
        name: Beginning of the name of the object of the events.
    """

    selector: str
    reason: str
    pod: str = ""
    name: str = ""

    def last_warning(self, api: NamespaceClient) -> str | None:
        """Return the last matching warning as a single line, or None if there is no such warning."""
        warnings = api.find(EVENTS, fieldSelector=f"{self.selector},type=Warning")
        # The condition of a pod without a node contains the reason; the events remain after the pod has got one.
        warnings = [each for each in warnings if each["reason"] != _SCHEDULING]
        if self.name:
            warnings = [each for each in warnings if each["involvedObject"]["name"].startswith(self.name)]
        return last_warning(warnings, self.reason, self.pod)


def event_query(job: Mapping[str, Any], kind: JobKind, process: PodProcess | None, pod: str = "") -> EventQuery:
    """Return the query for a process that has not started.

    Args:
        job: Job, as the API returned it.
        kind: Type of the job.
        process: Process, or None if it has no pod. In that case, the events of the job contain the cause.
        pod: Name of the missing pod; by default, the events of all missing pods match.
    """
    if process:
        return EventQuery(f"involvedObject.uid={process.uid}", "")
    if kind.owns_pods:
        return EventQuery(f"involvedObject.uid={job['metadata']['uid']}", "FailedCreate", pod)
    # The pods are created by Jobs, whose names begin with that of the job.
    return EventQuery("involvedObject.kind=Job", "FailedCreate", pod, f"{job['metadata']['name']}-")
