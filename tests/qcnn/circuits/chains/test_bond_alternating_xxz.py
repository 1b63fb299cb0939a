import itertools

import cirq
import numpy as np
import numpy.typing as npt
import pytest

from qcnn.circuits.chains.bond_alternating_xxz import (
    CHAIN,
    MAX_DELTA,
    SYMMETRY_BROKEN,
    TOPOLOGICAL,
    TRIVIAL,
    boundaries,
)
from qcnn.circuits.chains.ground_states import RESOLUTION, ground_state

POINTS = [(0.0, 0.5), (0.0, 2.0), (1.0, 1.0), (0.5, 0.0), (3.0, 0.2), (3.0, 1.0), (4.0, 3.0), (1.5, 2.5)]


def _hamiltonian(n: int, delta: float, ratio: float) -> npt.NDArray[np.float64]:
    """Return the matrix of the published Hamiltonian, built with cirq."""
    qubits = cirq.LineQubit.range(n)
    terms = []
    for i, (a, b) in enumerate(itertools.pairwise(qubits)):
        coupling = ratio if i % 2 else 1.0
        pairs = (gate(a) * gate(b) for gate in (cirq.X, cirq.Y, cirq.Z))
        terms += [coupling * factor * pair for factor, pair in zip((1.0, 1.0, delta), pairs, strict=True)]
    matrix = cirq.PauliSum.from_pauli_strings(terms).matrix(qubits)
    assert not matrix.imag.any()
    real: npt.NDArray[np.float64] = matrix.real
    return real


@pytest.mark.parametrize("n", [4, 6, 8])
@pytest.mark.parametrize(("delta", "ratio"), POINTS)
def test_ground_state_is_lowest_eigenvector_of_full_matrix(n: int, delta: float, ratio: float) -> None:
    matrix, ground = _hamiltonian(n, delta, ratio), ground_state(CHAIN, n, delta, ratio)
    assert ground.energy == pytest.approx(np.linalg.eigvalsh(matrix)[0], abs=1e-9)
    state = ground.state.astype(np.float64)
    assert np.linalg.norm(state) == pytest.approx(1, abs=1e-5)
    assert np.abs(matrix @ state - ground.energy * state).max() < 60 * RESOLUTION
    # Eigenvalues of the magnetization, of the flip of all spins and of the reflection.
    magnetization, flip, reflection = ground.sector
    assert magnetization == 0
    assert not state[np.bitwise_count(np.arange(2**n)) != n // 2].any()
    assert flip * state[::-1] == pytest.approx(state, abs=2 * RESOLUTION)
    reflected = state.reshape((2,) * n).transpose(range(n - 1, -1, -1)).ravel()
    assert reflection * reflected == pytest.approx(state, abs=2 * RESOLUTION)


@pytest.mark.parametrize("n", [8, 16])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.7])
def test_energy_without_delta_matches_free_fermions(n: int, ratio: float) -> None:
    """With delta = 0, X X + Y Y is twice the hopping of free fermions, which occupy all levels of negative energy."""
    couplings = np.where(np.arange(n - 1) % 2, ratio, 1.0)
    levels = np.linalg.eigvalsh(np.diag(couplings, 1) + np.diag(couplings, -1))
    assert ground_state(CHAIN, n, 0.0, ratio).energy == pytest.approx(2 * levels[levels < 0].sum(), abs=1e-8)


@pytest.mark.parametrize("delta", [0.0, 1.0, 3.0])
def test_state_of_decoupled_bonds_is_product_of_singlets(delta: float) -> None:
    ground = ground_state(CHAIN, 6, delta, 0.0)
    singlet = np.array([0, 1, -1, 0]) / np.sqrt(2)
    product = np.kron(np.kron(singlet, singlet), singlet)
    assert abs(product @ ground.state) == pytest.approx(1, abs=1e-5)
    assert ground.energy == pytest.approx(-3 * (2 + delta))


def test_boundaries_match_exact_points() -> None:
    delta = np.array([0.0, 0.5, 1.0])
    assert [ends.tolist() for ends in boundaries(delta)] == [[1, 1, 1], [1, 1, 1]]
    minimum, maximum = boundaries(np.linspace(0, MAX_DELTA, 33))
    # A translation by one site exchanges J and J'.
    assert minimum * maximum == pytest.approx(np.ones(33))
    assert np.all(np.diff(minimum) <= 0)
    # For large delta, each strong bond is a spin in the field 2 J, with the coupling J' delta to the next one. The
    # transition of this Ising chain is at J' / J = 2 / delta.
    assert minimum[-1] == pytest.approx(2 / MAX_DELTA, abs=0.01)


@pytest.mark.parametrize(
    ("delta", "ratio", "expected"),
    [
        (0.0, 0.99, TRIVIAL),
        (0.0, 1.01, TOPOLOGICAL),
        (0.5, 1.01, TOPOLOGICAL),
        (1.0, 1.0, SYMMETRY_BROKEN),
        (3.0, 0.637, TRIVIAL),
        (3.0, 0.639, SYMMETRY_BROKEN),
        (3.0, 1.0, SYMMETRY_BROKEN),
        (3.0, 1.566, SYMMETRY_BROKEN),
        (3.0, 1.568, TOPOLOGICAL),
    ],
)
def test_class_follows_boundaries(delta: float, ratio: float, expected: int) -> None:
    assert CHAIN.class_of(np.array([delta]), np.array([ratio])).tolist() == [expected]


def test_order_of_ground_states_matches_classes() -> None:
    """Far from the boundaries, staggered Z Z of distant sites and Z Z of the ends distinguish the phases.

    The two free ends of the topological phase form a singlet.
    """
    n = 12
    z = 1 - 2 * ((np.arange(2**n) >> np.arange(n - 1, -1, -1)[:, None]) & 1)
    for delta, ratio in ((0.5, 0.2), (0.5, 3.0), (4.0, 1.0)):
        weight = ground_state(CHAIN, n, delta, ratio).state.astype(np.float64) ** 2
        bulk, ends = abs(float(z[3] * z[8] @ weight)), abs(float(z[0] * z[-1] @ weight))
        found = SYMMETRY_BROKEN if bulk > 0.7 else TOPOLOGICAL if ends > 0.7 else TRIVIAL
        assert [found] == CHAIN.class_of(np.array([delta]), np.array([ratio])).tolist()
