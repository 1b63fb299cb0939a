"""Tests of the earlier names of flags."""

import pytest

from qcnn.cli.options.renamed import with_current_flags


@pytest.mark.parametrize(
    ("typed", "current"),
    [
        (["run", "--starts", "3"], ["run", "--num-initializations", "3"]),
        (["run", "--hang_seconds=9"], ["run", "--heartbeat-timeout-seconds=9"]),
        (["terminate", "a", "--seconds", "5"], ["terminate", "a", "--timeout", "5"]),
        (["submit", "--active-seconds=5"], ["submit", "--active-deadline-seconds=5"]),
        (["deploy", "--least", "1"], ["deploy", "--min-replicas", "1"]),
    ],
)
def test_with_current_flags_earlier_name_is_replaced_with_a_warning(
    typed: list[str], current: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert with_current_flags(typed) == current
    assert "the earlier name is accepted until version 0.2" in caplog.text


def test_with_current_flags_other_arguments_stay(caplog: pytest.LogCaptureFixture) -> None:
    typed = ["run", "--seed", "1", "starts", "--", "--starts", "1"]
    assert with_current_flags(typed) == typed
    assert not caplog.messages
