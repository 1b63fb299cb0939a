"""Ground states of spin chains, by exact diagonalization of their symmetry sectors."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from qcnn.circuits.chains.chain import Chain
from qcnn.circuits.chains.pauli_matrices import PauliMatrix, pauli_matrix
from qcnn.circuits.chains.symmetries import Sector, SectorBasis, sector_basis

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import LinearOperator

# Amplitudes are rounded to multiples of this. The random errors of an eigensolver are a billion times smaller.
RESOLUTION = 2.0**-20
# Energies that differ by less count as equal.
SAME_ENERGY = 1e-9
# Matrices with at most this number of rows are diagonalized densely. ARPACK needs more rows than vectors.
_DENSE = 16
_Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class GroundState:
    """Eigenvector of the lowest energy.

    Attributes:
        energy: Energy in units of the coupling.
        sector: Symmetry sector.
        state: Amplitudes, float32 (2^qubits,). Qubit 0 is the most significant bit.
    """

    energy: float
    sector: Sector
    state: npt.NDArray[np.float32]


def ground_state(chain: Chain, qubits: int, *parameters: float) -> GroundState:
    """Return the ground state of an open chain.

    The result has the lowest energy of the sectors of the chain. Of equal energies, the first sector is used.

    Args:
        chain: Chain.
        qubits: Number of qubits.
        parameters: Value of each parameter of the chain.
    """
    sectors = chain.sectors(qubits)
    found = [(sector, *lowest_eigenpair(_matrix(chain, qubits, sector, parameters))) for sector in sectors]
    least = min(energy for _, energy, _ in found)
    sector, energy, vector = next(one for one in found if one[1] < least + SAME_ENERGY)
    basis = _sector_matrices(chain, qubits, sector).basis
    amplitudes = np.zeros(2**qubits)
    amplitudes[basis.states] = vector if basis.isometry is None else basis.isometry @ vector
    return GroundState(float(energy), sector, rounded_state(amplitudes, in_x_basis=chain.in_x_basis))


def sector_energies(chain: Chain, qubits: int, *parameters: float) -> _Floats:
    """Return the lowest energy of each sector of a chain, (sectors,).

    Args:
        chain: Chain.
        qubits: Number of qubits.
        parameters: Value of each parameter of the chain.
    """
    sectors = chain.sectors(qubits)
    return np.array([lowest_eigenpair(_matrix(chain, qubits, sector, parameters))[0] for sector in sectors])


def rounded_state(amplitudes: _Floats, *, in_x_basis: bool = False) -> npt.NDArray[np.float32]:
    """Return a state with reproducible sign and rounding, float32.

    The sign makes the largest amplitude positive.

    Args:
        amplitudes: Amplitudes, (2^qubits,).
        in_x_basis: Whether they are in the basis of X. The result is in the basis of Z.
    """
    size = np.abs(amplitudes)
    # Symmetries make several amplitudes equal up to rounding. The first of them is used.
    amplitudes = amplitudes * np.sign(amplitudes[np.argmax(size > (1 - 1e-6) * size.max())])
    if in_x_basis:
        amplitudes = _hadamards(amplitudes)
    # Adding zero replaces -0 by 0.
    return (np.round(amplitudes / RESOLUTION) * RESOLUTION + 0.0).astype(np.float32)


def lowest_eigenpair(matrix: csr_matrix | LinearOperator, stream: int = 0) -> tuple[float, _Floats]:
    """Return the lowest eigenvalue and its eigenvector.

    Args:
        matrix: Real symmetric matrix, or an operator with more than 16 rows.
        stream: Number of the start vector.
    """
    rows = matrix.shape[0]
    if rows <= _DENSE:
        energies, vectors = np.linalg.eigh(matrix.toarray())
    else:
        # Importing SciPy takes 0.17 s, and only ground states need it.
        from scipy.sparse.linalg import eigsh

        energies, vectors = eigsh(matrix, k=1, which="SA", v0=start_vector(rows, stream))
    return energies[0], vectors[:, 0]


def start_vector(rows: int, stream: int = 0) -> _Floats:
    """Return the first vector of an iterative diagonalization, with components between -1 and 1.

    Args:
        rows: Number of components.
        stream: Number of the vector.
    """
    # NumPy guarantees a stable stream for raw bits only, so the start vector is equal for all NumPy versions.
    return np.random.PCG64(stream).random_raw(rows).astype(np.float64) * 2.0**-63 - 1


class _SectorMatrices(NamedTuple):
    """Basis of a sector, and the matrix of each group of Pauli strings in it."""

    basis: SectorBasis
    groups: tuple[PauliMatrix, ...]


@functools.lru_cache(maxsize=4)
def _sector_matrices(chain: Chain, qubits: int, sector: Sector) -> _SectorMatrices:
    basis = sector_basis(qubits, chain.symmetries(qubits), sector)
    groups = (pauli_matrix([(letters, 1.0) for letters in group], basis.states) for group in chain.strings(qubits))
    return _SectorMatrices(basis, tuple(_in_basis(group, basis.isometry) for group in groups))


def _in_basis(matrix: PauliMatrix, isometry: csr_matrix | None) -> PauliMatrix:
    """Return the matrix in the basis of a sector."""
    if isometry is None:
        return matrix
    from scipy.sparse import csr_matrix, diags

    whole = diags(matrix.diagonal) if matrix.flips is None else matrix.flips + diags(matrix.diagonal)
    return PauliMatrix(np.zeros(isometry.shape[1]), csr_matrix(isometry.T @ whole @ isometry))


def _matrix(chain: Chain, qubits: int, sector: Sector, parameters: Sequence[float]) -> csr_matrix:
    """Return the Hamiltonian in a sector."""
    groups = _sector_matrices(chain, qubits, sector).groups
    return weighted_sum(groups, chain.coefficients(*parameters))


def weighted_sum(groups: Sequence[PauliMatrix], coefficients: Sequence[float]) -> csr_matrix:
    """Return a sum of matrices, each times its coefficient."""
    from scipy.sparse import csr_matrix, diags

    pairs = list(zip(groups, coefficients, strict=True))
    diagonal = sum(coefficient * group.diagonal for group, coefficient in pairs)
    flips = [coefficient * group.flips for group, coefficient in pairs if group.flips is not None]
    return csr_matrix(sum(flips[1:], flips[0]) + diags(diagonal)) if flips else csr_matrix(diags(diagonal))


def _hadamards(amplitudes: _Floats) -> _Floats:
    """Apply a Hadamard gate to every qubit, which changes amplitudes from the X basis to the Z basis."""
    for _ in range(len(amplitudes).bit_length() - 1):
        pairs = amplitudes.reshape(2, -1)
        amplitudes = np.stack([pairs[0] + pairs[1], pairs[0] - pairs[1]], axis=1).ravel() / np.sqrt(2)
    return amplitudes
