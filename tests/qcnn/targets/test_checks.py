"""Checks run side by side, end in time, and leave nothing behind."""

import threading
from collections.abc import Callable

import pytest

from qcnn.errors import ConfigError
from qcnn.targets.checks import (
    Check,
    DrawbackError,
    Finding,
    UnknownError,
    run_checks,
)


def raising(error: Exception) -> Callable[[], str]:
    def find() -> str:
        raise error

    return find


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigError("cores: must be 2. Given: 1"), ("failed", "cores: must be 2. Given: 1")),
        (DrawbackError("kernels: none"), ("warning", "kernels: none")),
        (UnknownError("no right to list nodes"), ("unknown", "no right to list nodes")),
        (KeyError("a\nb"), ("failed", "KeyError: 'a\\nb'")),
    ],
)
def test_error_of_check_is_its_finding_and_others_go_on(error: Exception, expected: tuple[str, str]) -> None:
    first, second = run_checks([Check("first", raising(error)), Check("second", lambda: "found")])
    assert (first.state, first.found) == expected
    assert second == Finding("second", "passed", "found")


def test_checks_wait_for_the_one_before_and_run_beside_others() -> None:
    both = threading.Barrier(2, timeout=60)

    def meet() -> str:
        both.wait()
        return "met"

    checks = [
        Check("broken", raising(ConfigError("broken"))),
        Check("dependent", lambda: "never", "broken"),
        Check("of dependent", lambda: "never", "dependent"),
        Check("one", meet, seconds=60.0),
        Check("warned", raising(DrawbackError("slow"))),
        Check("other", meet, "warned", 60.0),
    ]
    found = {finding.check: finding for finding in run_checks(checks)}
    assert list(found) == [check.name for check in checks]
    assert found["dependent"] == Finding("dependent", "unknown", "needs the check broken")
    assert found["of dependent"] == Finding("of dependent", "unknown", "needs the check dependent")
    assert found["one"].found == found["other"].found == "met"


def test_check_without_answer_fails_and_those_after_it_are_unknown() -> None:
    never = threading.Event()
    checks = [
        Check("stuck", lambda: str(never.wait()), seconds=0.05),
        Check("after", lambda: "never", "stuck"),
        Check("other", lambda: "found"),
    ]
    try:
        assert list(run_checks(checks)) == [
            Finding("stuck", "failed", "no answer within 0.05 s"),
            Finding("after", "unknown", "needs the check stuck"),
            Finding("other", "passed", "found"),
        ]
    finally:
        never.set()
