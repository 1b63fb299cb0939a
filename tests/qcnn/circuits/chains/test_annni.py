import cirq
import numpy as np
import numpy.typing as npt
import pytest

from qcnn.circuits.chains.annni import (
    ANTIPHASE,
    CHAIN,
    FERROMAGNETIC,
    MIN_H,
    PARAMAGNETIC,
    antiphase_line,
    floating_line,
    ising_line,
)
from qcnn.circuits.chains.ground_states import RESOLUTION, ground_state

# Points in each phase, near the lines, and on both training lines.
POINTS = [(0.0, 0.5), (0.0, 1.5), (0.2, 0.5), (0.9, 0.2), (0.7, 0.3), (0.6, 1.5), (0.3, 0.0), (0.5, 0.0), (0.8, 0.0)]
# Signs of X in the antiphase.
_PERIOD = (1, 1, -1, -1)


def _hamiltonian(n: int, kappa: float, h: float) -> npt.NDArray[np.float64]:
    """Return the matrix of the published Hamiltonian, built with cirq."""
    x, z = ([gate(qubit) for qubit in cirq.LineQubit.range(n)] for gate in (cirq.X, cirq.Z))
    terms = [-1.0 * x[i] * x[i + 1] for i in range(n - 1)] + [kappa * x[i] * x[i + 2] for i in range(n - 2)]
    terms += [-h * z[i] for i in range(n)]
    matrix: npt.NDArray[np.float64] = cirq.PauliSum.from_pauli_strings(terms).matrix(cirq.LineQubit.range(n)).real
    return matrix


def _in_x_basis(state: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    amplitudes, n = state.astype(np.float64), len(state).bit_length() - 1
    for _ in range(n):
        first, second = amplitudes.reshape(2, -1)
        amplitudes = np.stack([first + second, first - second], axis=1).ravel() / np.sqrt(2)
    return amplitudes


@pytest.mark.parametrize("n", [4, 5, 7, 8])
@pytest.mark.parametrize(("kappa", "h"), POINTS)
def test_ground_state_is_lowest_eigenvector_of_full_matrix(n: int, kappa: float, h: float) -> None:
    matrix, ground = _hamiltonian(n, kappa, max(h, MIN_H)), ground_state(CHAIN, n, kappa, h)
    assert ground.energy == pytest.approx(np.linalg.eigvalsh(matrix)[0], abs=1e-9)
    state = ground.state.astype(np.float64)
    assert np.linalg.norm(state) == pytest.approx(1, abs=1e-5)
    assert np.abs(matrix @ state - ground.energy * state).max() < 40 * RESOLUTION


@pytest.mark.parametrize("n", [6, 9])
@pytest.mark.parametrize(("kappa", "h"), POINTS)
def test_ground_state_is_even_under_flip_and_reflection(n: int, kappa: float, h: float) -> None:
    state = ground_state(CHAIN, n, kappa, h).state
    flipped = state * (1 - 2 * (np.bitwise_count(np.arange(2**n)) & 1).astype(np.float32))
    np.testing.assert_array_equal(flipped, state)
    reflected = state.reshape((2,) * n).transpose(range(n - 1, -1, -1)).ravel()
    assert reflected == pytest.approx(state, abs=2 * RESOLUTION)
    # The ground state of a field has no negative amplitudes in the basis of X.
    assert _in_x_basis(state).min() > -1e-4


@pytest.mark.parametrize(("kappa", "signs"), [(0.0, (1,)), (0.3, (1,)), (0.8, _PERIOD), (1.0, _PERIOD)])
def test_state_without_field_is_even_sum_of_orders(kappa: float, signs: tuple[int, ...]) -> None:
    """The limit of a small field in the even sector, to the order of the field."""
    n = 8
    bits = np.resize([(1 - sign) // 2 for sign in signs], n)
    first = int("".join(map(str, bits)), 2)
    expected = np.zeros(2**n)
    expected[[first, 2**n - 1 - first]] = np.sqrt(1 / 2)
    state = _in_x_basis(ground_state(CHAIN, n, kappa, 0.0).state)
    # The smallest energy of an excitation, at the ends of the chain, is above 0.3.
    assert state == pytest.approx(expected, abs=MIN_H / 0.3)


@pytest.mark.parametrize("n", [9, 16])
@pytest.mark.parametrize("h", [0.4, 1.0, 1.6])
def test_energy_without_frustration_matches_free_fermions(n: int, h: float) -> None:
    """With kappa = 0 this is the Ising chain, whose energy is minus the sum of the singular values of its couplings."""
    energy = -np.linalg.svd(h * np.eye(n) + np.eye(n, k=1), compute_uv=False).sum()
    assert ground_state(CHAIN, n, 0.0, h).energy == pytest.approx(energy, abs=1e-8)


@pytest.mark.parametrize("kappa", [0.01, 0.1, 0.25, 0.4, 0.499])
def test_ising_line_matches_cited_formula(kappa: float) -> None:
    cited = (1 - kappa) / kappa * (1 - np.sqrt((1 - 3 * kappa + 4 * kappa**2) / (1 - kappa)))
    assert float(ising_line(np.array(kappa))) == pytest.approx(cited, abs=1e-9)


def test_lines_contain_exact_points() -> None:
    assert float(ising_line(np.array(0.0))) == 1
    assert [float(line(np.array(0.5))) for line in (ising_line, antiphase_line, floating_line)] == [0, 0, 0]
    kappa = np.linspace(0.51, 1, 50)
    assert np.all(floating_line(kappa) < antiphase_line(kappa))


@pytest.mark.parametrize(
    ("kappa", "h", "expected"),
    [
        (0.0, 0.999, FERROMAGNETIC),
        (0.0, 1.001, PARAMAGNETIC),
        (0.25, 0.55, FERROMAGNETIC),
        (0.25, 0.552, PARAMAGNETIC),
        (0.499, 0.0, FERROMAGNETIC),
        # The three phases meet here. In any field this is the paramagnet.
        (0.5, 0.0, PARAMAGNETIC),
        (0.501, 0.0, ANTIPHASE),
        (1.0, 0.704, ANTIPHASE),
        (1.0, 0.705, PARAMAGNETIC),
        # Between the floating line and the antiphase line.
        (1.0, 0.6, ANTIPHASE),
    ],
)
def test_class_follows_lines(kappa: float, h: float, expected: int) -> None:
    assert CHAIN.class_of(np.array([kappa]), np.array([h])).tolist() == [expected]


def test_order_of_ground_states_matches_classes() -> None:
    """Far from the lines, X X of neighbors, X X of next neighbors, and Z distinguish the phases."""
    n = 12
    numbers = np.arange(2**n)
    x = 1 - 2 * ((numbers >> np.arange(n - 1, -1, -1)[:, None]) & 1)
    for kappa, h in ((0.1, 0.2), (0.9, 0.1), (0.3, 1.8)):
        state = ground_state(CHAIN, n, kappa, h).state
        weight = _in_x_basis(state) ** 2
        near, next_near = (float(np.mean(x[:-step] * x[step:] @ weight)) for step in (1, 2))
        z = float(np.mean(x @ state.astype(np.float64) ** 2))
        found = FERROMAGNETIC if near > 0.8 else ANTIPHASE if next_near < -0.8 else PARAMAGNETIC if z > 0.8 else -1
        assert [found] == CHAIN.class_of(np.array([kappa]), np.array([h])).tolist()


def test_ground_state_is_independent_of_start_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    pcg64 = np.random.PCG64
    before = [ground_state(CHAIN, 9, *point).state for point in POINTS]
    monkeypatch.setattr(np.random, "PCG64", lambda seed: pcg64(seed + 1))
    for point, state in zip(POINTS, before, strict=True):
        assert ground_state(CHAIN, 9, *point).state.tobytes() == state.tobytes()
