"""Checks of rows in memory before a prediction, by the rules of data files."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.data import file_data
from qcnn.data.samples import FeatureLayout
from qcnn.errors import ConfigError


def value_error(row: str, column: str, what: str, value: object) -> ConfigError:
    """Return the error for an invalid value of an array, or without a column for an invalid row."""
    where = f"{column}: {row}" if column else f"samples: {row}:"
    return ConfigError(f"{where} {what}. Given: {value}")


def check_finite(name: str, numbers: npt.NDArray[np.float64]) -> None:
    """Check that a column has finite numbers.

    Raises:
        ConfigError: If it does not. The message has the row, counted from 1.
    """
    if (bad := ~np.isfinite(numbers)).any():
        row = int(np.argmax(bad))
        raise value_error(f"row {row + 1}", name, "must be a finite number", numbers[row])


def check_rows(columns: Mapping[str, npt.NDArray[Any]], layout: FeatureLayout, qubits: int) -> None:
    """Check that rows are valid samples.

    Args:
        columns: Input columns by name, finite float64 (rows,) each.
        layout: Conversion of the rows to samples.
        qubits: Number of qubits of the model.

    Raises:
        ConfigError: If a row is invalid. The message has the column and the row, counted from 1.
    """
    # This import loads the table libraries.
    from qcnn.tables.chunks import Chunk

    file_data.check(Chunk(1, columns, lambda row: f"row {row}", value_error), layout, qubits)
