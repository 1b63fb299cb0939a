"""Exponents that depend on inputs: their form, values and domains."""

import cirq
import numpy as np
import pytest
import sympy

from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats import cirq_json, openqasm
from qcnn.circuits.formats.embedded import parse_input_names
from qcnn.circuits.input_expressions import array_form, invalid_rows
from qcnn.circuits.input_functions import FUNCTIONS, evaluate_form
from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError
from qcnn.simulators.structure.gates import read_network

X, Y, W, V = sympy.symbols("x y w v")
_POINT = {"x": 0.3, "y": 0.7}


def _network(exponent: sympy.Expr, inputs: tuple[sympy.Symbol, ...] = (X, Y)) -> object:
    qubits = ring(1)
    used = [symbol for symbol in (W, V) if symbol in exponent.free_symbols]
    ansatz = Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** exponent), used, qubits, inputs)
    return read_network(ansatz, qubits, Preparation("circuit", len(inputs)))


@pytest.mark.parametrize(
    "exponent",
    [
        X + Y,
        W * X + V * sympy.sin(Y) + 0.3,
        (sympy.pi - X) * (sympy.pi - Y) / sympy.pi,
        (W + 2 * V) * X * Y - W / 3,
        (W * X + V) * Y + sympy.sqrt(X) / (1 + Y**2),
        sympy.exp(-X) * W + sympy.log(Y) + sympy.Abs(X - Y),
        *(getattr(sympy, name)(X * Y) for name in FUNCTIONS),
    ],
    ids=str,
)
def test_exponent_has_the_value_of_the_expression(exponent: sympy.Expr) -> None:
    inputs = tuple(symbol for symbol in (X, Y) if symbol in exponent.free_symbols)
    network = _network(exponent, inputs)
    (found,) = network.exponents_by_sample  # type: ignore[attr-defined]
    weights = {W: 1.7, V: -0.4}
    values = [weights[symbol] for symbol in (W, V) if symbol in exponent.free_symbols]
    total = found.constant + sum(coefficient * values[index] for index, coefficient in found.coefficients)
    for term in found.terms:
        factor = 1.0 if term.parameter is None else values[term.parameter]
        form = array_form(term.expression, [*_POINT])
        total += term.coefficient * factor * evaluate_form(form, [*_POINT.values()], lambda name: getattr(np, name))
    expected = exponent.subs({**weights, X: _POINT["x"], Y: _POINT["y"]})
    assert total == pytest.approx(float(expected), abs=1e-14)


@pytest.mark.parametrize(
    ("exponent", "reason"),
    [
        (W * V * X + Y, "is not linear in the parameters"),
        (sympy.sin(W * X) + Y, "is not linear in the parameters"),
        (W**2 + X + Y, "is not linear in the parameters"),
        (sympy.gamma(X) + Y, r"with gamma\(x\), which is no elementary function"),
        (sympy.I * X + Y, "is not a finite number"),
        (sympy.oo * X + Y, "."),
    ],
)
def test_other_expressions_are_one_clear_error(exponent: sympy.Expr, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model: an operation has an exponent .*{reason}.* Given: ") as error:
        _network(exponent)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("inputs", "kind", "line"),
    [
        ((X, Y), Preparation("ry", 1), "encoding: must be circuit with a circuit that has inputs. Given: ry with x, y"),
        ((X, Y), Preparation("circuit", 1), "inputs: must be those of the circuit, x, y. Given: 1 inputs"),
        ((X, Y, V), Preparation("circuit", 3), "inputs: must all be used by gates of the circuit. Given: v"),
    ],
)
def test_inputs_that_do_not_fit_are_one_clear_error(
    inputs: tuple[sympy.Symbol, ...], kind: Preparation, line: str
) -> None:
    qubits = ring(1)
    ansatz = Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** (X + W * Y)), W, qubits, inputs)
    with pytest.raises(ConfigError) as error:
        read_network(ansatz, qubits, kind)
    assert str(error.value) == line


def test_rows_outside_of_a_domain_are_found() -> None:
    columns = {"x": np.array([1.0, -1.0, 0.5]), "y": np.array([0.0, 1.0, 2.0])}
    found = {str(each): mask.tolist() for each, mask in invalid_rows([sympy.log(X), X / Y, sympy.cos(X)], columns)}
    assert found == {"log(x)": [False, True, False], "x/y": [True, False, False]}


@pytest.mark.parametrize("text", ["", "x,", "x,x", ",x"])
def test_invalid_names_are_one_clear_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^inputs: must be different names .* Given: "):
        parse_input_names(text)


def test_circuit_with_functions_of_inputs_round_trips_as_json() -> None:
    qubits = ring(2)
    angles = [
        W * X + X**2 / 2,
        sympy.sqrt(X) * sympy.asin(Y) / (1 + X),
        *(getattr(sympy, name)(Y) for name in FUNCTIONS),
    ]
    ansatz = Ansatz(cirq.Circuit(cirq.rx(angle)(qubits[0]) for angle in angles), W, qubits, [X, Y])
    assert cirq_json.read(cirq_json.to_json(ansatz), "a.json") == ansatz


@pytest.mark.parametrize("power", [X**9, (X**2 + 1) ** 2, sympy.Integer(7) ** X, (10 * X) ** sympy.Rational(1, 3)])
def test_large_powers_in_a_file_are_one_clear_error(power: sympy.Expr) -> None:
    content = cirq.to_json([cirq.Circuit(cirq.X(ring(1)[0]) ** power), [], ring(1), [X]])
    with pytest.raises(ConfigError, match=r"^model: the file's circuit must consist of gates"):
        cirq_json.read(content, "a.json")


_FILE = """OPENQASM 3.0;
include "stdgates.inc";
input float[64] u;
input float[64] w;
input float[64] v;
qubit[1] q;
rx((pi - u)*(pi - v)) q[0];
ry(w*u + 2*w) q[0];
"""


def test_inputs_of_openqasm_keep_their_values() -> None:
    ansatz = openqasm.read(_FILE, "a.qasm", ["v", "u"])
    assert [[symbol.name for symbol in symbols] for symbols in (ansatz.inputs, ansatz.symbols)] == [["v", "u"], ["w"]]
    values = {"u": 0.4, "v": -0.9, "w": 0.35}
    found = cirq.unitary(cirq.resolve_parameters(ansatz.circuit, values))
    # The parameter is in units of pi.
    angle = np.pi * values["w"] * (values["u"] + 2)
    expected = cirq.unitary(cirq.ry(angle)) @ cirq.unitary(cirq.rx((np.pi - values["u"]) * (np.pi - values["v"])))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_unknown_input_of_a_file_is_one_clear_error() -> None:
    with pytest.raises(
        ConfigError, match=r"^inputs: must be parameters of the circuit, u, w, v\. Given: z with a\.qasm$"
    ):
        openqasm.read(_FILE, "a.qasm", ["u", "z"])
