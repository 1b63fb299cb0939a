"""Ground states of the cluster-Ising Hamiltonian, by exact diagonalization.

Cong, Choi and Lukin, Nature Physics 15, 1273 (2019), arXiv:1810.03787: on an open chain, in units of J = 1,

    H = -sum Z_i X_{i+1} Z_{i+2} - h1 sum X_i - h2 sum X_i X_{i+1}.

With small fields its ground states have symmetry-protected topological (SPT) order. That paper's network learns to
distinguish this phase from the adjacent paramagnet and antiferromagnet.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Amplitudes are rounded to multiples of this. The random errors of an eigensolver are a billion times smaller.
RESOLUTION = 2.0**-20
# Energies that differ by less count as equal.
_SAME_ENERGY = 1e-9
# Matrices with at most this number of rows are diagonalized densely. ARPACK needs more rows than vectors.
_DENSE = 16
_Floats = npt.NDArray[np.float64]


class Sector(NamedTuple):
    """Eigenvalues, +1 or -1, of the product of X over the sites 0, 2, 4... and over the sites 1, 3, 5..."""

    even: int
    odd: int


# The ground state is in the first sector in a positive field, except deep in the antiferromagnet.
SECTORS = (Sector(1, 1), Sector(1, -1), Sector(-1, 1), Sector(-1, -1))


@dataclasses.dataclass(frozen=True)
class GroundState:
    """Eigenvector of the lowest energy.

    Attributes:
        energy: Energy in units of J.
        sector: Symmetry sector.
        state: Amplitudes, float32 (2^qubits,). Qubit 0 is the most significant bit.
    """

    energy: float
    sector: Sector
    state: npt.NDArray[np.float32]


def ground_state(qubits: int, h1: float, h2: float) -> GroundState:
    """Return the ground state of an open chain of 4 to 15 qubits.

    H commutes with two products of X (see `Sector`). If the ground state is degenerate, or nearly so because of the
    open ends, each sector contains exactly one of the ground states. The result has the lowest energy of the four
    sectors. Of equal energies, the first sector is used. The sign makes the largest amplitude in the X basis positive.

    Args:
        qubits: Number of qubits.
        h1: Field, in units of J.
        h2: Coupling of X X, in units of J.

    >>> ground = ground_state(4, h1=0.0, h2=0.0)
    >>> round(ground.energy, 6), ground.sector
    (-2.0, Sector(even=1, odd=1))
    """
    found = [(sector, *_lowest_eigenpair(_matrix(qubits, sector, h1, h2))) for sector in SECTORS]
    least = min(energy for _, energy, _ in found)
    sector, energy, vector = next(one for one in found if one[1] < least + _SAME_ENERGY)
    size = np.abs(vector)
    # Symmetries make several amplitudes equal up to rounding. The first of them is used.
    vector = vector * np.sign(vector[np.argmax(size > (1 - 1e-6) * size.max())])
    amplitudes = np.zeros(2**qubits)
    amplitudes[_basis(qubits, sector).place] = vector
    # Adding zero replaces -0 by 0.
    state = np.round(_hadamards(amplitudes, qubits) / RESOLUTION) * RESOLUTION + 0.0
    return GroundState(float(energy), sector, state.astype(np.float32))


def sector_energies(qubits: int, h1: float, h2: float) -> _Floats:
    """Return the lowest energy of each sector in `SECTORS`, (4,).

    They differ by an exponentially small amount in the SPT phase, whose open ends are free, and by a gap elsewhere.

    Args:
        qubits: Number of qubits, 4 to 15.
        h1: Field, in units of J.
        h2: Coupling of X X, in units of J.
    """
    return np.array([_lowest_eigenpair(_matrix(qubits, sector, h1, h2))[0] for sector in SECTORS])


def string_order(state: npt.NDArray[np.float32], first: int, last: int) -> float:
    """Return the expectation value of Z_first X_{first+1} X_{first+3} ... X_{last-1} Z_last.

    It is 1 in the cluster state. Outside the SPT phase it vanishes with increasing distance.

    Args:
        state: Amplitudes, float32 (2^qubits,).
        first: First site.
        last: Last site, an even number of sites from the first.
    """
    qubits = len(state).bit_length() - 1
    amplitudes = state.astype(np.float64)
    number = np.arange(len(state))
    flipped = sum(1 << (qubits - 1 - site) for site in range(first + 1, last, 2))
    parity = ((number >> (qubits - 1 - first)) ^ (number >> (qubits - 1 - last))) & 1
    return float(np.sum(amplitudes * (1 - 2 * parity) * amplitudes[number ^ flipped]))


class _Basis(NamedTuple):
    """Sector in the X basis: state indices, their sums of X and of X X, and the matrix of -Z X Z."""

    place: npt.NDArray[np.int64]
    field: _Floats
    coupling: _Floats
    cluster: csr_matrix


@functools.lru_cache(maxsize=len(SECTORS))
def _basis(qubits: int, sector: Sector) -> _Basis:
    """Return the basis of a sector. The first qubits - 2 sites number its states, with bit 1 for X = -1.

    The parities determine the other two sites.
    """
    from scipy.sparse import csr_matrix

    free = qubits - 2
    number = np.arange(2**free)
    bits = list((number >> np.arange(free - 1, -1, -1)[:, None]) & 1)
    for site in (free, free + 1):
        bits.append(functools.reduce(np.bitwise_xor, bits[site % 2 : free : 2]) ^ (sector[site % 2] < 0))
    x = 1.0 - 2.0 * np.array(bits)
    place = functools.reduce(lambda high, bit: 2 * high + bit, bits)
    # Z_i Z_{i+2} flips two sites. Flips of the last two sites follow from the parities.
    flipped = [number ^ sum(1 << (free - 1 - j) for j in (i, i + 2) if j < free) for i in range(free)]
    cluster = csr_matrix(
        (-np.concatenate(list(x[1:-1])), (np.tile(number, free), np.concatenate(flipped))), shape=(2**free, 2**free)
    )
    return _Basis(place, x.sum(axis=0), (x[:-1] * x[1:]).sum(axis=0), cluster)


def _matrix(qubits: int, sector: Sector, h1: float, h2: float) -> csr_matrix:
    # Importing SciPy takes 0.17 s, and only ground states need it.
    from scipy.sparse import csr_matrix, diags

    basis = _basis(qubits, sector)
    return csr_matrix(basis.cluster - diags(h1 * basis.field + h2 * basis.coupling))


def _lowest_eigenpair(matrix: csr_matrix) -> tuple[float, _Floats]:
    """Return the lowest eigenvalue and its eigenvector."""
    rows = matrix.shape[0]
    if rows <= _DENSE:
        energies, vectors = np.linalg.eigh(matrix.toarray())
    else:
        # NumPy guarantees a stable stream for raw bits only, so the start vector is equal for all NumPy versions.
        start = np.random.PCG64(0).random_raw(rows).astype(np.float64) * 2.0**-63 - 1
        from scipy.sparse.linalg import eigsh

        energies, vectors = eigsh(matrix, k=1, which="SA", v0=start)
    return energies[0], vectors[:, 0]


def _hadamards(amplitudes: _Floats, qubits: int) -> _Floats:
    """Apply a Hadamard gate to every qubit, which changes amplitudes from the X basis to the Z basis."""
    for _ in range(qubits):
        pairs = amplitudes.reshape(2, -1)
        amplitudes = np.stack([pairs[0] + pairs[1], pairs[0] - pairs[1]], axis=1).ravel() / np.sqrt(2)
    return amplitudes


MAX_H1 = 1.6
MAX_H2 = 1.6
_H1 = np.arange(17) / 10
# Upper boundary h2 of the SPT phase, to the paramagnet, for each h1.
_PARAMAGNET = (
    *(1.0, 0.8255, 0.7123, 0.6071, 0.5085, 0.4149, 0.3254, 0.2393, 0.1560, 0.0751, 0.0),
    *(-0.0809, -0.1565, -0.2311, -0.3046, -0.3773, -0.4492),
)
# Lower boundary h2 of the SPT phase, to the antiferromagnet, for each h1.
_ANTIFERROMAGNET = (
    *(-1.0, -0.9948, -0.9995, -1.0073, -1.0186, -1.0329, -1.0505, -1.0712, -1.0954, -1.1224, -1.1525),
    *(-1.1850, -1.2198, -1.2565, -1.2950, -1.3347, -1.3759),
)


def boundaries(h1: _Floats) -> tuple[_Floats, _Floats]:
    """Return the minimum and the maximum h2 of the SPT phase for h1 from 0 to MAX_H1.

    Boundaries are interpolated linearly.
    """
    return np.interp(h1, _H1, _ANTIFERROMAGNET), np.interp(h1, _H1, _PARAMAGNET)


def is_spt(h1: _Floats, h2: _Floats) -> npt.NDArray[np.bool_]:
    """Return whether long chains have SPT order. On the solvable line h2 = 0 this means h1 < 1."""
    below, above = boundaries(h1)
    return (below < h2) & (h2 < above)
