"""Phase boundaries without a formula: python -m benchmarks.phase_boundary.

Computes the tables in `qcnn.circuits.chains.cluster_ising` and `qcnn.circuits.chains.bond_alternating_xxz`.

The boundary of the SPT phase of the cluster-Ising chain to the paramagnet is computed by finite-size scaling. At the
boundary, the gap closes. There, the range of the ground energies of the four sectors of an open chain, times its
length, is equal for all lengths. Chains of 9, 11, 13 and 15 sites give three crossings, which are extrapolated to
infinite length in 1 / length^2.

Open ends affect the antiferromagnet. Its boundary is computed on a ring of 16 sites with the published criterion: the
peak of the second derivative of the energy with respect to h2. Known exact values show the accuracy of both methods: 1
and -1 at h1 = 0, and 0 at h1 = 1.

The boundary of the trivial phase to the antiferromagnet of the bond-alternating XXZ chain is computed by finite-size
scaling, too. The two antiferromagnetic states are even and odd under the flip of all spins. The difference between the
ground energies of both sectors, times the length, is equal for all lengths at the boundary. Chains of 8 to 16 sites
give four crossings. Known exact values are J' / J = 1 at delta = 1, and 2 / delta for large delta.
"""

import dataclasses
import functools
import itertools

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import eigsh

from qcnn.circuits.chains import chain_of
from qcnn.circuits.chains.chain import Chain
from qcnn.circuits.chains.cluster_ising import sector_energies
from qcnn.circuits.chains.ground_states import sector_energies as energies_of_sectors

_LENGTHS = (9, 11, 13, 15)
_RING = 16
_XXZ_LENGTHS = (8, 10, 12, 14, 16)
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


def antiferromagnet_boundary(delta: float) -> float:
    """Return J' / J at the boundary between the trivial phase and the antiferromagnet of the XXZ chain."""
    estimate = min(1.0, 2 / delta)
    pairs = list(itertools.pairwise(_XXZ_LENGTHS))
    crossings = [brentq(_xxz_difference, 0.8 * estimate, 1.15 * estimate, (delta, *pair)) for pair in pairs]
    return float(np.polyfit([1 / (a * b) for a, b in pairs], crossings, 1)[1])


def _xxz_difference(ratio: float, delta: float, *lengths: int) -> float:
    """Return the difference between the scaled energy differences of two lengths."""
    # Both sectors without magnetization that have equal signs under flip and reflection.
    chain = _xxz()
    shorter, longer = (qubits * float(np.ptp(energies_of_sectors(chain, qubits, delta, ratio))) for qubits in lengths)
    return shorter - longer


@functools.cache
def _xxz() -> Chain:
    return dataclasses.replace(chain_of("bond_alternating_xxz"), sectors=lambda _: ((0, 1, 1), (0, -1, -1)))


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
    """Print the boundaries."""
    print(f"{'h1':>4} {'lower':>9} {'upper':>9}")
    for h1 in np.arange(17) / 10:
        print(f"{h1:4.1f} {lower_boundary(h1):9.4f} {upper_boundary(h1):9.4f}", flush=True)
    print(f"{'delta':>5} {'ratio':>9} {'2 / delta':>9}")
    for delta in (*(np.arange(4, 17) / 4), 10.0):
        print(f"{delta:5.2f} {antiferromagnet_boundary(delta):9.4f} {2 / delta:9.4f}", flush=True)


if __name__ == "__main__":
    main()
