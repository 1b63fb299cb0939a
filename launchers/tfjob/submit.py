"""Create a TFJob that needs no launcher, or say what would be created."""

from typing import Any

from launchers.kubernetes.api import SERVICES, Api
from launchers.kubernetes.create_or_adopt import How, abandon, create_or_adopt
from launchers.tfjob.kind import TFJOB
from launchers.tfjob.manifest import Manifest, profiler_service
from trainer.errors import ConfigError


def applied(manifest: Manifest, namespace: str | None) -> list[Manifest]:
    """Return what `submit` creates, for others to apply, in that order; without a namespace, in whatever is theirs.

    The Service belongs to the TFJob only once `submit` has taken that up: by then it is known by its uid.
    """
    place = {"namespace": namespace} if namespace else {}
    made = (manifest, profiler_service(manifest))
    return [{**each, "metadata": {**each["metadata"], **place}} for each in made]


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
