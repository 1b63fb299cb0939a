"""Names of runs, and the last error line of a process."""

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.job import check_run, last_error_line


@pytest.mark.parametrize("run", ["", " ", "a\nb", " a", "a\t", "a" * 201, "\udc80"])
def test_check_run_invalid_name_is_an_error(run: str) -> None:
    with pytest.raises(ConfigError, match=r"^run: must be a name of 1 to 200 printable characters, .* Given: '.*'$"):
        check_run(run)


@pytest.mark.parametrize("run", ["a", "量子", "exp 1", "a" * 200, "gs://bucket/a"])
def test_check_run_returns_valid_name(run: str) -> None:
    assert check_run(run) == run


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a", "error: disk full. Given: /", "a line of the log"], "disk full (given: /)"),
        (["error: an earlier one", "error: the last one"], "the last one"),
        (["Traceback (most recent call last):", "ValueError: 3"], "ValueError: 3"),
        ([], "it printed nothing"),
        (
            ['{"severity": "ERROR", "message": "error: disk full. Given: /"}', '{"severity": "INFO", "message": "a"}'],
            "disk full (given: /)",
        ),
        (
            ['{"severity": "CRITICAL", "message": "ValueError: 3", "exception": "Traceback:\\nValueError: 3\\n"}'],
            "ValueError: 3",
        ),
        (['{"severity": "ERROR", "message": "ended by SIGTERM"}', "Killed"], "Killed"),
    ],
)
def test_last_error_line_prefers_error_to_last_line(lines: list[str], expected: str) -> None:
    assert last_error_line(lines) == expected
