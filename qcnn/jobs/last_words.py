"""What a process said last, where its output is read line by line."""

from collections.abc import Sequence

from qcnn.trainer.errors import as_clause
from qcnn.trainer.monitoring import log_lines
from qcnn.trainer.startup import ERROR


def last_words(lines: Sequence[str]) -> str:
    """Return the line that says why a process ended, as a part of another message: its error, else the last line.

    stdout and stderr of a container are collected side by side, so a line of the log may stand behind an error that was
    printed after it. Where the log is JSON, what its lines say counts.
    """
    said = log_lines.texts(lines)
    errors = [as_clause(line.removeprefix(ERROR)) for line in said if line.startswith(ERROR)]
    return next(reversed(errors or said), "it printed nothing")
