"""Waiting for runs and jobs, with reports of their state changes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from qcnn.targets.base import JobStatus, PartStatus
from qcnn.targets.errors import StepError, UnavailableError

# Seconds between status requests, and seconds for which the service may be unreachable.
INTERVAL = 2.0
_PATIENCE = 600.0
# A service may store the last states of steps after the state of the run: number of further requests.
_LATE = 5
UNFINISHED = frozenset({"pending", "running"})

R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class RunSnapshot(Generic[R]):
    """State of a run and its parts at one time.

    `is_late`: whether the service has not yet stored the last state of a part of an ended run.
    """

    run: R
    state: str
    has_ended: bool
    parts: Sequence[PartStatus] = ()
    is_late: bool = False


def wait_for_run(
    look: Callable[[], RunSnapshot[R] | None], report: Callable[[str], None], timeout: float | None = None
) -> RunSnapshot[R]:
    """Wait until a run has ended, and return its last state. Unavailable services are retried.

    The last line is the final state of the run.

    Args:
        look: Function that requests the current state. It returns None if there was no answer.
        report: Callback for changes in the states of the run and its parts, with the first reason of a state.
        timeout: Timeout in seconds, after which the current state is returned. None: no limit.

    Raises:
        UnavailableError: If the service has not responded for ten minutes, or until the timeout.
    """
    shown: dict[str, PartStatus] = {}
    late = 0
    answered = time.monotonic()
    end = answered + (float("inf") if timeout is None else timeout)
    while True:
        try:
            current_run = look()
        except UnavailableError:
            if time.monotonic() - answered > _PATIENCE or time.monotonic() >= end:
                raise
            current_run = None
        if current_run:
            answered = time.monotonic()
            late += current_run.has_ended
            is_over = current_run.has_ended and (late > _LATE or not current_run.is_late)
            parts = [*current_run.parts]
            if is_over or not current_run.has_ended:
                parts.append(PartStatus("run", current_run.state.lower()))
            for part in parts:
                if _is_news(part, shown.get(part.name)):
                    report(f"{part.name}: {part.state}{f' ({part.reason})' if part.reason else ''}")
                    shown[part.name] = part
            if is_over or (not current_run.has_ended and time.monotonic() >= end):
                return current_run
        left = end - time.monotonic()
        time.sleep(min(INTERVAL, left) if left > 0 else INTERVAL)


def _is_news(part: PartStatus, shown: PartStatus | None) -> bool:
    """Return whether a part has another state than the reported one, or the first reason of the state.

    Later reasons are not reported, because a failed image pull alternates between two.
    """
    if shown is None or part.state != shown.state:
        return True
    return bool(part.reason) and not shown.reason


def number_parts(parts: Sequence[PartStatus]) -> list[PartStatus]:
    """Return parts with different names. Repeated steps of a loop get a number after their name."""
    numbered = number_repeated((part.name, part) for part in parts)
    return [dataclasses.replace(part, name=name) for name, part in numbered.items()]


def number_repeated(steps: Iterable[tuple[str, R]]) -> dict[str, R]:
    """Return steps by name. Repeated steps of a loop get a number after their name."""
    counts: dict[str, int] = {}
    found: dict[str, R] = {}
    for name, value in steps:
        counts[name] = number = counts.get(name, 0) + 1
        found[name if number == 1 else f"{name} {number}"] = value
    return found


def wait(look: Callable[[], JobStatus], report: Callable[[str], None], timeout: float | None = None) -> JobStatus:
    """Wait until a job has ended, and return its last status.

    Args:
        look: Function that requests the current status.
        report: Callback for state changes of the job and its parts.
        timeout: Timeout in seconds. None: no limit.

    Raises:
        TimeoutError: If the job has not ended in time.
        UnavailableError: If the target has not responded for ten minutes.
    """

    def snapshot() -> RunSnapshot[JobStatus]:
        status = look()
        return RunSnapshot(status, status.state, status.has_ended, status.parts)

    return check_ended(wait_for_run(snapshot, report, timeout).run, timeout)


def check_ended(status: JobStatus, timeout: float | None) -> JobStatus:
    """Return the status of a job that has ended.

    Raises:
        TimeoutError: If it has not ended.
    """
    if not status.has_ended:
        raise TimeoutError(f"{status.job} has not ended within {timeout:g} s: it is {status.state}")
    return status


def check_succeeded(ended: JobStatus, kind: str) -> None:
    """Raise StepError if a finished job has not succeeded.

    Raises:
        StepError: If the job failed or was canceled.
    """
    if not ended.has_succeeded:
        raise StepError(f"{kind}: it ended {ended.state}{because(ended)}. Given: {ended.job}")


def run_error(run: str, state: str, parts: Sequence[PartStatus], message: str, no_reason: str = "") -> StepError:
    """Return the error of a run that has not succeeded, with its failed steps and the first reason.

    Args:
        run: ID of the run.
        state: Last state of the run.
        parts: Its steps.
        message: Reason if no step has one.
        no_reason: Text after the names of failed steps without a reason.
    """
    failed = [part for part in parts if part.state == "failed"]
    reason = next((part.reason for part in failed if part.reason), message)
    what = f"step {', '.join(part.name for part in failed)} failed" if failed else f"it ended {state.lower()}"
    hint = no_reason if failed else ""
    return StepError(f"run: {what}{f' ({reason})' if reason else hint}. Given: {run}")


def because(status: JobStatus) -> str:
    """Return the reason why a job ended, in parentheses, or empty if it is unknown."""
    # Other parts may have reasons too, for example why they did not start.
    parts = sorted((part for part in status.parts if part.reason), key=lambda part: part.state != "failed")
    reasons = [status.message, *(f"{part.name}: {part.reason}" for part in parts)]
    return next((f" ({reason})" for reason in reasons if reason), "")
