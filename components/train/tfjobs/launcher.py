"""Run a training job as a TFJob and follow it to its end; run again, take up what is there. Never two of one."""

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from components.train.job import Job
from components.train.tfjobs.api import SERVICES, TFJOBS, Api
from components.train.tfjobs.following import Following
from components.train.tfjobs.manifest import HASH_ANNOTATION, Identity, Policy, condition, profiler_service, tfjob
from components.train.tfjobs.renewal import Renewal
from components.train.tfjobs.termination import GRACE, Termination
from trainer.errors import ConfigError, QcnnError

logger = logging.getLogger("trainer")

PENDING_SECONDS = 600.0


def launch(
    job: Job,
    identity: Identity,
    namespace: str,
    policy: Policy | None = None,
    *,
    owner: Mapping[str, str] | None = None,
    pending_seconds: float = PENDING_SECONDS,
) -> None:
    """Train as a TFJob and return when it has succeeded, at once if it already has.

    What runs is adopted, what failed is replaced. A job whose processes cannot start for `pending_seconds` is
    deleted, as is one that cannot be followed; one that failed is left, to be looked at.

    Raises:
        ConfigError: the cluster refuses the job, or cannot start it; one line that says why.
        TrainingError: a process failed by its own fault; its last lines have been shown.
        RetryableError: processes were lost more often than `job.restarts`, the job was deleted by somebody else, or
            the API server does not answer any more.
    """
    policy = policy or Policy()
    manifest = tfjob(job, identity, policy, owner)
    name = manifest["metadata"]["name"]
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(contextlib.closing(Api(namespace)))
        urgent = stack.enter_context(contextlib.closing(Api(namespace, patience=GRACE)))
        termination = stack.enter_context(Termination(urgent, name).installed())
        running = _create_or_adopt(api, manifest, termination)
        if running is None:
            logger.info("TFJob %s has already succeeded", name)
            return
        following = Following(api, running, job, pending_seconds)
        try:
            if policy.switch_seconds is not None:
                renewal = Renewal(urgent, running, policy.switch_seconds, following.fail)
                stack.callback(renewal.stop)
            api.apply(SERVICES, profiler_service(running))
            following.run()
        except ConfigError:
            # Nobody would follow it; what was wrong counts more than that it cannot be deleted either.
            with contextlib.suppress(QcnnError):
                api.delete(TFJOBS, name, uid=running["metadata"]["uid"])
            raise


def _create_or_adopt(api: Api, manifest: dict[str, Any], termination: Termination) -> dict[str, Any] | None:
    """Return the TFJob that runs, None if it has succeeded.

    Raises:
        ConfigError: a job of this name was made from something else.
    """
    name = manifest["metadata"]["name"]
    while True:
        found = api.get(TFJOBS, name)
        if found is None:
            with termination.creating():
                found = api.create(TFJOBS, manifest)
            if found is None:
                # Another launcher was faster.
                continue
            logger.info("TFJob %s is created", name)
            return found
        digest = found["metadata"].get("annotations", {}).get(HASH_ANNOTATION)
        if digest != manifest["metadata"]["annotations"][HASH_ANNOTATION]:
            raise ConfigError(f"TFJob: one of this name was made from another description. Given: {name}")
        if "deletionTimestamp" in found["metadata"] or condition(found, "Failed"):
            logger.info("TFJob %s has failed or is being deleted; it is replaced", name)
            _replace(api, found)
        elif condition(found, "Succeeded"):
            return None
        else:
            logger.info("TFJob %s is adopted", name)
            return found


def _replace(api: Api, found: dict[str, Any]) -> None:
    """Delete a TFJob and wait until it is gone with its pods, whose names the next one needs."""
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    if "deletionTimestamp" not in found["metadata"]:
        api.delete(TFJOBS, name, uid=uid, dependents_first=True)
    with contextlib.closing(api.watch(TFJOBS, fieldSelector=f"metadata.name={name}")) as watch:
        next(jobs for jobs in watch if name not in jobs or jobs[name]["metadata"]["uid"] != uid)
