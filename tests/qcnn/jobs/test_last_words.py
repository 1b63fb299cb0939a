import pytest

from qcnn.jobs.last_words import last_words


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["a", "error: no room. Given: /", "a line of the log"], "no room (given: /)"),
        (["error: an earlier one", "error: the last one"], "the last one"),
        (["Traceback (most recent call last):", "ValueError: 3"], "ValueError: 3"),
        ([], "it printed nothing"),
        (
            ['{"severity": "ERROR", "message": "error: no room. Given: /"}', '{"severity": "INFO", "message": "a"}'],
            "no room (given: /)",
        ),
        (
            ['{"severity": "CRITICAL", "message": "ValueError: 3", "exception": "Traceback:\\nValueError: 3\\n"}'],
            "ValueError: 3",
        ),
        (['{"severity": "ERROR", "message": "ended by SIGTERM"}', "Killed"], "Killed"),
    ],
)
def test_an_error_is_found_behind_whichever_line_it_stands(lines: list[str], words: str) -> None:
    assert last_words(lines) == words
