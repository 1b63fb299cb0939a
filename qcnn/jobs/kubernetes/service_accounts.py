"""Check that the service account of pods exists."""

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.api import SERVICE_ACCOUNTS, NamespaceClient
from qcnn.jobs.kubernetes.retry import FORBIDDEN, RequestRejectedError
from qcnn.jobs.pod_settings import SERVER_ACCOUNT, WORKER_ACCOUNT

# Kubernetes creates it in every namespace, after the namespace.
_DEFAULT = "default"
# The manifest creates these accounts with their roles.
_MANAGED = (WORKER_ACCOUNT, SERVER_ACCOUNT)


def check_account_exists(api: NamespaceClient, account: str) -> None:
    """Check that a service account exists, because the operator cannot create pods with a missing one.

    Nothing is checked if this client may not read service accounts. This applies to role qcnn-user.

    Raises:
        ConfigError: If the account does not exist. The message contains the command that creates it.
    """
    try:
        found = api.get(SERVICE_ACCOUNTS, account)
    except RequestRejectedError as error:
        if error.status != FORBIDDEN:
            raise
        return
    if found is None and account != _DEFAULT:
        created = "apply -f deploy/rbac.yaml" if account in _MANAGED else f"create serviceaccount {account}"
        raise ConfigError(
            f"pod.service_account: must exist in namespace {api.namespace}; create it with `kubectl -n {api.namespace} "
            f"{created}`, or name another account. Given: {account}"
        )
