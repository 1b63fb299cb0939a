"""Create a TFJob that needs no launcher, or say what would be created."""

from typing import Any

from qcnn.jobs.kubernetes.api import SERVICE_ACCOUNTS, SERVICES, Api
from qcnn.jobs.kubernetes.create_or_adopt import How, abandon, create_or_adopt
from qcnn.jobs.kubernetes.refusals import FORBIDDEN, RefusedError
from qcnn.jobs.pod import WORKER_ACCOUNT, Pod
from qcnn.jobs.tfjob.kind import TFJOB
from qcnn.jobs.tfjob.manifest import Manifest, profiler_service
from qcnn.trainer.errors import ConfigError


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
