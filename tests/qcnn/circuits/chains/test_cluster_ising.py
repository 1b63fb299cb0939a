import cirq
import numpy as np
import numpy.typing as npt
import pytest

from qcnn.circuits.chains.cluster_ising import (
    MAX_H1,
    MAX_H2,
    RESOLUTION,
    SECTORS,
    Sector,
    boundaries,
    ground_state,
    is_spt,
    sector_energies,
    string_order,
)

# Points in each phase and near its boundaries: SPT, paramagnet, antiferromagnet.
FIELDS = [(0.0, 0.0), (0.5, 0.2), (0.9, 0.0), (0.3, 1.4), (1.5, 0.5), (0.4, -1.3), (1.6, -1.6)]


def _hamiltonian(n: int, h1: float, h2: float) -> npt.NDArray[np.float64]:
    """Return the matrix of the published Hamiltonian, built with cirq."""
    x, z = ([gate(qubit) for qubit in cirq.LineQubit.range(n)] for gate in (cirq.X, cirq.Z))
    terms = [-1.0 * z[i] * x[i + 1] * z[i + 2] for i in range(n - 2)]
    terms += [-h1 * x[i] for i in range(n)] + [-h2 * x[i] * x[i + 1] for i in range(n - 1)]
    matrix: npt.NDArray[np.float64] = cirq.PauliSum.from_pauli_strings(terms).matrix(cirq.LineQubit.range(n)).real
    return matrix


def _expectation(string: cirq.PauliString[cirq.LineQubit], state: npt.NDArray[np.float32]) -> float:
    mapping = {qubit: qubit.x for qubit in cirq.LineQubit.range(len(state).bit_length() - 1)}
    return string.expectation_from_state_vector(state.astype(np.complex64), mapping, atol=1e-4).real


@pytest.mark.parametrize("n", [4, 5, 7, 8])
@pytest.mark.parametrize(("h1", "h2"), FIELDS)
def test_ground_state_is_lowest_eigenvector_of_sector(n: int, h1: float, h2: float) -> None:
    matrix, ground = _hamiltonian(n, h1, h2), ground_state(n, h1, h2)
    assert ground.energy == pytest.approx(np.linalg.eigvalsh(matrix)[0], abs=1e-9)
    assert ground.state.dtype == np.float32
    state = ground.state.astype(np.float64)
    # Amplitudes are rounded.
    assert np.linalg.norm(state) == pytest.approx(1, abs=1e-5)
    assert np.abs(matrix @ state - ground.energy * state).max() < 20 * RESOLUTION
    for first, sign in enumerate(ground.sector):
        product: cirq.PauliString[cirq.LineQubit] = cirq.PauliString(map(cirq.X, cirq.LineQubit.range(first, n, 2)))
        assert _expectation(product, ground.state) == pytest.approx(sign, abs=1e-5)


@pytest.mark.parametrize("n", [4, 7, 12])
def test_ground_state_without_fields_is_cluster_state(n: int) -> None:
    qubits = cirq.LineQubit.range(n)
    ground = ground_state(n, 0, 0)
    assert ground.energy == pytest.approx(-(n - 2))
    for i in range(n - 2):
        stabilizer = cirq.Z(qubits[i]) * cirq.X(qubits[i + 1]) * cirq.Z(qubits[i + 2])
        assert _expectation(stabilizer, ground.state) == pytest.approx(1, abs=1e-5)
    assert string_order(ground.state, 0, n - 2 + n % 2) == pytest.approx(1, abs=1e-5)
    # The open ends are free, so each sector has one ground state. The symmetric one is returned.
    assert sector_energies(n, 0, 0) == pytest.approx(-(n - 2))
    assert ground.sector == Sector(1, 1)


@pytest.mark.parametrize("n", [9, 12])
@pytest.mark.parametrize("h1", [0.5, 1.0, 1.4])
def test_energy_at_h2_zero_matches_two_ising_chains(n: int, h1: float) -> None:
    """With h2 = 0, X of every second site and the Z X Z between them commute with those of the other half.

    Each half has the algebra of an open Ising chain in a transverse field, whose energy is that of free fermions: the
    singular values of a matrix of field and coupling. It is critical where these are equal, at h1 = 1.
    """
    energy = 0.0
    for sites in (-(-n // 2), n // 2):
        modes = h1 * np.eye(sites) + np.eye(sites, k=1)
        energy -= np.linalg.svd(modes, compute_uv=False).sum()
    assert ground_state(n, h1, 0).energy == pytest.approx(energy, abs=1e-8)


@pytest.mark.parametrize(
    ("h1", "h2", "low", "high"), [(0.3, 0.0, 0.85, 1), (0.5, -0.5, 0.7, 1), (1.6, 0.5, 0, 0.1), (0.3, -1.6, 0, 0.15)]
)
def test_string_order_exists_in_spt_phase_only(h1: float, h2: float, low: float, high: float) -> None:
    assert low <= string_order(ground_state(12, h1, h2).state, 1, 9) <= high


def test_string_order_matches_published_operator() -> None:
    n, (first, last) = 7, (0, 6)
    qubits = cirq.LineQubit.range(n)
    string = cirq.Z(qubits[0]) * cirq.X(qubits[1]) * cirq.X(qubits[3]) * cirq.X(qubits[5]) * cirq.Z(qubits[6])
    state = ground_state(n, 0.8, 0.1).state
    assert string_order(state, first, last) == pytest.approx(_expectation(string, state), abs=1e-5)


def test_ground_state_is_reflection_symmetric() -> None:
    # With an odd number of sites, both ends are in the same sublattice.
    state = ground_state(9, 0.7, -0.4).state
    reflected = state.reshape((2,) * 9).transpose(range(8, -1, -1)).ravel()
    assert reflected == pytest.approx(state, abs=4 * RESOLUTION)


def test_ground_state_is_deterministic() -> None:
    ground_state(9, 0.1, 0.1)
    for fields in FIELDS:
        assert ground_state(12, *fields).state.tobytes() == ground_state(12, *fields).state.tobytes()


@pytest.mark.parametrize("n", [9, 12])
def test_ground_state_is_independent_of_start_vector(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pcg64 = np.random.PCG64
    before = [ground_state(n, *fields).state for fields in FIELDS]
    monkeypatch.setattr(np.random, "PCG64", lambda seed: pcg64(seed + 1))
    for fields, state in zip(FIELDS, before, strict=True):
        assert ground_state(n, *fields).state.tobytes() == state.tobytes()
        # Amplitudes are exact multiples of the resolution, so rounding to float32 does not change them.
        assert np.all(state / RESOLUTION == np.round(state / RESOLUTION))
        assert not np.any(np.signbit(state[state == 0]))


def test_symmetric_sector_is_first() -> None:
    assert SECTORS[0] == (1, 1)
    assert len(set(SECTORS)) == 4


# h1 and h2 of both boundaries of infinite chains in the figure of arXiv:1810.03787. Source of the digitized values:
# github.com/Jaybsoni/Quantum-Convolutional-Neural-Networks.
PUBLISHED = (
    *((0.1000, -1.004, 0.8439), (0.2556, -1.0009, 0.6636), (0.4111, -1.024, 0.5033), (0.5667, -1.049, 0.3631)),
    *((0.7222, -1.079, 0.2229), (0.8778, -1.109, 0.09766), (1.0333, -1.154, -0.02755), (1.1889, -1.225, -0.1377)),
    *((1.3444, -1.285, -0.2479), (1.5000, -1.35, -0.3531)),
)


def test_boundaries_contain_exact_points() -> None:
    assert [float(ends[0]) for ends in boundaries(np.array([0.0]))] == [-1, 1]
    line = np.array([0.0, 0.5, 0.999, 1.0, 1.001, 1.6])
    assert is_spt(line, np.zeros(6)).tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize(("h1", "below", "above"), PUBLISHED)
def test_boundaries_match_published_figure(h1: float, below: float, above: float) -> None:
    assert [float(ends[0]) for ends in boundaries(np.array([h1]))] == pytest.approx([below, above], abs=0.03)


@pytest.mark.parametrize("h1", [0.2, 0.7, 1.2])
def test_sector_energies_are_degenerate_in_spt_phase_only(h1: float) -> None:
    (_, above) = boundaries(np.array([h1]))

    def spread(qubits: int, h2: float) -> float:
        return qubits * float(np.ptp(sector_energies(qubits, h1, h2)))

    assert spread(11, float(above[0]) - 0.2) < spread(7, float(above[0]) - 0.2)
    assert spread(11, float(above[0]) + 0.2) > spread(7, float(above[0]) + 0.2)


def test_long_string_order_matches_is_spt() -> None:
    fields = [(h1, h2) for h1 in np.linspace(0.1, MAX_H1, 6) for h2 in np.linspace(-MAX_H2, MAX_H2, 9)]
    strings = np.array([string_order(ground_state(9, h1, h2).state, 1, 7) for h1, h2 in fields])
    inside = is_spt(*np.array(fields, np.float64).T)
    assert strings[inside].mean() > 5 * np.abs(strings[~inside]).mean()
    assert np.mean((strings > 0.2) == inside) > 0.9
