"""Rows from memory: arrays, mappings of columns, and data frames, written as a Parquet table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow.parquet import read_table, write_table

from qcnn.atomic_files import new_file
from qcnn.data.samples import LABEL
from qcnn.errors import ArtifactError, ConfigError, format_value, single_line

_ALLOWED = (
    "must be arrays (x, y) of shapes (rows, columns) and (rows,), a mapping of columns, or a data frame such as "
    "pandas.DataFrame"
)


def table_of(rows: object, names: Sequence[str] = ()) -> pa.Table:
    """Return rows as a table of pyarrow.

    Args:
        rows: Arrays x, (rows, columns), and y, (rows,); or a mapping of columns, or an object of the Arrow PyCapsule
            interface, such as a data frame of pandas or Polars, with a column `label`.
        names: Names of the columns of x. None given: x0, x1 and so on.

    Raises:
        ConfigError: If the rows have another form. The values are checked by the readers of files.
    """
    try:
        if isinstance(rows, tuple | list) and len(rows) == 2:
            return _of_arrays(rows[0], rows[1], names)
        return _of_columns(rows)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise ConfigError(
            f"data: {_ALLOWED} ({single_line(error)}). Given: {format_value(type(rows).__name__)}"
        ) from None


def _of_arrays(inputs: object, labels: object, names: Sequence[str]) -> pa.Table:
    label = _numpy_array(labels)
    if hasattr(inputs, "__arrow_c_stream__") or isinstance(inputs, Mapping):
        table = _of_columns(inputs)
    else:
        array = _numpy_array(inputs)
        if array.ndim != 2 or not array.shape[1] or label.ndim != 1 or (names and array.shape[1] != len(names)):
            wanted = f" of {len(names)} columns" if names else ""
            raise ConfigError(f"data: {_ALLOWED}{wanted}. Given: x {array.shape} and y {label.shape}")
        every = names or [f"x{number}" for number in range(array.shape[1])]
        table = pa.table({name: _column(column) for name, column in zip(every, array.T, strict=True)})
    if table.num_rows != len(label):
        raise ConfigError(f"data: x and y must have as many rows. Given: {table.num_rows} and {len(label)}")
    if LABEL in table.column_names:
        raise ConfigError(f"data: x must have no column {LABEL}, because y is given. Given: {LABEL}")
    return table.append_column(LABEL, [_column(label)])


def _of_columns(rows: Any) -> pa.Table:
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, Mapping):
        return pa.table({str(name): _column(_numpy_array(column)) for name, column in rows.items()})
    raise ConfigError(f"data: {_ALLOWED}. Given: {format_value(rows)}")


def _numpy_array(values: object) -> npt.NDArray[Any]:
    # asarray would return the hidden values of a masked array.
    return values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)


def _column(values: npt.NDArray[Any]) -> pa.Array:
    """Return a column, in which masked values are missing."""
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    return pa.array(np.ma.getdata(values), mask=mask)


def write_rows(rows: pa.Table, path: Path) -> None:
    """Write a table to a new Parquet file, atomically.

    Raises:
        ArtifactError: If the file cannot be written.
    """
    with new_file(path) as unfinished:
        write_table(rows, unfinished, write_page_checksum=True)


def check_equal(rows: pa.Table, path: Path) -> None:
    """Check that a file has the same rows.

    Raises:
        ArtifactError: If it has others, or cannot be read.
    """
    try:
        is_equal = read_table(path).equals(rows)
    except (pa.ArrowException, OSError) as error:
        raise ArtifactError(f"data: the rows of the run cannot be read ({single_line(error)}). Given: {path}") from None
    if not is_equal:
        raise ArtifactError(f"folder: must hold a run of these rows, not of others. Given: {path}")
