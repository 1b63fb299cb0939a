"""JSONL tables: one JSON object per line. The keys of the first object are the columns."""

import codecs
import contextlib
import itertools
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyarrow import json as arrow_json

from qcnn.errors import ArtifactError, format_value
from qcnn.tables.chunks import NOTHING, Columns, Write
from qcnn.tables.text import BLOCK, MAX_LINE, TextFile, check_utf8, read_lines

# Parts of a block that pyarrow parses in parallel.
_PARTS = 4


class JsonlFile(TextFile):
    """JSONL file. Empty lines and keys that the first object does not have are ignored."""

    def __init__(self, path: Path) -> None:
        """Read the names of the columns.

        Raises:
            ArtifactError: If the first line is not an object.
        """
        super().__init__(path)
        place, line = next(self._rows(), ("", "{}"))
        self.names = list(_parse_object(line.strip(), place))

    def _batches(self, names: Sequence[str], text: Collection[str]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(name, pa.string() if name in text else pa.float64()) for name in names])
        parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        read = arrow_json.ReadOptions(block_size=BLOCK // _PARTS)
        with self._path.open("rb") as file:
            if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
                file.seek(0)
            # readline() truncates a line that is too long, and pyarrow rejects the truncated line.
            while lines := file.read(BLOCK) + file.readline(MAX_LINE):
                found = arrow_json.read_json(pa.BufferReader(lines), read, parse)
                # pyarrow also accepts two objects on one line and one object on two lines.
                if len(found) != _count_lines(lines):
                    raise pa.ArrowInvalid("not an object a line")
                yield from found.combine_chunks().to_batches()

    def _rows(self) -> Iterator[tuple[str, str]]:
        return ((f"line {number}", line) for number, line in enumerate(read_lines(self._path), 1) if line.strip())

    def _parse_rows_after(self, done: int, names: Sequence[str], text: Collection[str]) -> Iterator[list[float | str]]:
        for place, line in itertools.islice(self._rows(), done, None):
            values = _parse_object(line.strip(), place)
            yield [self._parse_value(values.get(name), place, name, text) for name in names]

    def _parse_number(self, value: Any) -> float | str:
        # true and false are 1 and 0, as in the other formats.
        with contextlib.suppress(OverflowError):
            if isinstance(value, int | float) and math.isfinite(number := float(value)):
                return number
        return NOTHING if value is None else format_value(value)


@contextlib.contextmanager
def write_jsonl(path: Path) -> Iterator[Write]:
    """Yield a function that writes rows to a new file, one object per row."""
    with path.open("wb") as file:

        def write(columns: Columns) -> None:
            parts: list[pa.Array | str] = []
            for name, column in columns.items():
                parts += [f"{', ' if parts else '{'}{json.dumps(name)}: ", _json_values(pa.array(column))]
            rows = compute.binary_join_element_wise(*parts, "}\n", "")
            _, offsets, content = rows.buffers()
            file.write(memoryview(content)[: np.frombuffer(offsets, np.int32)[len(rows)]])

        yield write


def _json_values(column: pa.Array) -> pa.Array:
    if not pa.types.is_string(column.type):
        return compute.cast(column, pa.string())
    texts = column.dictionary_encode()
    return pa.array([json.dumps(text) for text in texts.dictionary.to_pylist()], pa.string()).take(texts.indices)


def _count_lines(lines: bytes) -> int:
    """Return the number of lines that are not blank."""
    if b"\r" in lines or lines[:1].isspace() or re.search(rb"\n\s", lines):
        return sum(map(bool, map(bytes.strip, lines.splitlines())))
    return lines.count(b"\n") + (not lines.endswith(b"\n"))


def _parse_object(line: str, place: str) -> Mapping[str, Any]:
    check_utf8(line, place)
    try:
        values = json.loads(line, object_pairs_hook=_JsonObject)
    # RecursionError: brackets are nested too deep. ValueError: no JSON, or an integer has thousands of digits.
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, _JsonObject):
        raise ArtifactError(f"data: {place}: must be one JSON object. Given: {line}")
    if values.is_ambiguous:
        raise ArtifactError(f"data: {place}: must have unique keys. Given: {line}")
    return values


class _JsonObject(dict[str, Any]):
    """JSON object. `is_ambiguous` is True if a key occurs more than once."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.is_ambiguous = len(self) < len(pairs)
