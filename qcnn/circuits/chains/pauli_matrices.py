"""Real matrices of sums of Pauli strings on a subset of the basis states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from qcnn.circuits.chains.symmetries import Numbers, signs

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_Floats = npt.NDArray[np.float64]


class PauliMatrix(NamedTuple):
    """Sum of Pauli strings.

    Attributes:
        diagonal: Its diagonal, (states,).
        flips: All other elements, (states, states), or None if all strings are diagonal.
    """

    diagonal: _Floats
    flips: csr_matrix | None


def pauli_matrix(strings: Iterable[tuple[str, float]], states: Numbers) -> PauliMatrix:
    """Return the matrix of a sum of Pauli strings.

    Args:
        strings: Pauli strings with their coefficients. The number of letters Y is even, so that matrices are real.
        states: Numbers of basis states in ascending order, which the sum maps to each other. Qubit 0 is the most
            significant bit.

    >>> pauli_matrix([("XX", 1.0), ("YY", 1.0)], np.array([1, 2])).flips.toarray().tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    from scipy.sparse import csr_matrix

    by_flip: dict[int, _Floats] = {}
    for letters, coefficient in strings:
        flip, sign = _mask(letters, "XY"), _mask(letters, "YZ")
        # Y = i X Z, and i^2 = -1.
        factor = coefficient * (-1) ** (letters.count("Y") // 2)
        values = factor * signs(states & sign)
        by_flip[flip] = by_flip[flip] + values if flip in by_flip else values
    diagonal = by_flip.pop(0, np.zeros(len(states)))
    if not by_flip:
        return PauliMatrix(diagonal, None)
    rows, columns, data = [], [], []
    for flip, values in by_flip.items():
        # Strings with equal flips cancel where they would leave the states.
        column = np.flatnonzero(values)
        row = np.searchsorted(states, states[column] ^ flip)
        if not np.array_equal(states.take(row, mode="clip"), states[column] ^ flip):
            raise ValueError(f"strings must map the basis states of a sector to each other. Given: flip {flip:b}")
        rows.append(row)
        columns.append(column)
        data.append(values[column])
    elements = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
    return PauliMatrix(diagonal, csr_matrix(elements, shape=(len(states), len(states))))


def _mask(letters: str, selected: str) -> int:
    return int("".join("1" if letter in selected else "0" for letter in letters), 2)
