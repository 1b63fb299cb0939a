"""Program that runs a command in a pod and stops it when the Lease of its launcher is stale.

Every pod of a training job runs this program, so it imports no large libraries.
"""

import argparse
import dataclasses
import email.utils
import http.client
import json
import logging
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from qcnn.jobs.references import parse_time
from qcnn.monitoring import logs
from qcnn.process.exit_codes import ABANDONED, PERMANENT_ERROR
from qcnn.process.standard_streams import exit_with_message

# Role in deploy/rbac.yaml that permits reading Leases.
ROLE = "qcnn-worker"


def missing_right_message(account: str, namespace: str) -> str:
    """Return the error message for a service account that may not read Leases."""
    binding = (
        f"kubectl -n {namespace} create rolebinding {account}-{ROLE} --role {ROLE} "
        f"--serviceaccount {namespace}:{account}"
    )
    return (
        f"permission: the pods' service account must be allowed to read the Lease of their launcher; bind role {ROLE} "
        f"(deploy/rbac.yaml) to it: {binding}. Given: service account {account}"
    )


# Mounted credentials for the API server ("Accessing the Kubernetes API from a Pod").
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Number of reads of the Lease during its duration. The maximum interval is in seconds.
_READS = 10
_MAX_INTERVAL = 30.0
# A Lease must be stale in this number of reads in a row. After an outage of the API server, the launcher may renew it
# between the first read and the second one.
_STALE_READS = 2
# Maximum seconds until all API servers apply a new role binding.
_BINDING_SECONDS = 15.0
# Seconds between SIGTERM and SIGKILL for the command.
_GRACE = 5.0


@dataclasses.dataclass(frozen=True)
class _WatchEnd:
    """Reason to terminate the command, and exit code."""

    reason: str
    code: int


class LeaseUnreadableError(Exception):
    """Error if the Lease cannot be read."""


class LeaseRejectedError(LeaseUnreadableError):
    """Error if the pod's service account may not read the Lease."""


@dataclasses.dataclass(frozen=True)
class LeaseState:
    """Observed state of a Lease that is stale after `seconds` without a renewal.

    `stale_reads` is the number of stale reads in a row. `was_read` is True if the Lease was ever read. `reason` is the
    error of the last read, or empty.
    """

    seconds: float
    stale_reads: int = 0
    was_read: bool = False
    reason: str = ""

    def observe(self, age: float) -> "LeaseState":
        """Return the state after a read with the last renewal `age` seconds ago."""
        return LeaseState(self.seconds, self._next_stale_reads(age), was_read=True)

    def mark_unreadable(self, reason: str, watched_for: float) -> "LeaseState":
        """Return the state after a read that failed.

        A failed read counts as stale only if all earlier reads failed as well: the API server may be unavailable for a
        time.

        Args:
            reason: Error of the read.
            watched_for: Seconds since the watch began.
        """
        age = 0.0 if self.was_read else watched_for
        return dataclasses.replace(self, stale_reads=self._next_stale_reads(age), reason=reason)

    @property
    def is_expired(self) -> bool:
        """Whether the launcher has stopped renewing the Lease."""
        return self.stale_reads >= _STALE_READS

    def _next_stale_reads(self, age: float) -> int:
        return self.stale_reads + 1 if age > self.seconds else 0


def main() -> None:
    """Run a command until it exits or its Lease is stale, and exit with its exit code."""
    parser = argparse.ArgumentParser(description="Run a command while a launcher renews its Lease.")
    parser.add_argument("--lease", required=True, help="Name of the Lease in the namespace of this pod.")
    parser.add_argument("--account", required=True, help="Service account of this pod.")
    parser.add_argument(
        "--seconds", required=True, type=float, help="Seconds without a renewal after which the command is terminated."
    )
    parser.add_argument("command", nargs="+", help="Command to run.")
    arguments = parser.parse_args()
    try:
        # With one stream, the last line of the log is the last printed line.
        process = subprocess.Popen(arguments.command, stderr=subprocess.STDOUT)
    except OSError as error:
        exit_with_message(
            f"error: command: cannot be run ({error.strerror}). Given: {arguments.command[0]}", PERMANENT_ERROR
        )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: process.send_signal(received))
    ends: list[_WatchEnd] = []

    def watch() -> None:
        _check_right(arguments.lease, arguments.account, process, ends.append)
        _watch(arguments.lease, arguments.seconds, process, ends.append)

    threading.Thread(target=watch, name="lease", daemon=True).start()
    code = process.wait()
    if ends:
        exit_with_message(f"error: {ends[0].reason}", ends[0].code)
    sys.exit(code if code >= 0 else 128 - code)


def _check_right(
    lease: str, account: str, process: "subprocess.Popen[bytes]", on_end: Callable[[_WatchEnd], None]
) -> None:
    """Terminate a process at once if its pod may not read the Lease, with `on_end` called before."""
    end = time.monotonic() + _BINDING_SECONDS
    while True:
        try:
            seconds_since_renewal(lease)
            return
        except LeaseRejectedError:
            if time.monotonic() > end:
                break
        except LeaseUnreadableError:
            # The launcher may not have created the Lease yet.
            return
        time.sleep(1)
    on_end(_WatchEnd(missing_right_message(account, _namespace()), PERMANENT_ERROR))
    _stop(process)


def _watch(lease: str, seconds: float, process: "subprocess.Popen[bytes]", on_end: Callable[[_WatchEnd], None]) -> None:
    """Terminate a process when the Lease is stale, with `on_end` called before."""
    began, state, warned = time.monotonic(), LeaseState(seconds), False
    while not state.is_expired:
        time.sleep(min(seconds / _READS, _MAX_INTERVAL))
        try:
            state = state.observe(seconds_since_renewal(lease))
        except LeaseUnreadableError as error:
            state = state.mark_unreadable(str(error), time.monotonic() - began)
            if state.was_read and not warned and isinstance(error, LeaseRejectedError):
                warning = f"warning: the pod can no longer read the Lease of its launcher: {error}"
                sys.stderr.write(f"{logs.format_message(warning, logging.WARNING)}\n")
                warned = True
    details = f" ({state.reason})" if state.reason else ""
    reason = f"the launcher has not renewed its Lease for {seconds:g} s{details}"
    on_end(_WatchEnd(f"{reason}; resubmit to resume from the last checkpoint. Given: lease {lease}", ABANDONED))
    _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


def seconds_since_renewal(lease: str) -> float:
    """Return the seconds since the last renewal of a Lease, by the API server's clock.

    Raises:
        LeaseUnreadableError: If the Lease cannot be read.
    """
    # The client library would take 50 MB and 1 s in each pod.
    try:
        connection = http.client.HTTPSConnection(
            os.environ["KUBERNETES_SERVICE_HOST"],
            int(os.environ["KUBERNETES_SERVICE_PORT"]),
            timeout=10,
            context=ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt")),
        )
        connection.request(
            "GET",
            f"/apis/coordination.k8s.io/v1/namespaces/{_namespace()}/leases/{lease}",
            headers={"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text()}"},
        )
        response = connection.getresponse()
        body = json.loads(response.read())
        if response.status == http.client.FORBIDDEN:
            raise LeaseRejectedError(body.get("message", response.reason))
        if response.status != http.client.OK:
            raise LeaseUnreadableError(body.get("message", response.reason))
        renewed = parse_time(body["spec"]["renewTime"])
        now = email.utils.parsedate_to_datetime(response.headers["Date"])
        return (now - renewed).total_seconds()
    except (OSError, KeyError, ValueError, http.client.HTTPException) as error:
        raise LeaseUnreadableError(f"{type(error).__name__}: {error}") from None


def _namespace() -> str:
    return (_ACCOUNT / "namespace").read_text()


if __name__ == "__main__":
    main()
