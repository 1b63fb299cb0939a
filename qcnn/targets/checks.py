"""Checks of a place to train: each returns what it found, or raises an error whose message names the remedy."""

import concurrent.futures
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from qcnn.errors import QcnnError, single_line

State = Literal["passed", "warning", "failed", "unknown"]


class DrawbackError(QcnnError):
    """Error of something that training does not need, such as faster kernels."""


class UnknownError(QcnnError):
    """Error of something that cannot be determined from here."""


@dataclasses.dataclass(frozen=True)
class Check:
    """A check of a place.

    Attributes:
        name: Its name.
        find: Returns what it found. Raises `QcnnError` if a training would fail.
        after: Name of an earlier check, without which this one cannot be done.
        seconds: Time limit, in addition to that of `after`.
    """

    name: str
    find: Callable[[], str]
    after: str = ""
    seconds: float = 30.0


@dataclasses.dataclass(frozen=True)
class Finding:
    """Result of a check: its state, and what was found, with what mends it if the check failed."""

    check: str
    state: State
    found: str


def run_checks(checks: Sequence[Check]) -> Iterator[Finding]:
    """Run checks side by side, and yield their findings in the order of the checks.

    A check without an answer within its time limit has failed. Its thread ends with the process.

    Args:
        checks: Checks, each behind the one that it comes after.

    >>> def find_kernels() -> str:
    ...     raise DrawbackError("kernels: not compiled")
    >>> for finding in run_checks([Check("Python", lambda: "3.13"), Check("kernels", find_kernels)]):
    ...     print(finding)
    Finding(check='Python', state='passed', found='3.13')
    Finding(check='kernels', state='warning', found='kernels: not compiled')
    """
    findings = {check.name: concurrent.futures.Future[Finding]() for check in checks}
    limits: dict[str, float] = {}
    start = time.monotonic()
    for check in checks:
        limits[check.name] = check.seconds + limits.get(check.after, 0.0)
        threading.Thread(target=_run, args=(check, findings), name=check.name, daemon=True).start()
    for check in checks:
        finding = findings[check.name]
        with contextlib.suppress(TimeoutError):
            finding.result(max(0.0, start + limits[check.name] - time.monotonic()))
        _settle(finding, Finding(check.name, "failed", f"no answer within {check.seconds:g} s"))
        yield finding.result()


def _run(check: Check, findings: dict[str, concurrent.futures.Future[Finding]]) -> None:
    before = findings[check.after].result() if check.after else None
    if before and before.state in ("failed", "unknown"):
        found = Finding(check.name, "unknown", f"needs the check {check.after}")
    else:
        found = _find(check)
    _settle(findings[check.name], found)


def _find(check: Check) -> Finding:
    try:
        return Finding(check.name, "passed", check.find())
    except DrawbackError as error:
        return Finding(check.name, "warning", str(error))
    except UnknownError as error:
        return Finding(check.name, "unknown", str(error))
    except QcnnError as error:
        return Finding(check.name, "failed", str(error))
    except Exception as error:
        # A library can raise any error, which must not end the other checks.
        return Finding(check.name, "failed", f"{type(error).__name__}: {single_line(error)}")


def _settle(finding: concurrent.futures.Future[Finding], found: Finding) -> None:
    with contextlib.suppress(concurrent.futures.InvalidStateError):
        finding.set_result(found)
