"""Pods and events with messages of a real API server and kubelet."""

import dataclasses
import logging
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes import pod_events, pods
from qcnn.jobs.kubernetes.manifest import JOB
from qcnn.jobs.kubernetes.pod_events import EventQuery, event_query
from qcnn.jobs.kubernetes.pods import PodProcess, root_cause_process
from qcnn.jobs.kubernetes.startup_monitor import PendingProcesses, StartupMonitor
from qcnn.jobs.tfjob.engine import TFJOB
from tests.qcnn.jobs.kubernetes.processes import process


def read(pod: dict[str, Any]) -> PodProcess:
    return pods.read_process(pod, TFJOB)


def _pod(index: int = 0, state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)}
    others = [{"name": "sidecar", "state": {"running": {}}}]
    containers = [*others, {"name": "tensorflow", "state": state}] if state else others
    return {
        "metadata": {"name": f"job-worker-{index}", "uid": f"uid-{index}", "labels": labels},
        "status": {"containerStatuses": containers, **status},
    }


def _ended(code: int, index: int = 0, reason: str = "Error") -> dict[str, Any]:
    return _pod(index, {"terminated": {"exitCode": code, "reason": reason}})


def test_read_process_takes_name_from_labels() -> None:
    assert read(_pod(1)).name == "worker 1"
    metadata = {"name": "a", "uid": "b", "labels": {"app.kubernetes.io/component": "predict"}}
    assert pods.read_process({"metadata": metadata}, JOB).name == "predict 0"


def test_read_process_started_depends_on_own_container() -> None:
    assert not read(_pod()).started
    assert not read(_pod(state={"waiting": {"reason": "ContainerCreating"}})).started
    assert read(_pod(state={"running": {}})).started
    assert read(_ended(0)).started
    assert not read({**_pod(), "status": {}}).started


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (_pod(state={"waiting": {"reason": "ContainerCreating"}}), None),
        (_pod(state={"running": {}}), None),
        (
            _pod(state={"waiting": {"reason": "ImagePullBackOff", "message": "Back-off\npulling image"}}),
            "cannot start, ImagePullBackOff: Back-off pulling image",
        ),
        (
            _pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]),
            "cannot be scheduled: 0/1 nodes are available",
        ),
        (_pod(conditions=[{"type": "PodScheduled", "status": "True"}]), None),
        # An init container without its image keeps the process from starting.
        (
            _pod(
                state={"waiting": {"reason": "PodInitializing"}},
                initContainerStatuses=[
                    {"name": "proxy", "state": {"waiting": {"reason": "ErrImagePull", "message": "no image"}}}
                ],
            ),
            "cannot start, ErrImagePull: no image",
        ),
        # A process that has started is not pending, whatever other containers are.
        (
            _pod(
                state={"running": {}},
                initContainerStatuses=[{"name": "proxy", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            ),
            None,
        ),
    ],
)
def test_read_process_pending_reason_is_one_line(pod: dict[str, Any], reason: str | None) -> None:
    assert read(pod).pending_reason == reason


def test_read_process_classifies_exit_codes() -> None:
    ends = [(code, read(_ended(code)).is_permanent_error, read(_ended(code)).lost) for code in (0, 1, 127, 128, 143)]
    assert ends == [
        (0, False, False),
        (1, True, False),
        (127, True, False),
        (128, False, True),
        (143, False, True),
    ]
    terminating = _ended(143)
    terminating["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert not read(terminating).lost
    assert read(_ended(137, reason="OOMKilled")).out_of_memory
    assert not read(_ended(137)).out_of_memory


def test_root_cause_process_prefers_permanent_error() -> None:
    succeeded, lost_peer, killed, failed = (read(_ended(code, index)) for index, code in enumerate((0, 138, 137, 1)))
    assert root_cause_process([succeeded, lost_peer, killed, failed]) == failed
    assert root_cause_process([succeeded, lost_peer, killed]) == killed
    assert root_cause_process([succeeded, lost_peer]) == lost_peer
    assert root_cause_process([succeeded]) is None


FAILED_JOB: dict[str, Any] = {"metadata": {"name": "a", "creationTimestamp": "2026-01-31T12:00:00Z"}}


def _scheduled(name: str, uid: str, created: str = "2026-01-31T12:00:01Z") -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": created}, "involvedObject": {"name": name, "uid": uid}}


def test_count_restarts_counts_pods_after_the_first() -> None:
    first, second = "a-worker-0", "a-worker-1"
    found = [
        _scheduled(first, "a"),
        _scheduled(first, "b"),
        _scheduled(second, "c"),
        _scheduled(second, "of an earlier job", "2026-01-31T11:00:00Z"),
        _scheduled("another-worker-0", "d"),
    ]
    assert pod_events.count_restarts(FAILED_JOB, [], []) == 0
    assert pod_events.count_restarts(FAILED_JOB, found, []) == 1
    assert pod_events.count_restarts(FAILED_JOB, found, [dataclasses.replace(process("0e"), pod=first, uid="e")]) == 2


def test_count_restarts_of_all_workers_is_one() -> None:
    names = ["a-worker-0", "a-worker-1"]
    assert (
        pod_events.count_restarts(
            FAILED_JOB, [_scheduled(name, name + suffix) for name in names for suffix in "ab"], []
        )
        == 1
    )


def test_count_restarts_starts_at_last_suspension() -> None:
    resumed = {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-01-31T12:30:00Z"}
    job = {**FAILED_JOB, "status": {"conditions": [{"type": "Created", "status": "True"}, resumed]}}
    name = "a-worker-0"
    before, after, again = (
        _scheduled(name, uid, f"2026-01-31T12:{minute}:00Z") for uid, minute in (("a", "10"), ("b", "30"), ("c", "40"))
    )
    assert pod_events.count_restarts(job, [before, after], []) == 0
    assert pod_events.count_restarts(job, [before, after, again], []) == 1
    assert pod_events.count_restarts(job, [before], []) == 0


def test_last_warning_is_one_line() -> None:
    def warning(reason: str, second: int) -> dict[str, Any]:
        return {"reason": reason, "message": f"disk\nfull {second}", "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}

    warnings = [warning("FailedCreatePod", 2), warning("FailedCreatePod", 1), warning("Error", 3)]
    assert pod_events.last_warning(warnings, "FailedCreate") == "cannot start, FailedCreatePod: disk full 2"
    assert pod_events.last_warning(warnings) == "cannot start, Error: disk full 3"
    assert pod_events.last_warning([]) is None


def test_last_warning_prefers_cause_to_state() -> None:
    # Messages of the kubelet for a missing image, within 2 seconds.
    messages = ('Failed to pull image "a/b:1": not found', "Error: ErrImagePull", "Error: ImagePullBackOff")
    warnings = [
        {"reason": "Failed", "message": message, "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}
        for second, message in enumerate(messages)
    ]
    assert pod_events.last_warning(warnings) == 'cannot start, Failed: Failed to pull image "a/b:1": not found'


def test_last_warning_ignores_other_pods() -> None:
    def warning(message: str, second: int) -> dict[str, Any]:
        return {"reason": "FailedCreatePod", "message": message, "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}

    quota = 'Error creating: pods "a-worker-0" is forbidden: exceeded quota: few, requested: pods=1'
    assert pod_events.last_warning([warning(quota, 2)], "FailedCreate", "a-worker-1") is None
    assert pod_events.last_warning([warning(quota, 2)], "FailedCreate", "a-worker-0") == (
        f"cannot start, FailedCreatePod: {quota}"
    )
    general = warning("the server is busy", 1)
    busy = "cannot start, FailedCreatePod: the server is busy"
    assert pod_events.last_warning([general, warning(quota, 2)], "FailedCreate", "a-worker-1") == busy
    # A name with the same prefix is another pod.
    assert pod_events.last_warning([warning(quota.replace("worker-0", "worker-10"), 2)], pod="a-worker-1") is None


def test_reasons_contain_complete_service_message() -> None:
    nodes = f"0/3 nodes are available: {', '.join(f'1 node has untolerated taint {{team-{i}: }}' for i in range(9))}."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": nodes}
    assert read(_pod(conditions=[condition])).pending_reason == f"cannot be scheduled: {nodes}"
    warning = {"reason": "FailedCreatePod", "message": f"Error creating: {nodes}"}
    assert pod_events.last_warning([warning]) == f"cannot start, FailedCreatePod: Error creating: {nodes}"


WAITING_JOB: dict[str, Any] = {"metadata": {"name": "a", "uid": "1-2-3"}, "spec": {}}
NAMES = ["worker 0", "worker 1"]
NO_CAPACITY, NO_IMAGE = "cannot be scheduled: Insufficient cpu", "cannot start, ErrImagePull: no image"


def _unstarted(text: str, reason: str | None = None) -> PodProcess:
    unschedulable = reason == NO_CAPACITY
    return dataclasses.replace(process(text), started=False, pending_reason=reason, unschedulable=unschedulable)


def _pending(*processes: PodProcess, suspended: bool = False, now: float = 10) -> PendingProcesses:
    return PendingProcesses(0, dict.fromkeys(NAMES)).observe(NAMES, processes, suspended=suspended, now=now)


@pytest.mark.parametrize(
    ("processes", "suspended", "since", "description", "next_name"),
    [
        ([], False, 0, "worker 0, worker 1", "worker 0"),
        ([process("0a")], False, 0, "worker 1", "worker 1"),
        ([process("0a"), process("1a:1")], False, None, "", None),
        ([process("0a"), _unstarted("1a")], False, 0, "worker 1", "worker 1"),
        ([process("0a"), _unstarted("1a", NO_CAPACITY)], False, 0, f"worker 1 {NO_CAPACITY}", None),
        ([_unstarted("0a", NO_CAPACITY), _unstarted("1a")], False, 0, f"worker 0 {NO_CAPACITY}", "worker 1"),
        # Processes without a pod take precedence.
        ([_unstarted("0a")], False, 0, "worker 0, worker 1", "worker 1"),
        # A suspended job has no pods.
        ([], True, None, "", None),
        ([_unstarted("0a", NO_CAPACITY)], True, None, "", None),
    ],
)
def test_pending_processes_observe_pods(
    processes: list[PodProcess], suspended: bool, since: float | None, description: str, next_name: str | None
) -> None:
    pending = _pending(*processes, suspended=suspended)
    assert (pending.since, pending.describe(), pending.next_to_query()) == (since, description, next_name)


def test_pending_processes_keep_reason_until_start() -> None:
    pending = _pending(_unstarted("0a"), process("1a")).with_reason("worker 0", NO_IMAGE)
    assert pending.describe() == f"worker 0 {NO_IMAGE}"
    assert (
        pending.observe(NAMES, [_unstarted("0a"), process("1a")], suspended=False, now=20).describe()
        == pending.describe()
    )
    restarted = pending.observe(NAMES, [process("0a"), _unstarted("1b")], suspended=False, now=20)
    assert (restarted.describe(), restarted.since) == ("worker 1", 0)
    assert not pending.observe(NAMES, [process("0a"), process("1a")], suspended=False, now=20).reasons


def test_pending_processes_drop_reason_once_pod_has_node() -> None:
    pending = _pending(_unstarted("0a", NO_CAPACITY), process("1a"))
    scheduled = pending.observe(NAMES, [_unstarted("0a"), process("1a")], suspended=False, now=20)
    assert (scheduled.describe(), scheduled.next_to_query(), scheduled.since) == ("worker 0", "worker 0", 0)


def test_pending_processes_since_restart() -> None:
    started = _pending(process("0a"), process("1a"))
    assert started.observe(NAMES, [process("0a")], suspended=False, now=500).since == 500


def test_event_query_without_pod_uses_job_events() -> None:
    of_job, of_pod = "involvedObject.uid=1-2-3", "involvedObject.uid=0-0a"
    assert event_query(WAITING_JOB, TFJOB, None) == EventQuery(of_job, "FailedCreate")
    assert event_query(WAITING_JOB, TFJOB, None, "a-worker-1") == EventQuery(of_job, "FailedCreate", "a-worker-1")
    assert event_query(WAITING_JOB, TFJOB, process("0a"), "a-worker-0") == EventQuery(of_pod, "")


class _Events:
    """Events of objects by UID, with a record of the requests."""

    def __init__(self, events: dict[str, str]) -> None:
        self.events = events
        self.requests: list[str] = []

    def find(self, _: Any, fieldSelector: str) -> list[dict[str, str]]:  # noqa: N803
        uid = fieldSelector.removeprefix("involvedObject.uid=").removesuffix(",type=Warning")
        self.requests.append(uid)
        return [{"reason": "FailedCreatePod", "message": self.events[uid]}] if uid in self.events else []


class _Watched:
    """Startup monitor with a manual clock."""

    def __init__(self, names: list[str] | None = None, events: dict[str, str] | None = None) -> None:
        self.now = 0.0
        self.events = _Events(events or {})
        self.start = StartupMonitor(self.events, TFJOB, WAITING_JOB, names or ["worker 0"], 600, lambda: self.now)  # type: ignore[arg-type]

    def check(self, now: float) -> None:
        self.now = now
        self.start.check()


def test_startup_monitor_without_pod_times_out() -> None:
    watched = _Watched()
    watched.start.observe([], suspended=False)
    watched.check(600)
    with pytest.raises(ConfigError, match=r"^not started after 600 s: worker 0; see `qcnn doctor .*`\. Given: a$"):
        watched.check(601)


def test_startup_monitor_excludes_suspension() -> None:
    watched = _Watched()
    watched.check(500)
    watched.start.observe([], suspended=True)
    watched.check(100_000)
    assert not watched.start.is_pending
    watched.start.observe([], suspended=False)
    assert watched.start.is_pending
    watched.check(100_600)
    with pytest.raises(ConfigError, match=r"^not started after 600 s: "):
        watched.check(100_601)


def test_startup_monitor_of_suspended_job_is_not_pending() -> None:
    suspended = {**WAITING_JOB, "spec": {"runPolicy": {"suspend": True}}}
    start = StartupMonitor(_Events({}), TFJOB, suspended, NAMES, 600, lambda: 0.0)  # type: ignore[arg-type]
    assert not start.is_pending


def test_startup_monitor_after_start_sends_no_request() -> None:
    watched = _Watched()
    watched.start.observe([process("0a")], suspended=False)
    watched.check(10_000)
    assert (watched.start.is_pending, watched.events.requests) == (False, [])


def test_startup_monitor_requests_events_every_10_s() -> None:
    watched = _Watched(events={"0-0a": "no account"})
    for now in (0, 9, 10, 19, 20):
        watched.start.observe([_unstarted("0a")], suspended=False)
        watched.check(now)
    assert watched.events.requests == ["0-0a"] * 2
    with pytest.raises(ConfigError, match=r": worker 0 cannot start, FailedCreatePod: no account; see `qcnn"):
        watched.check(601)


def test_startup_monitor_logs_first_reason_once(caplog: pytest.LogCaptureFixture) -> None:
    watched = _Watched(NAMES, {"1-2-3": "over quota"})
    with caplog.at_level(logging.WARNING, "qcnn"):
        for now, reason in (
            (0, NO_IMAGE),
            (1, "cannot start, ImagePullBackOff: again"),
            (10, NO_IMAGE),
            (20, NO_IMAGE),
        ):
            watched.now = now
            watched.start.observe([_unstarted("0a", reason)], suspended=False)
            watched.start.check()
    expected = [f"worker 0 {NO_IMAGE}", "worker 1 cannot start, FailedCreatePod: over quota"]
    assert [record.getMessage() for record in caplog.records] == expected


def test_startup_monitor_logs_reason_after_pod_has_node(caplog: pytest.LogCaptureFixture) -> None:
    watched = _Watched()
    with caplog.at_level(logging.WARNING, "qcnn"):
        for reason in (NO_CAPACITY, NO_CAPACITY, NO_IMAGE, "cannot start, ImagePullBackOff: again", NO_IMAGE):
            watched.start.observe([_unstarted("0a", reason)], suspended=False)
    assert [record.getMessage() for record in caplog.records] == [f"worker 0 {NO_CAPACITY}", f"worker 0 {NO_IMAGE}"]


def test_events_of_scheduling_are_no_reason_of_pod_with_node() -> None:
    query = event_query(WAITING_JOB, TFJOB, process("0a"))
    scheduling = {"reason": "FailedScheduling", "message": "0/1 nodes are available"}

    class Events:
        def find(self, *_: Any, **__: str) -> list[dict[str, str]]:
            return [scheduling]

    assert query.last_warning(Events()) is None  # type: ignore[arg-type]
