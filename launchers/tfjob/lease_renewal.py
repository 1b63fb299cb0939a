"""The launcher's half of the dead man's switch: a Lease that is renewed while the launcher lives."""

import logging
import platform
import threading
from collections.abc import Callable
from typing import Any

from launchers.kubernetes.api import LEASES, Api
from launchers.tfjob.manifest import lease
from trainer.errors import RetryableError

logger = logging.getLogger("qcnn")

# The Lease is renewed this many times in the time after which it is stale, but at least every so many seconds, which
# also keeps the connection open on which a launcher that is told to end deletes its job.
_RENEWALS = 10
_LONGEST = 30.0


class Renewal:
    """Renews the Lease of a TFJob (as the API returns it) until it is stopped.

    The first time it does so at once, and raises what `Api` does. Later a server that cannot be reached is asked
    again; what it refuses is given to `on_error`.
    """

    def __init__(self, api: Api, job: dict[str, Any], seconds: int, on_error: Callable[[Exception], None]) -> None:
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
        while not self._stopped.wait(min(self._seconds / _RENEWALS, _LONGEST)):
            try:
                self._renew()
            except RetryableError:
                continue
            except Exception as error:  # Whatever it is: without this thread, the workers would end the job.
                self._on_error(error)
                return

    def _renew(self) -> None:
        renewed = self._api.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._api.apply(LEASES, lease(self._job, platform.node(), self._seconds, renewed))
