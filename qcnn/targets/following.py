"""Follows a run of a service to its end, and shows the states of its steps as they change."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from qcnn.errors import TrainingError
from qcnn.targets.base import JobStatus
from qcnn.targets.errors import StepError, UnavailableError

# Seconds between two looks at a run, and for how long its service may be unreachable meanwhile.
INTERVAL = 2.0
_PATIENCE = 600.0
# A service may store the last states of steps a little after that of the run: how often it is asked once more.
_LATE = 5
UNFINISHED = frozenset({"PENDING", "RUNNING"})

R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class RunSnapshot(Generic[R]):
    """A run as it was seen once: its state, whether it has ended, and the states of its steps by their names.

    `is_late`: whether the service has yet to store the last state of something else that belongs to the run.
    """

    run: R
    state: str
    has_ended: bool
    steps: Mapping[str, str]
    is_late: bool = False


def wait_for_run(
    look: Callable[[], RunSnapshot[R] | None], say: Callable[[str], None], seconds: float = float("inf")
) -> RunSnapshot[R]:
    """Wait until a run has ended, at most `seconds`, and return it as it is then; `look` gives None for no answer.

    Each change of its state, and of its steps, is reported through `say`. A service that does not answer is waited for.

    Raises:
        UnavailableError: it has not answered for ten minutes.
    """
    shown: dict[str, str] = {}
    late = 0
    answered = time.monotonic()
    end = answered + seconds
    while True:
        try:
            seen = look()
        except UnavailableError:
            if time.monotonic() - answered > _PATIENCE:
                raise
            seen = None
        if seen:
            answered = time.monotonic()
            current = {**seen.steps, "run": seen.state}
            for name, state in current.items():
                if shown.get(name) != state:
                    say(f"{name}: {state.lower()}")
            shown = current
            if seen.has_ended:
                late += 1
                if late > _LATE or not (seen.is_late or UNFINISHED.intersection(current.values())):
                    return seen
            elif time.monotonic() >= end:
                return seen
        time.sleep(INTERVAL)


def number_repeated(steps: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return steps by their names; where a loop runs a step several times, a number stands behind its name."""
    counts: dict[str, int] = {}
    found: dict[str, Any] = {}
    for name, value in steps:
        counts[name] = number = counts.get(name, 0) + 1
        found[name if number == 1 else f"{name} {number}"] = value
    return found


def wait(look: Callable[[], JobStatus], say: Callable[[str], None], kind: str) -> JobStatus:
    """Wait until a job has succeeded, and return it as it is then; each change of a state is said.

    Raises:
        StepError: it has ended in any other way.
        UnavailableError: its target has not answered for ten minutes.
    """

    def seen() -> RunSnapshot[JobStatus]:
        status = look()
        return RunSnapshot(status, status.state, status.has_ended, {part.name: part.state for part in status.parts})

    ended = wait_for_run(seen, say).run
    check_succeeded(ended, kind)
    return ended


def check_succeeded(ended: JobStatus, kind: str) -> None:
    """Check that a job that has ended has succeeded.

    Raises:
        StepError: it has ended in any other way.
    """
    if not ended.has_succeeded:
        raise StepError(f"{kind}: it ended {ended.state}{because(ended)}. Given: {ended.job}")


def wait_quietly(look: Callable[[], JobStatus], timeout: float | None) -> JobStatus:
    """Wait until a job has succeeded, at most so many seconds, and return it as it is then.

    Raises:
        TrainingError: it has ended in any other way.
        TimeoutError: it has not ended in time.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while not (status := look()).has_ended:
        left = INTERVAL if end is None else min(INTERVAL, end - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"{status.job} has not ended within {timeout:g} s: it is {status.state}")
        time.sleep(left)
    if not status.has_succeeded:
        raise TrainingError(f"job: it has ended {status.state}{because(status)}. Given: {status.job}")
    return status


def because(status: JobStatus) -> str:
    """Return why a job ended, in brackets, empty where nothing says so."""
    reasons = [status.message, *(f"{part.name}: {part.reason}" for part in status.parts if part.reason)]
    return next((f" ({reason})" for reason in reasons if reason), "")
