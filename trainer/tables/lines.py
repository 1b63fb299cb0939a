"""The lines of a text file that somebody else may have made: of bounded length, each with its number."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from qcnn.trainer.errors import ArtifactError

# Characters of a line; a row of some 200,000 numbers has them.
LONGEST = 2**22
# What is not UTF-8 is read as these characters, which UTF-8 does not have.
_ERRORS = "surrogateescape"


@contextlib.contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Yield the lines of a file with their ends, whichever those are.

    Raises:
        ArtifactError: a line is too long.
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8-sig", errors=_ERRORS, newline="") as file:
        yield _bounded(file)


def check_utf8(text: str, place: str) -> None:
    """Refuse a line, or a part of one, whose bytes are not UTF-8.

    Raises:
        ArtifactError: they are not.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArtifactError(f"data: {place}: must be text in UTF-8. Given: {text}") from None


def _bounded(file: object) -> Iterator[str]:
    number = 0
    while line := file.readline(LONGEST + 1):  # type: ignore[attr-defined]
        number += 1
        if len(line) > LONGEST:
            raise ArtifactError(f"data: line {number}: must have at most {LONGEST} characters. Given: {line}")
        yield line
