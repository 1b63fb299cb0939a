"""Create training jobs, and wait for them in the launcher step of a pipeline."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.job import CreateOutcome
from qcnn.jobs.kubernetes.api import PODS, SERVICES, NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import cancel_unwatched, create_or_adopt
from qcnn.jobs.kubernetes.engine import Engine, TrainingJob
from qcnn.jobs.kubernetes.job_watcher import JobAbandonedError, JobWatcher, Observer, ignore
from qcnn.jobs.kubernetes.lease import LeaseRenewer, check_lease_right
from qcnn.jobs.kubernetes.manifest import Manifest
from qcnn.jobs.kubernetes.restart_policy import RestartTracker
from qcnn.jobs.kubernetes.training_manifest import restarts_before, with_restarts
from qcnn.jobs.termination import Termination
from qcnn.process.exit_codes import ABANDONED

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
            logger.warning("cannot watch this pod; its eviction would delete the job (%s)", error)


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod, as returned by the API, is being deleted, evicted or preempted.

    Termination of a KFP run does not delete pods: Argo only sends a signal to their processes.
    """
    conditions = pod["status"].get("conditions", ())
    disrupted = any(found["type"] == "DisruptionTarget" and found["status"] == "True" for found in conditions)
    return "deletionTimestamp" in pod["metadata"] or disrupted


def manifests_to_apply(training: TrainingJob, namespace: str | None) -> list[Manifest]:
    """Return the manifests that `submit` creates, in the order for `kubectl apply`.

    Other objects than the job have no owner reference, because that needs the UID of the job. `submit` adds it.

    Args:
        training: Job to create.
        namespace: Namespace of the objects. None: that of the client which applies them.
    """
    metadata = {"namespace": namespace} if namespace else {}
    before = [manifest for _, manifest in training.prerequisites]
    manifests = (*before, training.manifest, *training.engine.services(training.manifest))
    return [{**each, "metadata": {**each["metadata"], **metadata}} for each in manifests]


def submit(api: NamespaceClient, training: TrainingJob) -> tuple[Manifest, CreateOutcome]:
    """Create a training job, or adopt an active or succeeded one, without waiting for it.

    Returns:
        The job as returned by the API, and whether it was created, was adopted, or has succeeded.

    Raises:
        ConfigError: If the API server rejects the job or its Service. A created job is then deleted.
    """
    engine = training.engine
    job, outcome = create_or_adopt(api, engine, training.manifest, prerequisites=training.prerequisites)
    try:
        if outcome is not CreateOutcome.SUCCEEDED:
            _apply_services(api, engine, job)
    except ConfigError:
        if outcome is CreateOutcome.CREATED:
            cancel_unwatched(api, engine, job)
        raise
    return job, outcome


def _apply_services(api: NamespaceClient, engine: Engine, job: Manifest) -> None:
    for service in engine.services(job):
        api.apply(SERVICES, service)


PENDING_SECONDS = 600.0


def launch(
    training: TrainingJob,
    namespace: str,
    *,
    own_pod: str | None = None,
    retried: bool = False,
    pending_seconds: float = PENDING_SECONDS,
) -> None:
    """Create or adopt a training job, and wait until it succeeds.

    An active job is adopted. A failed job is replaced, also if the operator has failed it after a retryable error. If
    the job fails finally, it is kept for inspection. If its pods do not start or it cannot be watched, it is deleted.
    On SIGTERM, the job is deleted and this process exits. If the processes of the job serve metrics, this process
    serves metrics too.

    Args:
        training: Job to create.
        namespace: Namespace of the job.
        own_pod: Name of the launcher's pod. If it is evicted, the job is kept. None: the launcher has no pod.
        retried: Whether KFP has restarted this step. A job with a permanent error is then not replaced.
        pending_seconds: Timeout in seconds for pods to start.

    Raises:
        ConfigError: If the API server rejects the job, or its pods do not start.
        TrainingError: If a process fails with a permanent error. Its last lines are logged.
        RetryableError: If restarts exceed the limit of the job, another client deletes the job, or the API server does
            not respond.
    """
    engine, spec, name, manifest = training.engine, training.spec, training.name, training.manifest
    lease_seconds, account = training.timeouts.lease_seconds, spec.pod.service_account if spec.pod else ""
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(contextlib.closing(NamespaceClient(namespace)))
        # Used for Lease renewals only, so that a connection is always free on SIGTERM.
        renewing = stack.enter_context(contextlib.closing(api.with_own_connections()))
        limited = renewing.limited_to(GRACE)
        ending = Termination(
            lambda: limited.delete(engine.resource, name),
            *(engine.name, name, "deleted", GRACE),
            kept=_termination_check(stack, api, own_pod),
        )
        termination = stack.enter_context(ending.installed())
        if retried:
            _check_permanent_error(api, training)

        @contextlib.contextmanager
        def creating() -> Iterator[None]:
            if lease_seconds is not None:
                check_lease_right(api, account, name)
            with termination.creating():
                yield

        observer = _metrics_observer(stack, training)
        tracker: RestartTracker | None = None
        # Number of restarts by earlier launchers.
        before: int | None = None
        while True:
            running, outcome = create_or_adopt(api, engine, manifest, creating, training.prerequisites)
            logger.info("%s %s %s", engine.name, name, outcome.value)
            if outcome is CreateOutcome.SUCCEEDED:
                return
            before = restarts_before(running) if before is None else before
            watcher = JobWatcher(
                api, engine, running, spec.processes(), spec.restarts, pending_seconds, tracker, observer
            )
            try:
                _wait_or_delete(api, renewing, engine, running, watcher, lease_seconds)
                return
            except JobAbandonedError as error:
                tracker = error.tracker
                manifest = with_restarts(manifest, before + tracker.restarts)
                logger.warning("%s; restarting the job (%d of %d)", error, tracker.restarts, spec.restarts)


def _termination_check(stack: contextlib.ExitStack, api: NamespaceClient, own_pod: str | None) -> Callable[[], str]:
    """Return a function that returns why the job is kept on SIGTERM: the pod of this process is terminating."""
    if not own_pod:
        return lambda: ""
    watcher = OwnPodWatcher(stack.enter_context(contextlib.closing(api.with_own_connections())), own_pod)
    return lambda: "pod is terminating" if watcher.is_terminating else ""


def _metrics_observer(stack: contextlib.ExitStack, training: TrainingJob) -> Observer:
    """Serve launcher metrics if the job's processes serve metrics, and return their observer."""
    engine, pod = training.engine, training.spec.pod
    if pod is None or pod.metrics_port is None:
        return ignore
    # Imported only if needed, because the import takes 0.1 s.
    from qcnn.monitoring.metrics import LauncherMetrics

    metrics = LauncherMetrics(training.name, engine.states)
    stack.enter_context(metrics.served(pod.metrics_port))
    return lambda job, restarts: metrics.observe(engine.state(job), restarts)


def _check_permanent_error(api: NamespaceClient, training: TrainingJob) -> None:
    """Check that the existing job, if any, has not failed with a permanent error.

    Raises:
        TrainingError: The error with which it has failed.
    """
    engine, spec = training.engine, training.spec
    job = api.get(engine.resource, training.name)
    if not job or engine.state(job) != "Failed":
        return
    watcher = JobWatcher(api, engine, job, spec.processes(), spec.restarts, pending_seconds=float("inf"))
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
    engine: Engine,
    running: Manifest,
    watcher: JobWatcher,
    lease_seconds: int | None,
) -> None:
    """Wait for a job while its Lease is renewed, and delete it if it cannot be watched."""
    try:
        with contextlib.ExitStack() as stack:
            if lease_seconds is not None:
                renewal = LeaseRenewer(renewing, running, lease_seconds, watcher.fail)
                stack.callback(renewal.stop)
            _apply_services(api, engine, running)
            watcher.run()
    except ConfigError:
        otherwise = "" if lease_seconds is None else f"; its pods end {lease_seconds} s from now"
        cancel_unwatched(api, engine, running, otherwise)
        raise
