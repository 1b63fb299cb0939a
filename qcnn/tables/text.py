"""Lines of a text file that somebody else may have made: of bounded length, each with its number."""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute

from qcnn.errors import ArtifactError
from qcnn.tables.chunks import Columns, columns_of

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


# Bytes that pyarrow reads at a time.
BLOCK = 2**22
# Rows of a piece where each is read by itself.
_ROWS = 10_000


def read_carefully(
    blocks: Iterable[pa.RecordBatch],
    rows_after: Callable[[int], Iterator[Sequence[object]]],
    names: Sequence[str],
    text: Collection[str],
) -> Iterator[Columns]:
    """Yield pieces of some columns: of `blocks`, and where those end too early, of the rows that are left.

    `rows_after` returns the rows after so many, values in the order of `names`, and names in an error whatever is wrong
    with one.
    """
    done = 0
    with contextlib.suppress(pa.ArrowInvalid):
        for block in blocks:
            if (columns := columns_of(block, text)) is None:
                break
            yield columns
            done += len(block)
        else:
            return
    left = rows_after(done)
    while some := list(itertools.islice(left, _ROWS)):
        yield {
            name: np.array(values, object if name in text else np.float64)
            for name, values in zip(names, zip(*some, strict=True), strict=True)
        }


def joined(before: Sequence[str], columns: Columns, end: str) -> memoryview:
    """Return UTF-8 text of rows: for each the text `before` a column and its number, for all columns; then `end`."""
    parts: list[pa.Array | str] = []
    for text, column in zip(before, columns.values(), strict=True):
        parts += [text, compute.cast(pa.array(column), pa.string())]
    rows = compute.binary_join_element_wise(*parts, end, "")
    _, offsets, content = rows.buffers()
    return memoryview(content)[: np.frombuffer(offsets, np.int32)[len(rows)]]
