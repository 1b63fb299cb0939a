"""How long processes that do not start are waited for; tests/cluster has why they do not."""

from typing import Any

import pytest

from launchers.kubernetes.start import Start
from trainer.errors import ConfigError

JOB = {"metadata": {"name": "a", "uid": "1-2-3"}}


class _Silent:
    """No events."""

    def find(self, *_: Any, **__: Any) -> list[Any]:
        return []


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.start = Start(_Silent(), JOB, ["worker 0"], 600, lambda: self.now)  # type: ignore[arg-type]

    def check(self, now: float) -> None:
        self.now = now
        self.start.check()


def test_what_has_no_pod_is_waited_for_so_long() -> None:
    clock = _Clock()
    clock.start.see([], suspended=False)
    clock.check(600)
    with pytest.raises(ConfigError, match=r"^not started after 600 s: worker 0\. Given: a$"):
        clock.check(601)


def test_the_time_for_which_a_job_is_suspended_does_not_count() -> None:
    clock = _Clock()
    clock.check(500)
    clock.start.see([], suspended=True)
    clock.check(100_000)
    assert not clock.start.is_pending
    clock.start.see([], suspended=False)
    clock.check(100_600)
    with pytest.raises(ConfigError, match=r"^not started after 600 s: "):
        clock.check(100_601)
