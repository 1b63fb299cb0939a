"""Run a training job as a TFJob and follow it to its end; run again, take up what is there. Never two of one."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launchers.job import Job
from launchers.kubernetes.api import SERVICES, TFJOBS, Api
from launchers.kubernetes.create_or_adopt import How, abandon, create_or_adopt
from launchers.kubernetes.follow import Following, GivenUpError
from launchers.kubernetes.identity import Identity
from launchers.kubernetes.kinds import TFJOB
from launchers.kubernetes.lives import Lives
from launchers.kubernetes.reviews import check_lease_right
from launchers.tfjob.eviction import OwnPod
from launchers.tfjob.lease_renewal import Renewal
from launchers.tfjob.manifest import Policy, condition, pod_of, profiler_service, tfjob
from launchers.tfjob.termination import GRACE, Termination
from trainer.errors import ConfigError, RetryableError, TrainingError
from trainer.startup import ABANDONED

logger = logging.getLogger("qcnn")

PENDING_SECONDS = 600.0


def launch(
    job: Job,
    identity: Identity,
    namespace: str,
    policy: Policy | None = None,
    *,
    owner: Mapping[str, str] | None = None,
    own_pod: str | None = None,
    retried: bool = False,
    pending_seconds: float = PENDING_SECONDS,
) -> None:
    """Train as a TFJob and return when it has succeeded, at once if it already has.

    What runs is adopted, what failed is replaced, also where the operator gave it up for a process that was lost. A job
    whose processes cannot start for `pending_seconds` is deleted, as is one that cannot be followed; one that failed is
    left, to be looked at. Where nobody asked for this launch, a backend having `retried` by itself, one that failed by
    its own fault is not replaced. A launcher that is told to end deletes its job, unless its `own_pod` is evicted.

    Raises:
        ConfigError: the cluster refuses the job, or cannot start it; one line that says why.
        TrainingError: a process failed by its own fault; its last lines have been shown.
        RetryableError: processes were lost more often than `job.restarts`, the job was deleted by somebody else, or
            the API server does not answer any more.
    """
    policy = policy or Policy()
    manifest, account = tfjob(job, identity, policy, owner), pod_of(job).service_account
    name = manifest["metadata"]["name"]
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(contextlib.closing(Api(namespace)))
        renewing = stack.enter_context(contextlib.closing(api.apart()))
        is_going = _watched(stack, api, own_pod)
        termination = stack.enter_context(Termination(renewing.within(GRACE), name, is_going).installed())
        if retried:
            _check_fault(api, job, name)

        @contextlib.contextmanager
        def creating() -> Iterator[None]:
            if policy.switch_seconds is not None:
                check_lease_right(api, account, name)
            with termination.creating():
                yield

        lives: Lives | None = None
        while True:
            running, how = create_or_adopt(api, TFJOB, manifest, creating)
            logger.info("TFJob %s %s", name, how.value)
            if how is How.SUCCEEDED:
                return
            following = Following(api, TFJOB, running, job.processes(), job.restarts, pending_seconds, lives)
            try:
                _follow(api, renewing, running, following, policy)
                return
            except GivenUpError as error:
                lives = error.lives
                logger.warning("%s; it is started again (%d of %d)", error, lives.restarts, job.restarts)


def _watched(stack: contextlib.ExitStack, api: Api, own_pod: str | None) -> Callable[[], bool]:
    """Return what tells whether the pod of this process is being taken away."""
    if not own_pod:
        return lambda: False
    pod = OwnPod(stack.enter_context(contextlib.closing(api.apart())), own_pod)
    return lambda: pod.is_going


def _check_fault(api: Api, job: Job, name: str) -> None:
    """Refuse to train again what has failed by its own fault, and would again.

    Raises:
        TrainingError: as when it failed.
    """
    found = api.get(TFJOBS, name)
    if not found or "deletionTimestamp" in found["metadata"] or not condition(found, "Failed"):
        return
    following = Following(api, TFJOB, found, job.processes(), job.restarts, pending_seconds=float("inf"))
    try:
        following.run()
    except RetryableError:
        return
    except TrainingError:
        if following.exit_code != ABANDONED:
            raise


def _follow(api: Api, renewing: Api, running: dict[str, Any], following: Following, policy: Policy) -> None:
    """Follow a TFJob to its end, as its launcher; delete one that cannot be followed."""
    try:
        with contextlib.ExitStack() as stack:
            if policy.switch_seconds is not None:
                renewal = Renewal(renewing, running, policy.switch_seconds, following.fail)
                stack.callback(renewal.stop)
            api.apply(SERVICES, profiler_service(running))
            following.run()
    except ConfigError:
        ends = "" if policy.switch_seconds is None else f"; its pods end {policy.switch_seconds} s from now"
        abandon(api, TFJOB, running, ends)
        raise
