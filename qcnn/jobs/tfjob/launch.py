"""Create a TFJob, and follow it to its end as the launcher of a pipeline's step."""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.job import PendingCreation
from qcnn.jobs.kubernetes.api import PODS, SERVICE_ACCOUNTS, SERVICES, NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import CreateOutcome, cancel_unwatched, create_or_adopt
from qcnn.jobs.kubernetes.job_watcher import JobAbandonedError, JobWatcher, Observer, ignore
from qcnn.jobs.kubernetes.restart_policy import RestartTracker
from qcnn.jobs.kubernetes.retry import FORBIDDEN, RequestRejectedError
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, PodSettings
from qcnn.jobs.tfjob import status
from qcnn.jobs.tfjob.lease import LeaseRenewer, check_lease_right
from qcnn.jobs.tfjob.manifest import TFJOB, TFJOBS, Manifest, profiler_service, restarted
from qcnn.startup import ABANDONED, end_now

logger = logging.getLogger("qcnn")

# Kubeflow kills a step this long after it has told the step to end, in seconds.
GRACE = 0.7
# A pod is marked for deletion just before its processes are told to end: so long the mark may take to be seen here on a
# busy machine, in seconds.
_MARK_SECONDS = 0.1


class OwnPodWatcher:
    """Watches a pod in a thread until this process ends, so that `is_terminating` is known without a request."""

    def __init__(self, api: NamespaceClient, name: str) -> None:
        self._api = api
        self._name = name
        self._is_going = threading.Event()
        threading.Thread(target=self._run, name=f"watch of {name}", daemon=True).start()

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being taken away; a mark that comes within a moment counts too."""
        return self._is_going.wait(_MARK_SECONDS)

    def _run(self) -> None:
        try:
            for pods in self._api.watch(PODS, fieldSelector=f"metadata.name={self._name}"):
                if any(map(is_terminating, pods.values())):
                    self._is_going.set()
                    return
        except Exception as error:  # Whatever it is: the training goes on without this knowledge.
            logger.warning("an eviction of this pod would not be seen: %s", error)


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Whether a pod, as the API returns it, is being deleted, or ended by its node (drained, preempted, out of memory).

    Where a backend terminates a run, its pods stay: Argo only sends a signal to their processes.
    """
    conditions = pod["status"].get("conditions", ())
    disrupted = any(found["type"] == "DisruptionTarget" and found["status"] == "True" for found in conditions)
    return "deletionTimestamp" in pod["metadata"] or disrupted


class Termination:
    """Deletes a TFJob with everything that it owns when SIGTERM or Ctrl-C comes, and ends this process.

    If only the pod of this process `is_terminating`, the run continues: the TFJob stays for the next launcher, until
    its Lease is stale. Only the Lease may use the connections of `api`, so that one is free at any moment.
    """

    def __init__(self, api: NamespaceClient, name: str, is_terminating: Callable[[], bool]) -> None:
        self._api = api
        self._name = name
        self._is_going = is_terminating
        self.creation = PendingCreation()

    @contextlib.contextmanager
    def installed(self) -> Iterator["Termination"]:
        """Handle the signals within this block; outside of the main thread, which alone can, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: object) -> None:
        received = signal.Signals(number).name
        if self._is_going():
            end_now(f"ended by {received}, as its pod is; its TFJob stays. Given: {self._name}", 128 + number)
        deleted = self.creation.ended(lambda: self._api.delete(TFJOBS, self._name), GRACE)
        what = "its TFJob is deleted" if deleted else "no TFJob of it was found"
        end_now(f"ended by {received}; {what}. Given: {self._name}", 128 + number)


def applied(manifest: Manifest, namespace: str | None) -> list[Manifest]:
    """Return what `submit` creates, for others to apply, in that order; without a namespace, in whatever is theirs.

    The Service belongs to the TFJob only once `submit` has taken that up: by then it is known by its uid.
    """
    place = {"namespace": namespace} if namespace else {}
    made = (manifest, profiler_service(manifest))
    return [{**each, "metadata": {**each["metadata"], **place}} for each in made]


def check_worker_account(api: NamespaceClient, pod: PodSettings) -> None:
    """Check that the account is there as which pods run by default.

    The role qcnn-user may not look at accounts; whoever has it has the account too, which the same file makes.

    Raises:
        ConfigError: it is not.
    """
    if pod.service_account != WORKER_ACCOUNT:
        return
    try:
        found = api.get(SERVICE_ACCOUNTS, WORKER_ACCOUNT)
    except RequestRejectedError as error:
        if error.status != FORBIDDEN:
            raise
        return
    if found is None:
        raise ConfigError(
            f"pod.service_account: namespace {api.namespace} has no account {WORKER_ACCOUNT}; `kubectl -n "
            f"{api.namespace} apply -f deploy/rbac.yaml` makes it, or --service-account names another one, such as "
            f"default. Given: {WORKER_ACCOUNT}"
        )


def submit(api: NamespaceClient, manifest: Manifest) -> tuple[dict[str, Any], CreateOutcome]:
    """Return the TFJob of a manifest, which is created, or taken up where it runs or has succeeded.

    Raises:
        ConfigError: the cluster refuses it; one line that says why. What was created is deleted.
    """
    found, how = create_or_adopt(api, TFJOB, manifest)
    try:
        if how is not CreateOutcome.SUCCEEDED:
            api.apply(SERVICES, profiler_service(found))
    except ConfigError:
        if how is CreateOutcome.CREATED:
            cancel_unwatched(api, TFJOB, found)
        raise
    return found, how


PENDING_SECONDS = 600.0


def launch(
    manifest: Manifest,
    namespace: str,
    *,
    own_pod: str | None = None,
    retried: bool = False,
    pending_seconds: float = PENDING_SECONDS,
) -> None:
    """Train as the TFJob of a manifest and return when it has succeeded, at once if it already has.

    A TFJob that runs is adopted; one that has failed is replaced, as is one that the operator gives up for a process
    that was lost. One that fails is left on the cluster, to be looked at; one whose processes have not started after
    `pending_seconds`, or that cannot be followed, is deleted. Where a backend has `retried` by itself, a TFJob that
    failed by its own fault is not replaced. A launcher that is told to end deletes its TFJob, unless its `own_pod` is
    being evicted. Where the TFJob's processes serve metrics, this one does so too.

    Raises:
        ConfigError: the cluster refuses the job, or cannot start it; one line that says why.
        TrainingError: a process failed by its own fault; its last lines have been shown.
        RetryableError: processes were lost more often than the manifest allows, the job was deleted by somebody else,
            or the API server does not answer any more.
    """
    name, lease_seconds, restarts = (
        manifest["metadata"]["name"],
        status.lease_seconds(manifest),
        status.restarts(manifest),
    )
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(contextlib.closing(NamespaceClient(namespace)))
        renewing = stack.enter_context(contextlib.closing(api.with_own_connections()))
        is_terminating = _termination_check(stack, api, own_pod)
        termination = stack.enter_context(Termination(renewing.limited_to(GRACE), name, is_terminating).installed())
        if retried:
            _check_permanent_error(api, manifest)

        @contextlib.contextmanager
        def creating() -> Iterator[None]:
            if lease_seconds is not None:
                check_lease_right(api, status.service_account(manifest), name)
            with termination.creation.going_on():
                yield

        observer = _metrics_observer(stack, manifest)
        tracker: RestartTracker | None = None
        # What earlier launchers of the training have counted.
        before: int | None = None
        while True:
            running, how = create_or_adopt(api, TFJOB, manifest, creating)
            logger.info("TFJob %s %s", name, how.value)
            if how is CreateOutcome.SUCCEEDED:
                return
            before = status.restarts_before(running) if before is None else before
            processes = status.replicas(manifest)
            following = JobWatcher(api, TFJOB, running, processes, restarts, pending_seconds, tracker, observer)
            try:
                _follow(api, renewing, running, following, lease_seconds)
                return
            except JobAbandonedError as error:
                tracker = error.tracker
                manifest = restarted(manifest, before + tracker.restarts)
                logger.warning("%s; it is started again (%d of %d)", error, tracker.restarts, restarts)


def _termination_check(stack: contextlib.ExitStack, api: NamespaceClient, own_pod: str | None) -> Callable[[], bool]:
    """Return a function that tells whether the pod of this process is being taken away."""
    if not own_pod:
        return lambda: False
    pod = OwnPodWatcher(stack.enter_context(contextlib.closing(api.with_own_connections())), own_pod)
    return lambda: pod.is_terminating


def _metrics_observer(stack: contextlib.ExitStack, manifest: Manifest) -> Observer:
    """Serve metrics of a job where its processes do, on the same port; return what takes note of the job."""
    port = status.metrics_port(manifest)
    if port is None:
        return ignore
    # Only where it is asked for: the library takes a tenth of a second to load.
    from qcnn.monitoring.metrics import LauncherMetrics

    metrics = LauncherMetrics(manifest["metadata"]["name"], status.STATES)
    stack.enter_context(metrics.served(port))
    return lambda job, restarts: metrics.see(status.state(job), restarts)


def _check_permanent_error(api: NamespaceClient, manifest: Manifest) -> None:
    """Refuse to train again what has failed by its own fault, and would fail again.

    Raises:
        TrainingError: the one with which it failed.
    """
    found = api.get(TFJOBS, manifest["metadata"]["name"])
    if not found or status.state(found) != "Failed":
        return
    processes, restarts = status.replicas(manifest), status.restarts(manifest)
    following = JobWatcher(api, TFJOB, found, processes, restarts, pending_seconds=float("inf"))
    try:
        following.run()
    except RetryableError:
        return
    except TrainingError:
        if following.exit_code != ABANDONED:
            raise


def _follow(
    api: NamespaceClient,
    renewing: NamespaceClient,
    running: dict[str, Any],
    following: JobWatcher,
    lease_seconds: int | None,
) -> None:
    """Follow a TFJob to its end, renewing its Lease; delete one that cannot be followed."""
    try:
        with contextlib.ExitStack() as stack:
            if lease_seconds is not None:
                renewal = LeaseRenewer(renewing, running, lease_seconds, following.fail)
                stack.callback(renewal.stop)
            api.apply(SERVICES, profiler_service(running))
            following.run()
    except ConfigError:
        ends = "" if lease_seconds is None else f"; its pods end {lease_seconds} s from now"
        cancel_unwatched(api, TFJOB, running, ends)
        raise
