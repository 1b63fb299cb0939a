"""Exported circuits have the same unitaries and readouts in the simulators of other libraries."""

import itertools
import re
import warnings
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf
from hypothesis import given, settings
from qiskit import QuantumCircuit, qasm2, qasm3, qpy
from qiskit.quantum_info import Operator, Pauli, Statevector

from qcnn import data
from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats import cirq_json, export, openqasm
from qcnn.circuits.formats.loading import embed_file
from qcnn.circuits.observables import as_pauli_sum
from qcnn.circuits.preparation import EXCITATION
from qcnn.circuits.sample_circuits import data_state
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.model.network import build_model
from qcnn.testing.cirq_readouts import Complex, Floats, readouts_of_excitation
from tests.qcnn.simulators.random_circuits import ansatzes, assert_equal_up_to_phase, repeatable, unitary
from tests.shared_training_runs import SMALL

A, B = sympy.symbols("a b")


def _by_qiskit(text: str, version: int) -> QuantumCircuit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (qasm3 if version == export.OPENQASM3 else qasm2).loads(text)


def _unitary_of_qiskit(circuit: QuantumCircuit) -> Complex:
    """Return the unitary with the first qubit as the most significant bit, as in cirq."""
    return np.asarray(Operator(circuit.remove_final_measurements(inplace=False).reverse_bits()).data)


def _values(ansatz: Ansatz) -> Floats:
    return np.random.default_rng(0).uniform(-1, 1, len(ansatz.symbols))


@settings(repeatable, max_examples=25)
@given(drawn=ansatzes(most=5))
def test_random_circuit_openqasm_round_trip(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    values = _values(ansatz)
    expected = unitary(ansatz.circuit, ansatz.symbols, values, qubits)
    # With inputs: export and import.
    again = openqasm.read(export.openqasm(ansatz, ring(qubits), 3), "a.qasm")
    assert (again.symbols, again.readouts) == (ansatz.symbols, ansatz.readouts)
    assert_equal_up_to_phase(unitary(again.circuit, again.symbols, values, qubits), expected, 1e-6)
    # With numbers: unitary from Qiskit.
    bound = export.bind_parameters(ansatz, values)
    for version in (2, 3):
        circuit = _by_qiskit(export.openqasm(bound, ring(qubits), version), version)
        assert circuit.num_qubits == qubits
        assert_equal_up_to_phase(_unitary_of_qiskit(circuit), expected, 1e-6)


def _readouts_of_qiskit(circuit: QuantumCircuit) -> Floats:
    """Return Z on the measured qubits, in the order of the bits, from Qiskit's state vector."""
    measured = {
        circuit.find_bit(part.clbits[0]).index: circuit.find_bit(part.qubits[0]).index
        for part in circuit.data
        if part.operation.name == "measure"
    }
    state = Statevector(circuit.remove_final_measurements(inplace=False))
    return np.array([state.expectation_value(Pauli("Z"), [measured[bit]]).real for bit in sorted(measured)])


def _readouts_of_cirq(ansatz: Ansatz, qubits: int) -> Floats:
    values = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        ansatz.circuit, list(map(as_pauli_sum, ansatz.readouts)), qubit_order=ring(qubits)
    )
    return np.real(np.array(values))


_random = np.random.default_rng(0)


@pytest.mark.parametrize(
    "gate",
    [
        cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=1)),
        cirq.MatrixGate(cirq.testing.random_unitary(8, random_state=2)),
        cirq.MatrixGate(cirq.testing.random_unitary(16, random_state=3)),
        cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=4)).controlled(),
        cirq.ThreeQubitDiagonalGate(_random.uniform(-3, 3, 8).tolist()),
        cirq.ThreeQubitDiagonalGate(_random.uniform(-3, 3, 8).tolist()).controlled(),
        cirq.DiagonalGate(_random.uniform(-3, 3, 16).tolist()),
        cirq.X.controlled(control_values=cirq.SumOfProducts([[0, 1], [1, 0]])),
    ],
    ids=range(8),
)
def test_export_of_gate_on_any_qubits_keeps_unitary(gate: cirq.Gate) -> None:
    """Cirq decomposes some gates correctly only on adjacent qubits in order."""
    for places in itertools.islice(itertools.permutations(range(4), cirq.num_qubits(gate)), 0, None, 5):
        qubits = ring(4)
        ansatz = Ansatz(cirq.Circuit(gate.on(*(qubits[place] for place in places))), (), tuple(qubits))
        found = _unitary_of_qiskit(_by_qiskit(export.openqasm(ansatz, qubits, 3), 3))
        assert_equal_up_to_phase(
            found, ansatz.circuit.unitary(qubit_order=qubits, qubits_that_should_be_present=qubits)
        )


@pytest.mark.parametrize(("model", "qubits"), [("hybrid", 4), ("hybrid", 7), ("deep", 5), ("deep", 6)])
def test_exported_network_readouts_match_qiskit_and_cirq(model: str, qubits: int, tmp_path: Path) -> None:
    ansatz = circuits.build(model, qubits)
    values, sample = _values(ansatz), (1, 0.7)
    expected = readouts_of_excitation(ansatz, qubits, values, *sample)
    bound = export.bind_parameters(ansatz, values)
    whole = Ansatz(data_state(EXCITATION, ring(qubits), sample) + bound.circuit, (), bound.readouts)
    for name, version in (("a.qasm", 3), ("b.qasm", 2), ("a.qpy", 3), ("a.json", 3)):
        export.write(whole, ring(qubits), tmp_path / name, version, ["a note"])
    with (tmp_path / "a.qpy").open("rb") as file:
        (of_qpy,) = qpy.load(file)
    assert of_qpy.metadata["notes"] == ["a note"]
    of_qasm3, of_qasm2 = (
        _by_qiskit((tmp_path / name).read_text(), version) for name, version in (("a.qasm", 3), ("b.qasm", 2))
    )
    for circuit in (of_qpy, of_qasm3, of_qasm2):
        np.testing.assert_allclose(_readouts_of_qiskit(circuit), expected, atol=1e-6)
    of_json = cirq_json.read((tmp_path / "a.json").read_text(), "a.json")
    np.testing.assert_allclose(_readouts_of_cirq(of_json, qubits), expected, atol=1e-6)


def test_reimported_network_equals_original() -> None:
    ansatz = circuits.build("deep", 5)
    again = openqasm.read(export.openqasm(ansatz, ring(5), 3), "a.qasm")
    assert again.symbols == ansatz.symbols
    values = _values(ansatz)
    for excited, angle in ((0, 0.4), (3, -2.0)):
        expected = readouts_of_excitation(ansatz, 5, values, excited, angle)
        np.testing.assert_allclose(readouts_of_excitation(again, 5, values, excited, angle), expected, atol=1e-9)


def test_reimported_network_trains_identically(tmp_path: Path) -> None:
    """Initial parameters and gradients are equal, because inputs are also in units of pi."""
    config = from_mapping({**SMALL, "simulator": "statevector"})
    export.write(circuits.build(config.model, config.qubits), ring(config.qubits), tmp_path / "a.qasm", 3, [])
    of_file = config.model_copy(update={"model": embed_file(str(tmp_path / "a.qasm"))})
    samples = data.generate(config).train
    found = []
    for each in (config, of_file):
        model = build_model(each)
        inputs = {name: tf.constant(values) for name, values in samples.inputs.items()}
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs)[:, 0] - tf.cast(samples.label, tf.float64)) ** 2)
        gradient = tape.gradient(loss, model.trainable_variables)
        found.append(np.concatenate([np.ravel(value) for value in (loss, *gradient, *model.trainable_variables)]))
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)


_ROTATION = Ansatz(cirq.Circuit(cirq.X(ring(1)[0]) ** A), (A,), tuple(ring(1)))


def test_export_writes_numbers_in_full_precision() -> None:
    value = 0.1234567890123456789
    bound = export.bind_parameters(
        Ansatz(cirq.Circuit(cirq.X(ring(1)[0]) ** A), (A,), tuple(ring(1))), np.array([value])
    )
    for version in (2, 3):
        (written,) = re.findall(r"^rx\((.*)\) q\[0\];$", export.openqasm(bound, ring(1), version), re.MULTILINE)
        assert float(written) == np.pi * value


def test_export_writes_decimal_point_in_small_numbers() -> None:
    bound = export.bind_parameters(
        Ansatz(cirq.Circuit(cirq.X(ring(1)[0]) ** A), (A,), tuple(ring(1))), np.array([1e-17 / np.pi])
    )
    assert "rx(1.0e-17) q[0];" in export.openqasm(bound, ring(1), 2)


def test_export_renames_symbols_with_reserved_names() -> None:
    symbols = sympy.symbols("x if parameter_0 θ q")
    circuit = cirq.Circuit(cirq.X(ring(1)[0]) ** symbol for symbol in symbols)
    text = export.openqasm(Ansatz(circuit, symbols, tuple(ring(1))), ring(1), 3)
    names = re.findall(r"^input float\[64\] (.*);$", text, re.MULTILINE)
    assert names == ["parameter_0_", "parameter_1", "parameter_0", "parameter_3", "q"]
    assert "rx(parameter_0_) q_[0];" in text
    assert [symbol.name for symbol in openqasm.read(text, "a.qasm").symbols] == names


def test_export_of_symbols_to_openqasm2_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^export: OpenQASM 2 has no inputs; .* Given: 21 parameters$"):
        export.openqasm(circuits.build("hybrid", 4), ring(4), 2)


class Turn(cirq.Gate):
    """Custom gate with a parameter."""

    def __init__(self, power: object) -> None:
        self.power = power

    def _num_qubits_(self) -> int:
        return 1

    def _is_parameterized_(self) -> bool:
        return cirq.is_parameterized(self.power)

    def _parameter_names_(self) -> set[str]:
        return set(cirq.parameter_names(self.power))

    def __repr__(self) -> str:
        return "Turn"


@pytest.mark.parametrize(
    ("gate", "name", "line"),
    [
        (Turn(A), "a.qasm", "export: an operation cannot be written as OpenQASM gates .* Given: Turn"),
        (cirq.X**A, "a.txt", "export: the file's name must end in one of .qasm, .json, .qpy. Given: "),
        (Turn(A), "a.json", "export: custom gates cannot be written as cirq JSON; use .qasm or .qpy. Given: .json"),
    ],
)
def test_export_of_unsupported_circuit_is_rejected(gate: cirq.Gate, name: str, line: str, tmp_path: Path) -> None:
    ansatz = Ansatz(cirq.Circuit(gate(ring(1)[0])), (A,), tuple(ring(1)))
    with pytest.raises(ConfigError, match=f"^{line}"):
        export.write(ansatz, ring(1), tmp_path / name, 3, [])
    assert not list(tmp_path.iterdir())
