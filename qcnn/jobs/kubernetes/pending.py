"""Why the processes of a job do not start: logged once, and waited for no longer than was asked."""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.api import EVENTS, Api
from qcnn.jobs.kubernetes.kinds import is_suspended
from qcnn.jobs.kubernetes.pods import Process, last_warning

logger = logging.getLogger("qcnn")

# How often events are asked for while processes have not started.
_EVENTS_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class Question:
    """Which warnings say why a process has not started: those about the object of this uid whose reason begins so.

    With `pod`, those that name another pod are left out.
    """

    uid: str
    reason: str
    pod: str = ""

    def ask(self, api: Api) -> str | None:
        """Return the last of them in one line, None if there is none."""
        warnings = api.find(EVENTS, fieldSelector=f"involvedObject.uid={self.uid},type=Warning")
        return last_warning(warnings, self.reason, self.pod)


def question(job: Mapping[str, Any], process: Process | None, pod: str = "") -> Question:
    """Return what to ask about a process that has not started; where it has no pod, the job's events say why.

    Those are events of all processes that have no pod, but for what they say of others than `pod` if that is given.
    """
    return Question(process.uid, "") if process else Question(job["metadata"]["uid"], "FailedCreate", pod)


@dataclasses.dataclass(frozen=True)
class Waiting:
    """Which processes have not started, by their names, and why, as far as is known.

    `processes` has None for one without a pod. `since` is when the first of them was seen not to have started, None
    where all have.
    """

    since: float | None
    processes: Mapping[str, Process | None]
    troubles: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def see(self, expected: Sequence[str], processes: Sequence[Process], *, suspended: bool, now: float) -> "Waiting":
        """Return what is known once all pods that are there were looked at; no pod of a suspended job is waited for."""
        by_name = {process.name: process for process in processes}
        waiting = {name: by_name.get(name) for name in expected if name not in by_name or not by_name[name].started}
        if suspended or not waiting:
            return Waiting(since=None, processes={})
        troubles = {name: process.trouble for name, process in waiting.items() if process and process.trouble}
        since = now if self.since is None else self.since
        return Waiting(since, waiting, {**self.troubles, **troubles})

    def told(self, name: str, trouble: str) -> "Waiting":
        """Return what is known once events have told why a process does not start."""
        return dataclasses.replace(self, troubles={**self.troubles, name: trouble})

    def to_ask_about(self) -> str | None:
        """Return which process the events are to tell about: one without a pod, else one whose pod says nothing."""
        missing = [name for name, process in self.processes.items() if process is None]
        silent = [name for name, process in self.processes.items() if process and not process.trouble]
        return next(iter(missing + silent), None)

    def why(self) -> str:
        """Return why processes have not started; where nothing is known, which."""
        waiting = sorted(self.processes)
        known = [f"{name} {self.troubles[name]}" for name in waiting if name in self.troubles]
        return "; ".join(known) or ", ".join(waiting)


class Start:
    """Watches over the start of the processes of a job, by their names; those that are started again are included."""

    def __init__(
        self,
        api: Api,
        job: dict[str, Any],
        expected: Sequence[str],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._job = job
        self._expected = expected
        self._seconds = seconds
        self._clock = clock
        self._waiting = Waiting(None, {}) if is_suspended(job) else Waiting(clock(), dict.fromkeys(expected))
        self._events_at = clock() + _EVENTS_SECONDS

    @property
    def is_pending(self) -> bool:
        """Whether a process is waited for."""
        return self._waiting.since is not None

    def see(self, processes: Sequence[Process], *, suspended: bool) -> None:
        """Take note of all processes that have a pod; nothing is waited for while the job is suspended."""
        now = self._clock()
        if not self.is_pending:
            self._events_at = now + _EVENTS_SECONDS
        self._note(self._waiting.see(self._expected, processes, suspended=suspended, now=now))

    def check(self) -> None:
        """Ask for events where pods say nothing.

        Raises:
            ConfigError: processes have been waited for long enough.
        """
        if self._waiting.since is None:
            return
        now = self._clock()
        if now >= self._events_at:
            self._events_at = now + _EVENTS_SECONDS
            name = self._waiting.to_ask_about()
            if name and (trouble := question(self._job, self._waiting.processes[name]).ask(self._api)):
                self._note(self._waiting.told(name, trouble))
        if now - self._waiting.since > self._seconds:
            reason, name = self._waiting.why(), self._job["metadata"]["name"]
            raise ConfigError(f"not started after {self._seconds:g} s: {reason}. Given: {name}")

    def _note(self, waiting: Waiting) -> None:
        """Log a process' first trouble; the two of an image that cannot be pulled would else take turns for ever."""
        for name, trouble in waiting.troubles.items():
            if name not in self._waiting.troubles:
                logger.warning("%s %s", name, trouble)
        self._waiting = waiting
