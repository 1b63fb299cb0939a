"""The verdict on the processes of a job: a pure function of their exit codes and their last signs of life."""

import dataclasses
import enum
import signal
from collections.abc import Sequence

from trainer.startup import is_own_fault


class Action(enum.Enum):
    """What is done about the processes of a job."""

    GO_ON = "let them run"
    SUCCEEDED = "return: all have ended well"
    FAILED = "fail: one ended by its own fault"
    LOST = "end all, and start them again: one was lost"


@dataclasses.dataclass(frozen=True)
class Seen:
    """What is known of a process: its exit code, minus the signal's number where one ended it, None while it runs.

    `silent_for` are the seconds since its last sign of life.
    """

    name: str
    exit_code: int | None
    silent_for: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is done, and which process is to blame for it."""

    action: Action
    process: Seen | None = None


def judge(processes: Sequence[Seen], hang_seconds: float) -> Verdict:
    """Return what is done about processes, of which one that is silent for longer than `hang_seconds` is lost."""
    failed = [process for process in processes if process.exit_code]
    if failed:
        blamed = min(failed, key=_blame)
        return Verdict(Action.FAILED if is_own_fault(blamed.exit_code or 0) else Action.LOST, blamed)
    running = [process for process in processes if process.exit_code is None]
    if not running:
        return Verdict(Action.SUCCEEDED)
    hanging = [process for process in running if process.silent_for > hang_seconds]
    return Verdict(Action.LOST, hanging[0]) if hanging else Verdict(Action.GO_ON)


def explain(process: Seen, last_line: str, hang_seconds: float) -> str:
    """Return how the process to blame ended, with the last line that it printed."""
    if process.exit_code is None:
        return f"{process.name} gave no sign of life for {hang_seconds:g} s"
    if process.exit_code < 0:
        return f"{process.name} was killed by {signal.Signals(-process.exit_code).name}"
    return f"{process.name} ended with exit code {process.exit_code}: {last_line or 'it printed nothing'}"


def _blame(process: Seen) -> int:
    """Order the failed of one moment: own faults first, then the killed, then those who only lost a peer."""
    code = process.exit_code or 0
    if is_own_fault(code):
        return 0
    return 1 if code < 0 else 2
