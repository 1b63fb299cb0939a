import cirq
import pytest
import sympy
from hypothesis import given

from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats import cirq_json
from qcnn.errors import ConfigError
from tests.qcnn.simulators.random_circuits import ansatzes, repeatable

A, B = sympy.symbols("s2 s10")


@repeatable
@given(drawn=ansatzes())
def test_cirq_json_round_trip_is_exact(drawn: tuple[Ansatz, int]) -> None:
    ansatz, _ = drawn
    text = cirq_json.to_json(ansatz)
    assert text == cirq.to_json([ansatz.circuit, list(ansatz.symbols), list(ansatz.readouts)])
    again = cirq_json.read(text, "a.json")
    assert (again.circuit, again.symbols, again.readouts) == (ansatz.circuit, ansatz.symbols, ansatz.readouts)
    # The text must be identical, because the digest of a circuit depends on it.
    assert cirq_json.to_json(again) == text


def test_json_of_names_with_brackets_and_quotes_is_indented_like_cirq_json() -> None:
    symbols = tuple(map(sympy.Symbol, ("a[0], {b}", 'say "x",', "back\\\\", "é: []")))
    circuit = cirq.Circuit((cirq.X(cirq.NamedQubit(f"[{n}]}},")) ** s).with_tags("") for n, s in enumerate(symbols))
    ansatz = Ansatz(circuit, symbols, tuple(circuit.all_qubits()))
    text = cirq_json.to_json(ansatz)
    assert text == cirq.to_json([circuit, list(symbols), list(ansatz.readouts)])
    assert cirq_json.read(text, "a.json").symbols == symbols


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_built_in_circuit_round_trip(model: str) -> None:
    ansatz = circuits.build(model, 7)
    assert cirq_json.read(cirq_json.to_json(ansatz), "a.json") == ansatz


@pytest.mark.parametrize(
    ("qubits", "places"),
    [
        (cirq.LineQubit.range(2, 4), [2, 3]),
        ([cirq.GridQubit(0, 1), cirq.GridQubit(0, 3)], [1, 3]),
        ([cirq.GridQubit(2, 1), cirq.GridQubit(1, 1)], [1, 0]),
        ([cirq.NamedQubit("b10"), cirq.NamedQubit("b9")], [1, 0]),
        ([cirq.LineQubit(0), cirq.GridQubit(0, 0)], [1, 0]),
        (cirq.LineQubit.range(-1, 1), [0, 1]),
    ],
)
def test_circuit_without_readouts_is_placed_on_ring(qubits: list[cirq.Qid], places: list[int]) -> None:
    circuit = cirq.Circuit(cirq.X(qubits[0]) ** B, cirq.CNOT(*qubits), cirq.Y(qubits[1]) ** A)
    first, second = (cirq.GridQubit(0, place) for place in places)
    found = cirq_json.read(cirq.to_json(circuit), "a.json")
    assert found.circuit == cirq.Circuit(cirq.X(first) ** B, cirq.CNOT(first, second), cirq.Y(second) ** A)
    assert found.symbols == (A, B)
    assert found.readouts == tuple(sorted((first, second)))
    measured = circuit + cirq.Circuit(cirq.measure(qubits[1]), cirq.measure(qubits[0]))
    assert cirq_json.read(cirq.to_json(measured), "a.json").readouts == (second, first)


@pytest.mark.parametrize("gate", [cirq.cphase(A), cirq.givens(2 * A - B), cirq.ZZ ** ((A + B) / sympy.pi)])
def test_gates_with_angles_over_pi_round_trip(gate: cirq.Gate) -> None:
    circuit = cirq.Circuit(gate(*ring(2)))
    assert cirq_json.read(cirq.to_json(circuit), "a.json").circuit == circuit


LINE = cirq.LineQubit.range(2)
LINEAR = "the file's circuit must consist of gates with exponents linear in the symbols. Given: "
FLIPS = cirq.to_json(cirq.Circuit(cirq.X.on_each(*LINE)))
INNER = cirq.CircuitOperation(cirq.FrozenCircuit(cirq.X(LINE[0])), use_repetition_ids=False)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "the file must be valid cirq JSON (JSONDecodeError: "),
        ("[" * 100_000, "the file must be valid cirq JSON (RecursionError: "),
        (
            '{"cirq_type": "os.system"}',
            "the file must be valid cirq JSON (ValueError: Could not resolve type ",
        ),
        (
            "[1, 2]",
            "cirq JSON must hold a cirq.Circuit, or [circuit, symbols, readouts], or these and inputs. Given: list in ",
        ),
        (
            cirq.to_json(cirq.X),
            "cirq JSON must hold a cirq.Circuit, or [circuit, symbols, readouts], or these and inputs. Given: _PauliX",
        ),
        (cirq.to_json([cirq.Circuit(), ["a"], LINE]), "symbols must be of sympy.Symbol. Given: 'a'"),
        (cirq.to_json(cirq.Circuit()), "readouts must name at least one qubit. Given: none"),
        (cirq.to_json(cirq.Circuit(INNER)), LINEAR),
        (cirq.to_json(cirq.Circuit(INNER)).replace('"CircuitOp', '"Circuit\\u004fp'), LINEAR),
        (cirq.to_json(cirq.Circuit(cirq.X(LINE[0]) ** sympy.Pow(7, sympy.Pow(7, A)))), LINEAR),
        (
            cirq.to_json(cirq.Circuit(cirq.IdentityGate(qid_shape=(3,)).on(cirq.LineQid(0, 3)))),
            "qubits must have two levels. Given: q(0) (d=3) in ",
        ),
        (
            cirq.to_json(cirq.Circuit(cirq.measure(*LINE, invert_mask=(True, False)))),
            "a measurement must not have an invert_mask or a confusion_map. Given: cirq.MeasurementGate",
        ),
        (cirq.to_json([cirq.Circuit(cirq.X(LINE[0])), [], [LINE[0]] * 2]), "readouts must be different. "),
        (FLIPS.replace('"x": 0', '"x": "a"'), "the file must be valid cirq JSON (TypeError: "),
        (
            '{"cirq_type": "IdentityGate", "num_qubits": 1000000000}',
            "num_qubits of a gate must be at most 32768. Given: 1000000000 in ",
        ),
        (
            '{"cirq_type": "IdentityGate", "\\u006eum_qubits": 1000000000}',
            "num_qubits of a gate must be at most 32768. Given: 1000000000 in ",
        ),
        (
            cirq.to_json(cirq.Circuit(cirq.measure(LINE[0]), cirq.X(LINE[0]))),
            "measurements must be at the end of the circuit. Given: q(0) measured before X(q(0)) in ",
        ),
    ],
)
def test_invalid_cirq_json_is_rejected(content: str, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        cirq_json.read(content, "a.json")
    message = str(error.value)
    assert message.startswith(f"model: {line}")
    assert "\n" not in message


@pytest.mark.parametrize("number", ['"a"', "null", "1e400", "1.5"])
def test_unnumbered_qubits_are_placed_in_order(number: str) -> None:
    content = cirq.to_json(cirq.Circuit(cirq.X(LINE[1]))).replace('"x": 1', f'"x": {number}')
    assert cirq_json.read(content, "a.json").readouts == (ring(1)[0],)


def test_single_line_qubit_keeps_index() -> None:
    ansatz = cirq_json.read(cirq.to_json(cirq.Circuit(cirq.X(LINE[1]))), "a.json")
    assert ansatz.readouts == (ring(2)[1],)
    assert cirq_json.width(ansatz) == 2
