"""Create a TFJob, and follow it to its end as the launcher of a pipeline's step."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.kubernetes.api import SERVICE_ACCOUNTS, SERVICES, Api
from qcnn.jobs.kubernetes.create_or_adopt import How, abandon, create_or_adopt
from qcnn.jobs.kubernetes.job_watcher import Following, GivenUpError, Observer, ignore
from qcnn.jobs.kubernetes.restart_policy import Lives
from qcnn.jobs.kubernetes.retry import FORBIDDEN, RefusedError
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, Pod
from qcnn.jobs.tfjob import status
from qcnn.jobs.tfjob.lease import Renewal, check_lease_right
from qcnn.jobs.tfjob.manifest import TFJOB, TFJOBS, Manifest, profiler_service, restarted
from qcnn.jobs.tfjob.termination import GRACE, OwnPod, Termination
from qcnn.startup import ABANDONED


def applied(manifest: Manifest, namespace: str | None) -> list[Manifest]:
    """Return what `submit` creates, for others to apply, in that order; without a namespace, in whatever is theirs.

    The Service belongs to the TFJob only once `submit` has taken that up: by then it is known by its uid.
    """
    place = {"namespace": namespace} if namespace else {}
    made = (manifest, profiler_service(manifest))
    return [{**each, "metadata": {**each["metadata"], **place}} for each in made]


def check_worker_account(api: Api, pod: Pod) -> None:
    """Check that the account is there as which pods run by default.

    The role qcnn-user may not look at accounts; whoever has it has the account too, which the same file makes.

    Raises:
        ConfigError: it is not.
    """
    if pod.service_account != WORKER_ACCOUNT:
        return
    try:
        found = api.get(SERVICE_ACCOUNTS, WORKER_ACCOUNT)
    except RefusedError as error:
        if error.status != FORBIDDEN:
            raise
        return
    if found is None:
        raise ConfigError(
            f"pod.service_account: namespace {api.namespace} has no account {WORKER_ACCOUNT}; `kubectl -n "
            f"{api.namespace} apply -f deploy/rbac.yaml` makes it, or --service-account names another one, such as "
            f"default. Given: {WORKER_ACCOUNT}"
        )


def submit(api: Api, manifest: Manifest) -> tuple[dict[str, Any], How]:
    """Return the TFJob of a manifest, which is created, or taken up where it runs or has succeeded.

    Raises:
        ConfigError: the cluster refuses it; one line that says why. What was created is deleted.
    """
    found, how = create_or_adopt(api, TFJOB, manifest)
    try:
        if how is not How.SUCCEEDED:
            api.apply(SERVICES, profiler_service(found))
    except ConfigError:
        if how is How.CREATED:
            abandon(api, TFJOB, found)
        raise
    return found, how


logger = logging.getLogger("qcnn")

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
        api = stack.enter_context(contextlib.closing(Api(namespace)))
        renewing = stack.enter_context(contextlib.closing(api.with_own_connections()))
        is_going = _watched(stack, api, own_pod)
        termination = stack.enter_context(Termination(renewing.limited_to(GRACE), name, is_going).installed())
        if retried:
            _check_fault(api, manifest)

        @contextlib.contextmanager
        def creating() -> Iterator[None]:
            if lease_seconds is not None:
                check_lease_right(api, status.service_account(manifest), name)
            with termination.creation.going_on():
                yield

        observer = _observer(stack, manifest)
        lives: Lives | None = None
        # What earlier launchers of the training have counted.
        before: int | None = None
        while True:
            running, how = create_or_adopt(api, TFJOB, manifest, creating)
            logger.info("TFJob %s %s", name, how.value)
            if how is How.SUCCEEDED:
                return
            before = status.restarts_before(running) if before is None else before
            processes = status.replicas(manifest)
            following = Following(api, TFJOB, running, processes, restarts, pending_seconds, lives, observer)
            try:
                _follow(api, renewing, running, following, lease_seconds)
                return
            except GivenUpError as error:
                lives = error.lives
                manifest = restarted(manifest, before + lives.restarts)
                logger.warning("%s; it is started again (%d of %d)", error, lives.restarts, restarts)


def _watched(stack: contextlib.ExitStack, api: Api, own_pod: str | None) -> Callable[[], bool]:
    """Return a function that tells whether the pod of this process is being taken away."""
    if not own_pod:
        return lambda: False
    pod = OwnPod(stack.enter_context(contextlib.closing(api.with_own_connections())), own_pod)
    return lambda: pod.is_going


def _observer(stack: contextlib.ExitStack, manifest: Manifest) -> Observer:
    """Serve metrics of a job where its processes do, on the same port; return what takes note of the job."""
    port = status.metrics_port(manifest)
    if port is None:
        return ignore
    # Only where it is asked for: the library takes a tenth of a second to load.
    from qcnn.jobs.launcher_metrics import LauncherMetrics

    metrics = LauncherMetrics(manifest["metadata"]["name"], status.STATES)
    stack.enter_context(metrics.served(port))
    return lambda job, restarts: metrics.see(status.state(job), restarts)


def _check_fault(api: Api, manifest: Manifest) -> None:
    """Refuse to train again what has failed by its own fault, and would fail again.

    Raises:
        TrainingError: the one with which it failed.
    """
    found = api.get(TFJOBS, manifest["metadata"]["name"])
    if not found or status.state(found) != "Failed":
        return
    processes, restarts = status.replicas(manifest), status.restarts(manifest)
    following = Following(api, TFJOB, found, processes, restarts, pending_seconds=float("inf"))
    try:
        following.run()
    except RetryableError:
        return
    except TrainingError:
        if following.exit_code != ABANDONED:
            raise


def _follow(api: Api, renewing: Api, running: dict[str, Any], following: Following, lease_seconds: int | None) -> None:
    """Follow a TFJob to its end, renewing its Lease; delete one that cannot be followed."""
    try:
        with contextlib.ExitStack() as stack:
            if lease_seconds is not None:
                renewal = Renewal(renewing, running, lease_seconds, following.fail)
                stack.callback(renewal.stop)
            api.apply(SERVICES, profiler_service(running))
            following.run()
    except ConfigError:
        ends = "" if lease_seconds is None else f"; its pods end {lease_seconds} s from now"
        abandon(api, TFJOB, running, ends)
        raise
