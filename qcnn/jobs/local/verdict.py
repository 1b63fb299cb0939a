"""The verdict on the processes of a job: a pure function of their exit codes and their last signs of life."""

import dataclasses
import enum
import signal
from collections.abc import Sequence

from qcnn.trainer.startup import ERROR, FAULTS, is_own_fault


class Action(enum.Enum):
    """What is done about the processes of a job."""

    GO_ON = "let them run"
    SUCCEEDED = "return: all have ended well"
    FAILED = "fail: one ended by its own fault"
    LOST = "end all, and start them again: one was lost"
    ONE_LOST = "start again the one that was lost"


@dataclasses.dataclass(frozen=True)
class Seen:
    """What is known of a process: its exit code, minus the signal's number where one ended it, None while it runs.

    `silent_for` are the seconds since its last sign of life. The others do not wait for the end of one that
    `ends_with_others`, and go on while one that is `started_alone` is lost.
    """

    name: str
    exit_code: int | None
    silent_for: float
    ends_with_others: bool = False
    started_alone: bool = False


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is done, and which process is to blame for it."""

    action: Action
    process: Seen | None = None


def judge(processes: Sequence[Seen], hang_seconds: float) -> Verdict:
    """Return what is done about processes, of which one that is silent for longer than `hang_seconds` is lost."""
    if all(process.exit_code == 0 for process in processes if not process.ends_with_others):
        return Verdict(Action.SUCCEEDED)
    failed = [process for process in processes if process.exit_code]
    if failed:
        blamed = min(failed, key=_blame)
        return Verdict(Action.FAILED if is_own_fault(blamed.exit_code or 0) else _lost(blamed), blamed)
    running = [process for process in processes if process.exit_code is None]
    hanging = [process for process in running if process.silent_for > hang_seconds]
    return Verdict(_lost(hanging[0]), hanging[0]) if hanging else Verdict(Action.GO_ON)


def explain(process: Seen, last_line: str, hang_seconds: float) -> str:
    """Return how the process to blame ended, with the last line that it printed."""
    if process.exit_code is None:
        return f"{process.name} gave no sign of life for {hang_seconds:g} s"
    if process.exit_code < 0:
        number = signal.Signals(-process.exit_code)
        # What is printed before any other signal has nothing to do with it.
        reason = f": {last_line}" if last_line and number in FAULTS else ""
        return f"{process.name} was killed by {number.name}{reason}"
    reason = last_line.removeprefix(ERROR) or "it printed nothing"
    return f"{process.name} ended with exit code {process.exit_code}: {reason}"


def _lost(process: Seen) -> Action:
    return Action.ONE_LOST if process.started_alone else Action.LOST


def _blame(process: Seen) -> tuple[bool, bool, bool]:
    """Order the failed of one moment.

    Own faults come first, then those without whom the others cannot go on, of these the killed before those who only
    lost a peer.
    """
    code = process.exit_code or 0
    return not is_own_fault(code), process.started_alone, code > 0
