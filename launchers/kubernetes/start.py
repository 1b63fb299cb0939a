"""Why the processes of a TFJob do not start: said once, and waited for no longer than was asked."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from launchers.kubernetes.api import EVENTS, Api
from launchers.kubernetes.events import last_warning
from launchers.kubernetes.pods import Process
from trainer.errors import ConfigError

logger = logging.getLogger("qcnn")

# How often events are asked for while processes have not started.
_EVENTS_SECONDS = 10.0


class Start:
    """Watches over the start of the processes of a TFJob, by their names, those that are started again among them."""

    def __init__(
        self,
        api: Api,
        job: dict[str, Any],
        expected: Sequence[str],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._name, self._uid = job["metadata"]["name"], job["metadata"]["uid"]
        self._expected = set(expected)
        self._seconds = seconds
        self._clock = clock
        self._since: float | None = clock()
        self._events_at = clock() + _EVENTS_SECONDS
        self._waiting: dict[str, Process | None] = dict.fromkeys(self._expected)
        self._said: dict[str, str] = {}

    @property
    def is_pending(self) -> bool:
        """Whether a process is waited for."""
        return self._since is not None

    def see(self, processes: Sequence[Process], *, suspended: bool) -> None:
        """Take note of all processes that have a pod; nothing is waited for while the job is suspended."""
        by_name = {process.name: process for process in processes}
        expected = set() if suspended else self._expected
        self._waiting = {
            name: by_name.get(name) for name in expected if name not in by_name or not by_name[name].started
        }
        if not self._waiting:
            self._since = None
            self._said.clear()
            return
        if self._since is None:
            self._since = self._clock()
            self._events_at = self._since + _EVENTS_SECONDS
        for name, process in self._waiting.items():
            if process and process.trouble:
                self._say(name, process.trouble)

    def check(self) -> None:
        """Ask for events where pods say nothing.

        Raises:
            ConfigError: processes have been waited for long enough.
        """
        if self._since is None:
            return
        now = self._clock()
        if now >= self._events_at:
            self._events_at = now + _EVENTS_SECONDS
            self._ask()
        if now - self._since > self._seconds:
            why = "; ".join(f"{name} {trouble}" for name, trouble in sorted(self._said.items()))
            waiting = ", ".join(sorted(self._waiting))
            raise ConfigError(f"not started after {self._seconds:g} s: {why or waiting}. Given: {self._name}")

    def _ask(self) -> None:
        """Look for the events of what has no pod, which are the job's, and of one pod that says nothing itself."""
        silent = [name for name, process in self._waiting.items() if process and not process.trouble]
        if missing := [name for name, process in self._waiting.items() if process is None]:
            self._say_event(missing[0], self._uid, "FailedCreate")
        elif silent and (process := self._waiting[silent[0]]):
            self._say_event(silent[0], process.uid, "")

    def _say_event(self, name: str, uid: str, reason: str) -> None:
        warnings = self._api.find(EVENTS, fieldSelector=f"involvedObject.uid={uid},type=Warning")
        if trouble := last_warning(warnings, reason):
            self._say(name, trouble)

    def _say(self, name: str, trouble: str) -> None:
        """Say a trouble; the two of an image that cannot be pulled take turns, so only the first is said."""
        known, self._said[name] = self._said.get(name), trouble
        if known is None:
            logger.warning("%s %s", name, trouble)
