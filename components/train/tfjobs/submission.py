"""A TFJob that needs no launcher: it is created, and left to itself."""

from typing import Any

from components.train.job import Job
from components.train.tfjobs.adoption import How, abandon, create_or_adopt
from components.train.tfjobs.api import SERVICES, Api
from components.train.tfjobs.identity import Identity
from components.train.tfjobs.kinds import TFJOB
from components.train.tfjobs.manifest import Policy, profiler_service, tfjob
from trainer.errors import ConfigError


def submit(api: Api, job: Job, identity: Identity, policy: Policy) -> tuple[dict[str, Any], How]:
    """Return the TFJob of a training, which is created, or taken up where it runs or has succeeded.

    Raises:
        ConfigError: the cluster refuses it; one line that says why. Nothing that was created stays.
    """
    found, how = create_or_adopt(api, TFJOB, tfjob(job, identity, policy))
    try:
        if how is not How.SUCCEEDED:
            api.apply(SERVICES, profiler_service(found))
    except ConfigError:
        if how is How.CREATED:
            abandon(api, TFJOB, found)
        raise
    return found, how
