"""Readouts as sums of Pauli strings, and their text."""

import cirq
import numpy as np
import pytest

from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import embed
from qcnn.circuits.formats.loading import with_embedded_circuit
from qcnn.circuits.observables import as_pauli_sum, as_readout, bound, parse, text_of
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping

QUBITS = ring(5)
POSITION: dict[cirq.Qid, int] = {qubit: number for number, qubit in enumerate(QUBITS)}


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Z0", "Z0"),
        (" -Z1 ", "-Z1"),
        ("Z1*Z0", "Z0*Z1"),
        ("0.5*X2 - Y3", "0.5*X2 - Y3"),
        ("Z1+2*Z0 +Z1", "2*Z0 + 2*Z1"),
        ("2*3*Z0", "6*Z0"),
        ("1e-3*X0*Y1*Z4 -2", "0.001*X0*Y1*Z4 - 2"),
        ("0.5e+1*Z0", "5*Z0"),
    ],
)
def test_text_is_normalized(text: str, normal: str) -> None:
    (readout,) = parse(text)
    assert text_of(readout, POSITION) == normal if isinstance(readout, tuple) else readout == QUBITS[0]
    assert parse(text_of(readout, POSITION)) == (readout,)


def test_text_equals_operators_of_cirq() -> None:
    one, two = parse("Z0*Z1, 0.5*X2 - Y3*X0 + 0.25")
    x, y, z = cirq.X, cirq.Y, cirq.Z
    expected = [z(QUBITS[0]) * z(QUBITS[1]), 0.5 * x(QUBITS[2]) - y(QUBITS[3]) * x(QUBITS[0]) + 0.25]
    for readout, observable in zip((one, two), expected, strict=True):
        total = cirq.PauliSum() + observable
        np.testing.assert_allclose(as_pauli_sum(readout).matrix(QUBITS), total.matrix(QUBITS))
        assert as_readout(observable) == readout
    assert (bound(one), bound(two), bound(QUBITS[0])) == (1, 1.75, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Z0,",
        "Z0*Z0",
        "Q1",
        "Z",
        "0.5",
        "Z0 Z1",
        "nan*Z0",
        "1e999*Z0",
        "Z0 - Z0",
        "Z0 -- Z1",
        "1j*Z0",
        "Z99999",
        "Z0*",
    ],
)
def test_invalid_text_is_one_clear_error(text: str) -> None:
    message = r"^observables: must be real sums of products of X, Y or Z on different qubits, .* Given: '[^']{0,200}'$"
    with pytest.raises(ConfigError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1j * cirq.Z(QUBITS[0]), "a readout must have finite real coefficients"),
        (cirq.Z(QUBITS[0]) * float("nan"), "a readout must have finite real coefficients"),
        (cirq.PauliSum() + 1, "a readout must not be constant"),
        ("Z0", "readouts must be qubits, or cirq.PauliString or cirq.PauliSum of qubits"),
    ],
)
def test_invalid_readout_is_one_clear_error(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^model: {message}. Given: "):
        Ansatz(cirq.Circuit(), (), (value,))  # type: ignore[arg-type]


def test_equal_circuits_have_equal_json_whichever_way_they_came() -> None:
    circuit = circuits.build("deep", 5).circuit
    symbols = circuits.build("deep", 5).symbols
    z, x = cirq.Z, cirq.X
    written = [
        cirq_json.to_json(Ansatz(circuit, symbols, readouts))
        for readouts in (
            parse("Z0, Z1*X2 + 0.5*Z3"),
            [z(QUBITS[0]), 0.5 * z(QUBITS[3]) + x(QUBITS[2]) * z(QUBITS[1])],
            [cirq.PauliString(z(QUBITS[0])), z(QUBITS[1]) * x(QUBITS[2]) + z(QUBITS[3]) - 0.5 * z(QUBITS[3])],
        )
    ]
    assert len(set(written)) == 1
    ansatz = cirq_json.read(written[0], "mine.json")
    assert ansatz.readouts == parse("Z0, Z1*X2 + 0.5*Z3")
    assert cirq_json.to_json(ansatz) == written[0]


def test_readouts_of_named_qubits_move_to_the_ring() -> None:
    a, b = cirq.NamedQubit("a"), cirq.NamedQubit("b")
    content = cirq_json.to_json(Ansatz(cirq.Circuit(cirq.CNOT(a, b)), (), (cirq.X(a) * cirq.Z(b), a)))
    assert cirq_json.read(content, "named.json").readouts == parse("X0*Z1, Z0")


def test_field_replaces_the_readouts_of_a_circuit_file() -> None:
    text = cirq_json.to_json(circuits.build("deep", 4))
    model = embed("mine.json", text)
    config = from_mapping({"qubits": 5, "model": model, "observables": "Z0*Z4"})
    assert config.options.observables == ""
    assert circuits.build(config.model, 5).readouts == parse("Z0*Z4")
    assert circuits.build(config.model, 5).circuit == circuits.build(model, 5).circuit
    nested = with_embedded_circuit({"model": model, "options": {"observables": "Z0*Z4", "shots": 10}})
    assert nested == {"model": config.model, "options": {"observables": "", "shots": 10}}
    with pytest.raises(ConfigError, match=r"^qubits: must be at least 5, the qubits of mine.json@"):
        circuits.build(config.model, 4)
    with pytest.raises(
        ConfigError, match=r"^observables: must be empty unless model is a circuit file. Given: Z0 with"
    ):
        from_mapping({"model": "hybrid", "observables": "Z0"})
