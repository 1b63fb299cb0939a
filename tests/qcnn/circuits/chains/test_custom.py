"""Hamiltonians of users' functions: ground states against NumPy, and errors."""

import itertools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import cirq
import numpy as np
import pytest

from qcnn.circuits.ansatz import ring
from qcnn.circuits.chains import custom
from qcnn.circuits.chains.ground_states import RESOLUTION, start_vector
from qcnn.errors import ConfigError

Install = Callable[..., str]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes a function importable and returns its name, `module:function`."""

    def install(function: Any, **attributes: Any) -> str:
        module = types.ModuleType("users_hamiltonians")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        vars(module)["chain"] = function
        for name, value in attributes.items():
            setattr(function, name, value)
        return f"{module.__name__}:chain"

    return install


def _xyz(qubits: Sequence[cirq.Qid], h: float) -> tuple[cirq.PauliSum, str]:
    """Return a Hamiltonian without symmetries of the chain, with a constant and products of two Y."""
    terms = [
        factor * (1 + 0.1 * i) * gate(a) * gate(b)
        for i, (a, b) in enumerate(itertools.pairwise(qubits))
        for gate, factor in ((cirq.X, 1.0), (cirq.Y, 0.7), (cirq.Z, -0.4))
    ]
    terms += [h * (1 + 0.2 * i) * cirq.X(qubit) + 0.3 * cirq.Z(qubit) for i, qubit in enumerate(qubits)]
    return sum(terms, cirq.PauliSum()) + 0.5, "one"


@pytest.mark.parametrize(("n", "h"), [(2, 0.3), (5, 1.7), (8, 0.3), (10, 0.3)])
def test_ground_state_is_lowest_eigenvector_of_full_matrix(n: int, h: float, install: Install) -> None:
    name = install(_xyz, parameters={"h": (0.0, 2.0)})
    matrix = _xyz(ring(n), h)[0].matrix(ring(n)).real
    terms, label = custom.load(name).evaluate(n, (h,))
    ground = custom.ground_state(terms, n)
    state = ground.state.astype(np.float64)
    assert label == "one"
    assert ground.energy == pytest.approx(np.linalg.eigvalsh(matrix)[0], abs=1e-8)
    assert np.linalg.norm(state) == pytest.approx(1, abs=1e-5)
    assert np.abs(matrix @ state - ground.energy * state).max() < 60 * RESOLUTION
    assert ground.state.tobytes() == custom.ground_state(terms, n).state.tobytes()
    assert state[np.argmax(np.abs(state))] > 0


# Dense and iterative diagonalization.
@pytest.mark.parametrize("n", [6, 10])
def test_degenerate_ground_state_is_projection_of_start_vector(n: int) -> None:
    strings = [f"{'I' * i}ZZ{'I' * (n - 2 - i)}" for i in range(n - 1)]
    state = custom.ground_state([(letters, -2.0) for letters in strings], n).state
    expected = np.zeros(2**n)
    expected[[0, -1]] = start_vector(2**n)[[0, -1]]
    expected /= np.linalg.norm(expected)
    expected *= np.sign(expected[np.argmax(np.abs(expected))])
    assert state == pytest.approx(expected, abs=RESOLUTION)


def test_more_than_16_ground_states_raises() -> None:
    # Five of ten qubits are free.
    terms = [(f"{'I' * i}Z{'I' * (9 - i)}", 1.0) for i in range(5)]
    with pytest.raises(ConfigError, match=r"^data: must have at most 16 ground states; .* Given: more on 10 qubits"):
        custom.ground_state(terms, 10)


def test_parameters_and_training_lines_are_read(install: Install) -> None:
    lines = [((0, 0), (0, 2)), ((-1, 1), (1, 1))]
    name = install(lambda qubits, g, h: None, parameters={"g": (-1, 1), "h": (0, 2.5)}, training_lines=lines)
    loaded = custom.load(name)
    assert [(each.name, each.minimum, each.maximum) for each in loaded.parameters] == [("g", -1, 1), ("h", 0, 2.5)]
    assert loaded.training_lines == (((0, 0), (0, 2)), ((-1, 1), (1, 1)))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, r"attribute parameters must map one or two names to their ranges, such as .* Given: None from"),
        ({"parameters": {}}, "attribute parameters must map"),
        ({"parameters": dict.fromkeys("abc", (0, 1))}, "attribute parameters must map"),
        ({"parameters": {"label": (0, 1)}}, "names of parameters must be Python names other than state, .* Given: 'la"),
        ({"parameters": {"J'": (0, 1)}}, "names of parameters must be Python names"),
        ({"parameters": {"h": (1, 1)}}, "the range of parameter h must be two finite numbers in ascending order"),
        ({"parameters": {"h": (0, float("inf"))}}, "the range of parameter h must be two finite numbers"),
        ({"parameters": {"h": 2}}, "the range of parameter h must be two finite numbers"),
        ({"parameters": {"h": (0, 1)}, "training_lines": 3}, r"training_lines must contain pairs of points \(h\)"),
        ({"parameters": {"h": (0, 1)}, "training_lines": [((0,), (0, 1))]}, "training_lines must contain pairs"),
        (
            {"parameters": {"h": (0, 1)}, "training_lines": [((0,), (2,))]},
            r"ends of training_lines must be in the range of parameter h, 0 to 1\. Given: 2 from",
        ),
    ],
)
def test_load_invalid_attribute_raises(attributes: dict[str, Any], message: str, install: Install) -> None:
    with pytest.raises(ConfigError, match=f"^data: .*{message}"):
        custom.load(install(lambda qubits, h: None, **attributes))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "must return a cirq.PauliSum and a label. Given: NoneType from"),
        ((1.0, "a"), "must return a cirq.PauliSum and a label. Given: float and a label from"),
        ((1j * cirq.X(ring(4)[0]), "a"), "must have real, finite coefficients"),
        ((float("nan") * cirq.X(ring(4)[0]), "a"), "must have real, finite coefficients"),
        ((cirq.X(cirq.LineQubit(0)) * 1.0, "a"), "must use the given qubits .* only"),
        (
            (cirq.X(ring(4)[0]) * cirq.Y(ring(4)[1]) + cirq.Z(ring(4)[0]), "a"),
            r"must have an even number of Y in each term, so that its matrix is real\. Given: .*Y.* from",
        ),
        ((cirq.X(ring(4)[0]) * 1.0, 0.5), "the label must be a whole number or printable text"),
        ((cirq.X(ring(4)[0]) * 1.0, ""), "the label must be a whole number or printable text"),
        ((cirq.X(ring(4)[0]) * 1.0, None), "the label must be a whole number or printable text"),
    ],
)
def test_evaluate_invalid_result_raises(result: Any, message: str, install: Install) -> None:
    loaded = custom.load(install(lambda qubits, h: result, parameters={"h": (0, 1)}))
    with pytest.raises(ConfigError, match=f"^data: {message}"):
        loaded.evaluate(4, (0.5,))


def test_function_that_fails_raises(install: Install) -> None:
    loaded = custom.load(install(lambda qubits, h: 1 / 0, parameters={"h": (0, 1)}))
    with pytest.raises(ConfigError, match=r"^data: cannot be imported or fails \(ZeroDivisionError: .*\)\. Given: "):
        loaded.evaluate(4, (0.5,))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("qcnn.circuits.chains:CHAINS", "must be a function. Given: tuple from qcnn.circuits.chains:CHAINS"),
        ("os:getcwd", "must not be a function of Python's standard library. Given: os:getcwd"),
        ("qcnn.nowhere:f", "cannot be imported or fails .* Given: qcnn.nowhere:f"),
        ("qcnn.circuits.chains:f", "cannot be imported or fails .* Given: qcnn.circuits.chains:f"),
    ],
)
def test_load_other_name_raises(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^data: {message}"):
        custom.load(name)
