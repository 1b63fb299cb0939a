"""Create TFJobs, and wait for them in the launcher step of a pipeline."""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.job import PendingCreation
from qcnn.jobs.kubernetes.api import PODS, SERVICES, NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import CreateOutcome, cancel_unwatched, create_or_adopt
from qcnn.jobs.kubernetes.job_watcher import JobAbandonedError, JobWatcher, Observer, ignore
from qcnn.jobs.kubernetes.restart_policy import RestartTracker
from qcnn.jobs.tfjob import status
from qcnn.jobs.tfjob.lease import LeaseRenewer, check_lease_right
from qcnn.jobs.tfjob.manifest import TFJOB, TFJOBS, Manifest, profiler_service, with_restarts
from qcnn.process.exit_codes import ABANDONED
from qcnn.process.standard_streams import exit_with_message

logger = logging.getLogger("qcnn")

# Seconds between SIGTERM and SIGKILL when KFP terminates a step.
GRACE = 0.7
# Kubernetes marks a pod for deletion just before its processes receive SIGTERM. The watch may report the mark this many
# seconds later if the machine is busy.
_MARK_SECONDS = 0.1


class OwnPodWatcher:
    """Watcher of the pod of this process, so that `is_terminating` needs no request.

    The watch runs in a thread until this process exits.
    """

    def __init__(self, api: NamespaceClient, name: str) -> None:
        self._api = api
        self._name = name
        self._terminating = threading.Event()
        threading.Thread(target=self._run, name=f"watch of {name}", daemon=True).start()

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being deleted, or will be marked for deletion within `_MARK_SECONDS`."""
        return self._terminating.wait(_MARK_SECONDS)

    def _run(self) -> None:
        try:
            for pods in self._api.watch(PODS, fieldSelector=f"metadata.name={self._name}"):
                if any(map(is_terminating, pods.values())):
                    self._terminating.set()
                    return
        except Exception as error:  # Any error: training can continue without the watch.
            logger.warning("cannot watch this pod; its eviction would delete the TFJob (%s)", error)


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod, as returned by the API, is being deleted, evicted or preempted.

    Termination of a KFP run does not delete pods: Argo only sends a signal to their processes.
    """
    conditions = pod["status"].get("conditions", ())
    disrupted = any(found["type"] == "DisruptionTarget" and found["status"] == "True" for found in conditions)
    return "deletionTimestamp" in pod["metadata"] or disrupted


class Termination:
    """Handler for SIGTERM and SIGINT that deletes a TFJob with its dependents and ends this process.

    If `is_terminating` returns True, only the pod of this process ends and the run continues. The TFJob is then kept
    for the next launcher, until its Lease is stale. `api` may be used for Lease renewals only, so that a connection is
    always free.
    """

    def __init__(self, api: NamespaceClient, name: str, is_terminating: Callable[[], bool]) -> None:
        self._api = api
        self._name = name
        self._is_terminating = is_terminating
        self.creation = PendingCreation()

    @contextlib.contextmanager
    def installed(self) -> Iterator["Termination"]:
        """Context manager that installs the handler.

        Outside of the main thread it does nothing, because only the main thread can set signal handlers.

        Yields:
            This object.
        """
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
        if self._is_terminating():
            exit_with_message(
                f"ended by {received}: pod is terminating; TFJob is kept. Given: {self._name}", 128 + number
            )
        deleted = self.creation.ended(lambda: self._api.delete(TFJOBS, self._name), GRACE)
        result = "its TFJob is deleted" if deleted else "no TFJob was found"
        exit_with_message(f"ended by {received}; {result}. Given: {self._name}", 128 + number)


def manifests_to_apply(manifest: Manifest, namespace: str | None) -> list[Manifest]:
    """Return the manifests that `submit` creates, in the order for `kubectl apply`.

    The Service has no owner reference, because that needs the UID of the TFJob. `submit` adds it.

    Args:
        manifest: TFJob to create.
        namespace: Namespace of the objects. None: that of the client which applies them.
    """
    metadata = {"namespace": namespace} if namespace else {}
    manifests = (manifest, profiler_service(manifest))
    return [{**each, "metadata": {**each["metadata"], **metadata}} for each in manifests]


def submit(api: NamespaceClient, manifest: Manifest) -> tuple[dict[str, Any], CreateOutcome]:
    """Create a TFJob, or adopt an active or succeeded one, without waiting for it.

    Returns:
        The TFJob as returned by the API, and whether it was created, was adopted, or has succeeded.

    Raises:
        ConfigError: If the API server rejects the TFJob or its Service. A created TFJob is then deleted.
    """
    job, outcome = create_or_adopt(api, TFJOB, manifest)
    try:
        if outcome is not CreateOutcome.SUCCEEDED:
            api.apply(SERVICES, profiler_service(job))
    except ConfigError:
        if outcome is CreateOutcome.CREATED:
            cancel_unwatched(api, TFJOB, job)
        raise
    return job, outcome


PENDING_SECONDS = 600.0


def launch(
    manifest: Manifest,
    namespace: str,
    *,
    own_pod: str | None = None,
    retried: bool = False,
    pending_seconds: float = PENDING_SECONDS,
) -> None:
    """Create or adopt a TFJob, and wait until it succeeds.

    An active TFJob is adopted. A failed TFJob is replaced, also if the operator has failed it after a retryable error.
    If the TFJob fails finally, it is kept for inspection. If its pods do not start or it cannot be watched, it is
    deleted. On SIGTERM, the TFJob is deleted and this process exits. If the processes of the TFJob serve metrics, this
    process serves metrics too.

    Args:
        manifest: TFJob to create.
        namespace: Namespace of the TFJob.
        own_pod: Name of the launcher's pod. If it is evicted, the TFJob is kept. None: the launcher has no pod.
        retried: Whether KFP has restarted this step. A TFJob with a permanent error is then not replaced.
        pending_seconds: Timeout in seconds for pods to start.

    Raises:
        ConfigError: If the API server rejects the TFJob, or its pods do not start.
        TrainingError: If a process fails with a permanent error. Its last lines are logged.
        RetryableError: If restarts exceed the limit of the manifest, another client deletes the TFJob, or the API
            server does not respond.
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
            with termination.creation.creating():
                yield

        observer = _metrics_observer(stack, manifest)
        tracker: RestartTracker | None = None
        # Number of restarts by earlier launchers.
        before: int | None = None
        while True:
            running, outcome = create_or_adopt(api, TFJOB, manifest, creating)
            logger.info("TFJob %s %s", name, outcome.value)
            if outcome is CreateOutcome.SUCCEEDED:
                return
            before = status.restarts_before(running) if before is None else before
            processes = status.replicas(manifest)
            watcher = JobWatcher(api, TFJOB, running, processes, restarts, pending_seconds, tracker, observer)
            try:
                _wait_or_delete(api, renewing, running, watcher, lease_seconds)
                return
            except JobAbandonedError as error:
                tracker = error.tracker
                manifest = with_restarts(manifest, before + tracker.restarts)
                logger.warning("%s; restarting the job (%d of %d)", error, tracker.restarts, restarts)


def _termination_check(stack: contextlib.ExitStack, api: NamespaceClient, own_pod: str | None) -> Callable[[], bool]:
    """Return a function that returns whether the pod of this process is terminating."""
    if not own_pod:
        return lambda: False
    watcher = OwnPodWatcher(stack.enter_context(contextlib.closing(api.with_own_connections())), own_pod)
    return lambda: watcher.is_terminating


def _metrics_observer(stack: contextlib.ExitStack, manifest: Manifest) -> Observer:
    """Serve launcher metrics if the job's processes serve metrics, and return their observer."""
    port = status.metrics_port(manifest)
    if port is None:
        return ignore
    # Imported only if needed, because the import takes 0.1 s.
    from qcnn.monitoring.metrics import LauncherMetrics

    metrics = LauncherMetrics(manifest["metadata"]["name"], status.STATES)
    stack.enter_context(metrics.served(port))
    return lambda job, restarts: metrics.observe(status.state(job), restarts)


def _check_permanent_error(api: NamespaceClient, manifest: Manifest) -> None:
    """Check that the existing TFJob, if any, has not failed with a permanent error.

    Raises:
        TrainingError: The error with which it has failed.
    """
    job = api.get(TFJOBS, manifest["metadata"]["name"])
    if not job or status.state(job) != "Failed":
        return
    processes, restarts = status.replicas(manifest), status.restarts(manifest)
    watcher = JobWatcher(api, TFJOB, job, processes, restarts, pending_seconds=float("inf"))
    try:
        watcher.run()
    except RetryableError:
        return
    except TrainingError:
        if watcher.exit_code != ABANDONED:
            raise


def _wait_or_delete(
    api: NamespaceClient,
    renewing: NamespaceClient,
    running: dict[str, Any],
    watcher: JobWatcher,
    lease_seconds: int | None,
) -> None:
    """Wait for a TFJob while its Lease is renewed, and delete it if it cannot be watched."""
    try:
        with contextlib.ExitStack() as stack:
            if lease_seconds is not None:
                renewal = LeaseRenewer(renewing, running, lease_seconds, watcher.fail)
                stack.callback(renewal.stop)
            api.apply(SERVICES, profiler_service(running))
            watcher.run()
    except ConfigError:
        otherwise = "" if lease_seconds is None else f"; its pods end {lease_seconds} s from now"
        cancel_unwatched(api, TFJOB, running, otherwise)
        raise
