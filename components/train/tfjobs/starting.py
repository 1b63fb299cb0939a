"""Why the processes of a TFJob do not start: said once, and waited for no longer than was asked."""

import logging
import time
from collections.abc import Sequence
from typing import Any

from components.train.tfjobs.api import EVENTS, Api
from components.train.tfjobs.events import last_warning
from components.train.tfjobs.pods import Process
from trainer.errors import ConfigError

logger = logging.getLogger("trainer")

# How often events are asked for while processes have not started.
_EVENTS_SECONDS = 10.0


class Start:
    """Watches over the start of the processes (role, index) of a TFJob, those that are started again among them."""

    def __init__(self, api: Api, job: dict[str, Any], expected: Sequence[tuple[str, int]], seconds: float) -> None:
        self._api = api
        self._name, self._uid = job["metadata"]["name"], job["metadata"]["uid"]
        self._expected = {f"{role} {index}" for role, index in expected}
        self._seconds = seconds
        self._since: float | None = time.monotonic()
        self._events_at = time.monotonic() + _EVENTS_SECONDS
        self._waiting: dict[str, Process | None] = dict.fromkeys(self._expected)
        self._said: dict[str, str] = {}

    @property
    def is_pending(self) -> bool:
        """Whether a process is waited for."""
        return self._since is not None

    def see(self, processes: Sequence[Process]) -> None:
        """Take note of all processes that have a pod."""
        by_name = {process.name: process for process in processes}
        self._waiting = {
            name: by_name.get(name) for name in self._expected if name not in by_name or not by_name[name].started
        }
        if not self._waiting:
            self._since = None
            self._said.clear()
            return
        if self._since is None:
            self._since = time.monotonic()
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
        now = time.monotonic()
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
