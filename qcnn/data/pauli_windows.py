"""Expectation values of all Pauli strings on few adjacent qubits, as columns of real states."""

import functools
import itertools

import numpy as np
import numpy.typing as npt

# Maximum number of adjacent qubits of a string.
WIDTH = 3
_PAULI = {
    "I": np.eye(2, dtype=np.complex128),
    "X": np.array([[0, 1], [1, 0]], np.complex128),
    "Y": np.array([[0, -1j], [1j, 0]], np.complex128),
    "Z": np.diag([1, -1]).astype(np.complex128),
}
# Number of amplitudes that are converted to float64 at once.
_PART = 2**22


def window_strings(qubits: int) -> tuple[str, ...]:
    """Return the Pauli strings on windows of at most `WIDTH` adjacent qubits of an open line, by first qubit.

    Strings with an odd number of letters Y are omitted: their expectation value is 0 for real amplitudes. So is the
    identity.

    Args:
        qubits: Number of qubits.

    >>> window_strings(2)
    ('XI', 'XX', 'XZ', 'YY', 'ZI', 'ZX', 'ZZ', 'IX', 'IZ')
    """
    return tuple(
        f"{'I' * first}{letters}".ljust(qubits, "I") for first in range(qubits) for letters in _letters(qubits - first)
    )


def window_expectations(states: npt.NDArray[np.floating], qubits: int) -> npt.NDArray[np.float64]:
    """Return the expectation values of `window_strings` for states, float64 (states, strings).

    Args:
        states: Real amplitudes of normalized states, (states, 2^qubits). Qubit 0 is the most significant bit.
        qubits: Number of qubits.
    """
    size = max(1, _PART >> qubits)
    parts = [states[first : first + size] for first in range(0, len(states), size)]
    return np.concatenate([_expectations(part.astype(np.float64), qubits) for part in parts])


def _expectations(states: npt.NDArray[np.float64], qubits: int) -> npt.NDArray[np.float64]:
    columns = []
    for first in range(qubits):
        width = min(WIDTH, qubits - first)
        # Qubits before the window, its qubits, and those after it.
        apart = states.reshape(len(states), 2**first, 2**width, -1).transpose(0, 2, 1, 3)
        rows = apart.reshape(len(states), 2**width, -1)
        reduced = rows @ rows.transpose(0, 2, 1)
        # Real and symmetric, like the real part of a string.
        columns += [np.sum(reduced * _matrix(letters), axis=(1, 2)) for letters in _letters(width)]
    return np.stack(columns, axis=1)


def _letters(width: int) -> tuple[str, ...]:
    """Return the strings whose first qubit is the first of a window, the shortest window that a line has left."""
    found = itertools.product("IXYZ", repeat=min(WIDTH, width))
    return tuple("".join(letters) for letters in found if letters[0] != "I" and letters.count("Y") % 2 == 0)


@functools.cache
def _matrix(letters: str) -> npt.NDArray[np.float64]:
    matrix: npt.NDArray[np.complexfloating] = np.ones((1, 1), np.complex128)
    for letter in letters:
        matrix = np.kron(matrix, _PAULI[letter])
    return np.ascontiguousarray(matrix.real)
