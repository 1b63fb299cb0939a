"""Boundaries of the SPT phase of the cluster-Ising Hamiltonian: python -m benchmarks.phase_boundary.

Computes the tables in `qcnn.circuits.chains.cluster_ising`.

The boundary to the paramagnet is computed by finite-size scaling. At the boundary, the gap closes. There, the range of
the ground energies of the four sectors of an open chain, times its length, is equal for all lengths. Chains of 9, 11,
13 and 15 sites give three crossings, which are extrapolated to infinite length in 1 / length^2.

Open ends affect the antiferromagnet. Its boundary is computed on a ring of 16 sites with the published criterion: the
peak of the second derivative of the energy with respect to h2. Known exact values show the accuracy of both methods: 1
and -1 at h1 = 0, and 0 at h1 = 1.
"""

import functools
import itertools

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import eigsh

from qcnn.circuits.chains.cluster_ising import sector_energies

_LENGTHS = (9, 11, 13, 15)
_RING = 16
_STEP = 0.02
# h1, and lower and upper limits of h2 for the search.
_UPPER_SEARCH = ((0.0, 0.4, 1.0, 1.6), (0.8, 0.35, -0.15, -0.55), (1.1, 0.65, 0.15, -0.25))
_LOWER_SEARCH = ((0.0, 1.0, 1.6), (-1.1, -1.25, -1.45), (-0.9, -1.05, -1.25))


def upper_boundary(h1: float) -> float:
    """Return h2 at the boundary to the paramagnet."""
    low, high = (float(np.interp(h1, _UPPER_SEARCH[0], ends)) for ends in _UPPER_SEARCH[1:])
    pairs = list(itertools.pairwise(_LENGTHS))
    crossings = [brentq(_difference, low, high, (h1, *pair)) for pair in pairs]
    inverse = [1 / (a * b) for a, b in pairs]
    return float(np.polyfit(inverse, crossings, 1)[1])


def lower_boundary(h1: float) -> float:
    """Return h2 at the boundary to the antiferromagnet."""
    low, high = (float(np.interp(h1, _LOWER_SEARCH[0], ends)) for ends in _LOWER_SEARCH[1:])
    minimum = minimize_scalar(
        lambda h2: _curvature(h1, h2), bounds=(low, high), method="bounded", options={"xatol": 1e-3}
    )
    return float(minimum.x)


def _difference(h2: float, h1: float, *lengths: int) -> float:
    """Return the difference between the scaled energy ranges of two lengths."""
    shorter, longer = (qubits * float(np.ptp(sector_energies(qubits, h1, h2))) for qubits in lengths)
    return shorter - longer


def _curvature(h1: float, h2: float) -> float:
    before, center, after = (_ring_energy(h1, h2 + step) for step in (-_STEP, 0, _STEP))
    return (before - 2 * center + after) / _STEP**2


@functools.cache
def _ring() -> tuple[csr_matrix, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the sum of -Z X Z in the basis of X, and the sums of X and X X of the basis states."""
    number = np.arange(2**_RING)
    x = 1.0 - 2.0 * ((number >> np.arange(_RING)[:, None]) & 1)
    flipped = np.concatenate([number ^ (1 << i) ^ (1 << (i + 2) % _RING) for i in range(_RING)])
    signs = -np.roll(x, -1, axis=0).ravel()
    cluster = csr_matrix((signs, (np.tile(number, _RING), flipped)))
    return cluster, x.sum(axis=0), (x * np.roll(x, 1, axis=0)).sum(axis=0)


def _ring_energy(h1: float, h2: float) -> float:
    cluster, field, coupling = _ring()
    matrix = csr_matrix(cluster - diags(h1 * field + h2 * coupling))
    start = np.ones(len(field))
    return float(eigsh(matrix, k=1, which="SA", v0=start, return_eigenvectors=False, tol=1e-9)[0])


def main() -> None:
    """Print both boundaries."""
    print(f"{'h1':>4} {'lower':>9} {'upper':>9}")
    for h1 in np.arange(17) / 10:
        print(f"{h1:4.1f} {lower_boundary(h1):9.4f} {upper_boundary(h1):9.4f}", flush=True)


if __name__ == "__main__":
    main()
