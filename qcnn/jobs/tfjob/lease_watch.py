"""The right of a training's pods to read their Lease, and how they get it; imports nothing heavy."""

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
from qcnn.startup import ABANDONED, OWN_FAULT, end_now

# In deploy/rbac.yaml.
ROLE = "qcnn-worker"


def missing_right_message(account: str, namespace: str) -> str:
    """Return one line: a service account may not read Leases, and what gives it the right."""
    binding = (
        f"kubectl -n {namespace} create rolebinding {account}-{ROLE} --role {ROLE} "
        f"--serviceaccount {namespace}:{account}"
    )
    return (
        f"permission: the pods' service account may not read the Lease by which they see that their launcher is there; "
        f"bind role {ROLE} (deploy/rbac.yaml) to it: {binding}. Given: service account {account}"
    )


# Where Kubernetes mounts what a pod needs to reach the API server ("Accessing the Kubernetes API from a Pod").
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The Lease is looked at this many times before it can be stale, and at least every `_MAX_INTERVAL` seconds.
_CHECKS = 10
_MAX_INTERVAL = 30.0
# A Lease counts only when it was stale at two looks: after a pause of the API server, its launcher may yet renew it.
_STALE_CHECKS = 2
# A right may take this long until every API server knows it, in seconds.
_RIGHTS_SECONDS = 15.0
# The command is killed this long after it was told to end, in seconds.
_GRACE = 5.0


@dataclasses.dataclass(frozen=True)
class _Termination:
    """Why the command is ended, and with which exit code."""

    reason: str
    code: int


class LeaseUnreadableError(Exception):
    """The Lease cannot be read; the message says why."""


class LeaseRejectedError(LeaseUnreadableError):
    """The pod may not read it."""


@dataclasses.dataclass(frozen=True)
class LeaseState:
    """What was seen of a Lease that is stale after `seconds` without a renewal.

    `stale` is the number of last looks in a row at which it was. `is_known`: whether it could ever be read. `reason`
    is why it could not be at the last look.
    """

    seconds: float
    stale: int = 0
    is_known: bool = False
    reason: str = ""

    def observe(self, age: float) -> "LeaseState":
        """Return what is known once a renewal so many seconds ago was seen."""
        return LeaseState(self.seconds, self._counted(age), is_known=True)

    def mark_unreadable(self, reason: str, watched_for: float) -> "LeaseState":
        """Return what is known once it could not be read, so many seconds after the watch began.

        An unreachable API server proves nothing; one that could never be reached does.
        """
        age = 0.0 if self.is_known else watched_for
        return dataclasses.replace(self, stale=self._counted(age), reason=reason)

    @property
    def is_over(self) -> bool:
        """Whether its launcher counts as gone."""
        return self.stale >= _STALE_CHECKS

    def _counted(self, age: float) -> int:
        return self.stale + 1 if age > self.seconds else 0


def main() -> None:
    """Run a command until it ends or its launcher is gone; end with its exit code."""
    parser = argparse.ArgumentParser(description="Runs a command while a Lease is renewed.")
    parser.add_argument("--lease", required=True, help="name of the Lease, in the namespace of this pod")
    parser.add_argument("--account", required=True, help="service account of this pod")
    parser.add_argument("--seconds", required=True, type=float, help="time without a renewal that ends the command")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    try:
        # One stream, so that the last line of the log is the last one that was printed.
        process = subprocess.Popen(arguments.command, stderr=subprocess.STDOUT)
    except OSError as error:
        end_now(f"error: command: cannot be run ({error.strerror}). Given: {arguments.command[0]}", OWN_FAULT)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: process.send_signal(received))
    ends: list[_Termination] = []

    def watch() -> None:
        _check_right(arguments.lease, arguments.account, process, ends.append)
        _watch(arguments.lease, arguments.seconds, process, ends.append)

    threading.Thread(target=watch, name="lease", daemon=True).start()
    code = process.wait()
    if ends:
        end_now(f"error: {ends[0].reason}", ends[0].code)
    sys.exit(code if code >= 0 else 128 - code)


def _check_right(
    lease: str, account: str, process: "subprocess.Popen[bytes]", on_end: Callable[[_Termination], None]
) -> None:
    """End a process whose Lease may not be read, without waiting until that counts as stale."""
    end = time.monotonic() + _RIGHTS_SECONDS
    while True:
        try:
            seconds_since_renewal(lease)
            return
        except LeaseRejectedError:
            if time.monotonic() > end:
                break
        except LeaseUnreadableError:
            # The Lease may not have been created yet.
            return
        time.sleep(1)
    on_end(_Termination(missing_right_message(account, _namespace()), OWN_FAULT))
    _stop(process)


def _watch(
    lease: str, seconds: float, process: "subprocess.Popen[bytes]", on_end: Callable[[_Termination], None]
) -> None:
    """End a process when the Lease is stale; `on_end` is told why before."""
    began, watched, warned = time.monotonic(), LeaseState(seconds), False
    while not watched.is_over:
        time.sleep(min(seconds / _CHECKS, _MAX_INTERVAL))
        try:
            watched = watched.observe(seconds_since_renewal(lease))
        except LeaseUnreadableError as error:
            watched = watched.mark_unreadable(str(error), time.monotonic() - began)
            if watched.is_known and not warned and isinstance(error, LeaseRejectedError):
                warning = f"warning: the training would not end with its launcher any more: {error}"
                sys.stderr.write(f"{logs.format_message(warning, logging.WARNING)}\n")
                warned = True
    reason = f" ({watched.reason})" if watched.reason else ""
    why = f"the launcher has not renewed its lease for {seconds:g} s{reason}; the last checkpoint counts"
    on_end(_Termination(f"{why}. Given: lease {lease}", ABANDONED))
    _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


def seconds_since_renewal(lease: str) -> float:
    """Return how long ago a Lease was renewed, by the API server's clock.

    Raises:
        UnknownError: it cannot be read.
    """
    # The client library would cost each pod 50 MB and a second.
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
