"""Waiting for runs and jobs, with reports of their state changes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from qcnn.errors import TrainingError
from qcnn.targets.base import JobStatus
from qcnn.targets.errors import StepError, UnavailableError

# Seconds between status requests, and seconds for which the service may be unreachable.
INTERVAL = 2.0
_PATIENCE = 600.0
# A service may store the last states of steps after the state of the run: number of further requests.
_LATE = 5
UNFINISHED = frozenset({"PENDING", "RUNNING"})

R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class RunSnapshot(Generic[R]):
    """State of a run and its steps at one time.

    `is_late`: whether the service has not yet stored the last state of another part of the run.
    """

    run: R
    state: str
    has_ended: bool
    steps: Mapping[str, str]
    is_late: bool = False


def wait_for_run(
    look: Callable[[], RunSnapshot[R] | None], report: Callable[[str], None], seconds: float = float("inf")
) -> RunSnapshot[R]:
    """Wait until a run has ended, and return its last state. Unavailable services are retried.

    Args:
        look: Function that requests the current state. It returns None if there was no answer.
        report: Callback for changes in the states of the run and its steps.
        seconds: Timeout, after which the current state is returned.

    Raises:
        UnavailableError: If the service has not responded for ten minutes.
    """
    shown: dict[str, str] = {}
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
            current = {**current_run.steps, "run": current_run.state}
            for name, state in current.items():
                if shown.get(name) != state:
                    report(f"{name}: {state.lower()}")
            shown = current
            if current_run.has_ended:
                late += 1
                if late > _LATE or not (current_run.is_late or UNFINISHED.intersection(current.values())):
                    return current_run
            elif time.monotonic() >= end:
                return current_run
        time.sleep(INTERVAL)


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
        return RunSnapshot(status, status.state, status.has_ended, {part.name: part.state for part in status.parts})

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
    reasons = [status.message, *(f"{part.name}: {part.reason}" for part in status.parts if part.reason)]
    return next((f" ({reason})" for reason in reasons if reason), "")
