"""Rows as text, made of columns all at once: a number as short as it can be without losing anything."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute

from qcnn.trainer.tables.pieces import Columns


def joined(before: Sequence[str], columns: Columns, end: str) -> memoryview:
    """Return UTF-8 text of rows: for each the text `before` a column and its number, for all columns; then `end`."""
    parts: list[pa.Array | str] = []
    for text, column in zip(before, columns.values(), strict=True):
        parts += [text, compute.cast(pa.array(column), pa.string())]
    rows = compute.binary_join_element_wise(*parts, end, "")
    _, offsets, content = rows.buffers()
    return memoryview(content)[: np.frombuffer(offsets, np.int32)[len(rows)]]
