"""What a process said last, where its output is read line by line."""

from collections.abc import Sequence

from trainer.startup import ERROR


def last_words(lines: Sequence[str]) -> str:
    """Return the line that says why a process ended: that of its error, else the last one.

    stdout and stderr of a container are collected side by side, so a line of the log may stand behind an error that was
    printed after it.
    """
    errors = [line for line in lines if line.startswith(ERROR)]
    return next(reversed(errors or lines), "it printed nothing")
