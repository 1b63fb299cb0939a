"""Waiting for runs and jobs, with reports of their state changes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from qcnn.errors import TrainingError
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
    look: Callable[[], RunSnapshot[R] | None], report: Callable[[str], None], seconds: float = float("inf")
) -> RunSnapshot[R]:
    """Wait until a run has ended, and return its last state. Unavailable services are retried.

    The last line is the final state of the run.

    Args:
        look: Function that requests the current state. It returns None if there was no answer.
        report: Callback for changes in the states of the run and its parts, with the first reason of a state.
        seconds: Timeout, after which the current state is returned.

    Raises:
        UnavailableError: If the service has not responded for ten minutes.
    """
    shown: dict[str, PartStatus] = {}
    late = 0
    answered = time.monotonic()
    end = answered + seconds
    while True:
        try:
            current_run = look()
        except UnavailableError:
            if time.monotonic() - answered > _PATIENCE:
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
        time.sleep(INTERVAL)


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


def number_repeated(steps: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return steps by name. Repeated steps of a loop get a number after their name."""
    counts: dict[str, int] = {}
    found: dict[str, Any] = {}
    for name, value in steps:
        counts[name] = number = counts.get(name, 0) + 1
        found[name if number == 1 else f"{name} {number}"] = value
    return found


def wait(look: Callable[[], JobStatus], report: Callable[[str], None], kind: str) -> JobStatus:
    """Wait until a job has succeeded, and return its last state.

    Args:
        look: Function that requests the current state.
        report: Callback for state changes of the job and its parts.
        kind: Type of the job, for messages.

    Raises:
        StepError: If the job failed.
        UnavailableError: If the target has not responded for ten minutes.
    """

    def snapshot() -> RunSnapshot[JobStatus]:
        status = look()
        return RunSnapshot(status, status.state, status.has_ended, status.parts)

    ended = wait_for_run(snapshot, report).run
    check_succeeded(ended, kind)
    return ended


def check_succeeded(ended: JobStatus, kind: str) -> None:
    """Raise StepError if a finished job has not succeeded.

    Raises:
        StepError: If the job failed or was canceled.
    """
    if not ended.has_succeeded:
        raise StepError(f"{kind}: it ended {ended.state}{because(ended)}. Given: {ended.job}")


def wait_quietly(look: Callable[[], JobStatus], timeout: float | None) -> JobStatus:
    """Wait until a job has succeeded, and return its last state.

    Args:
        look: Function that requests the current state.
        timeout: Timeout in seconds. None: no limit.

    Raises:
        TrainingError: If the job failed or was canceled.
        TimeoutError: If the job has not ended in time.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while not (status := look()).has_ended:
        left = INTERVAL if end is None else min(INTERVAL, end - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"{status.job} has not ended within {timeout:g} s: it is {status.state}")
        time.sleep(left)
    if not status.has_succeeded:
        raise TrainingError(f"job: it ended {status.state}{because(status)}. Given: {status.job}")
    return status


def because(status: JobStatus) -> str:
    """Return the reason why a job ended, in parentheses, or empty if it is unknown."""
    # Other parts may have reasons too, for example why they did not start.
    parts = sorted((part for part in status.parts if part.reason), key=lambda part: part.state != "failed")
    reasons = [status.message, *(f"{part.name}: {part.reason}" for part in parts)]
    return next((f" ({reason})" for reason in reasons if reason), "")
