"""Reads text by pyarrow as long as that takes it, then row by row: pyarrow is fast, but knows no lines."""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from qcnn.trainer.tables.pieces import Columns, columns_of

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
