"""Renewal of the Lease of a training job by its launcher, and the check that pods may read the Lease."""

import logging
import platform
import threading
from collections.abc import Callable
from typing import Any

from qcnn.errors import ConfigError, RetryableError
from qcnn.jobs.kubernetes import lease_watch
from qcnn.jobs.kubernetes.access import is_allowed
from qcnn.jobs.kubernetes.api import LEASES, NamespaceClient
from qcnn.jobs.kubernetes.retry import RequestRejectedError
from qcnn.jobs.kubernetes.service_accounts import check_account_exists
from qcnn.jobs.kubernetes.training_manifest import lease
from qcnn.jobs.references import micro_time

logger = logging.getLogger("qcnn")

# The Lease is renewed this many times before it would be stale, and at least every `_MAX_INTERVAL` seconds. That keeps
# the connection open on which a launcher deletes its job at SIGTERM.
_RENEWALS = 10
_MAX_INTERVAL = 30.0


class LeaseRenewer:
    """Renews the Lease of a training job (as the API returns it) until it is stopped.

    The first renewal is immediate and raises the errors of `NamespaceClient`. Later requests are retried if the server
    is unreachable; other errors are passed to `on_error`.
    """

    def __init__(
        self, api: NamespaceClient, job: dict[str, Any], seconds: int, on_error: Callable[[Exception], None]
    ) -> None:
        self._api = api
        self._job = job
        self._seconds = seconds
        self._on_error = on_error
        self._stopped = threading.Event()
        self._renew()
        threading.Thread(target=self._run, name="lease", daemon=True).start()

    def stop(self) -> None:
        """Let the Lease become stale."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(min(self._seconds / _RENEWALS, _MAX_INTERVAL)):
            try:
                self._renew()
            except RetryableError:
                continue
            except Exception as error:  # Any error: without this thread, the workers would end the job.
                self._on_error(error)
                return

    def _renew(self) -> None:
        renewed = micro_time(self._api.now())
        self._api.apply(LEASES, lease(self._job, platform.node(), self._seconds, renewed))


def check_lease_right(api: NamespaceClient, account: str, lease: str) -> None:
    """Check that the pods' service account exists and may read the Lease of their launcher.

    If the launcher may not create access reviews, nothing is checked.

    Args:
        api: Client for the namespace of the pods.
        account: Name of the service account.
        lease: Name of the Lease.

    Raises:
        ConfigError: If the account does not exist, or may not read the Lease. The message contains the command that
            creates the account or the missing role binding.
    """
    try:
        allowed = is_allowed(api, "get", "coordination.k8s.io", "leases", name=lease, account=account)
    except RequestRejectedError:
        return
    if not allowed:
        # The review is the same for an account that does not exist, for which a role binding would not help.
        check_account_exists(api, account)
        raise ConfigError(lease_watch.missing_right_message(account, api.namespace))
