import cirq
import numpy as np
import pytest

from benchmarks.frameworks import layers, network
from benchmarks.frameworks.network import Gate, StepTask
from qcnn.circuits import circuits

_GATES: dict[str, cirq.Gate] = {
    **{"H": cirq.H, "CZ": cirq.CZ, "CNOT": cirq.CNOT},
    **{"X": cirq.X, "Y": cirq.Y, "Z": cirq.Z, "XX": cirq.XX, "YY": cirq.YY, "ZZ": cirq.ZZ},
}


def _circuit(gates: list[Gate], parameters: network.Floats, qubits: list[cirq.GridQubit]) -> cirq.Circuit:
    circuit = cirq.Circuit()
    for name, acting, parameter, sign, _ in gates:
        gate = _GATES[name] if parameter < 0 else _GATES[name] ** (sign * parameters[parameter])
        circuit.append(gate(*(qubits[qubit] for qubit in acting)))
    return circuit


@pytest.mark.parametrize("qubits", [4, 5])
def test_layers_are_ry_then_cnot_around_the_ring_then_rz(qubits: int) -> None:
    ring, actual = circuits.ring(qubits), network.layers(qubits)
    parameters = np.random.default_rng(1).uniform(0, 2, actual.parameters)
    expected = cirq.Circuit()
    for before, after in parameters.reshape(network.LAYERS, 2, qubits):
        expected.append((cirq.Y**t)(qubit) for t, qubit in zip(before, ring, strict=True))
        expected.append(cirq.CNOT(ring[number], ring[(number + 1) % qubits]) for number in range(qubits))
        expected.append((cirq.Z**t)(qubit) for t, qubit in zip(after, ring, strict=True))
    gates = [gate for block in actual.blocks for gate in block.placed]
    unitary = _circuit(gates, parameters, ring).unitary(ring)
    cirq.testing.assert_allclose_up_to_global_phase(unitary, expected.unitary(ring), atol=1e-9)


def test_reuploading_rotates_by_a_parameter_times_a_feature_in_each_layer() -> None:
    ring, actual = circuits.ring(4), network.circuit("reuploading", 4)
    random = np.random.default_rng(1)
    parameters, features = random.uniform(0, 2, actual.parameters), random.uniform(0, 3, 4)
    expected = cirq.Circuit()
    for before, after in parameters.reshape(network.REUPLOADING_LAYERS, 2, 4):
        expected.append(cirq.ry(w * x)(qubit) for w, x, qubit in zip(before, features, ring, strict=True))
        expected.append(cirq.CNOT(ring[number], ring[(number + 1) % 4]) for number in range(4))
        expected.append((cirq.Z**t)(qubit) for t, qubit in zip(after, ring, strict=True))
    ansatz = layers.reuploading(ring)
    values = zip((*ansatz.symbols, *ansatz.inputs), (*parameters, *features), strict=True)
    unitary = cirq.resolve_parameters(ansatz.circuit, dict(values)).unitary(ring)
    cirq.testing.assert_allclose_up_to_global_phase(unitary, expected.unitary(ring), atol=1e-9)
    gates = [gate for block in actual.blocks for gate in block.placed]
    for gate in gates:
        if gate.feature >= 0:
            parameters[gate.parameter] *= features[gate.feature] / np.pi
    unitary = _circuit(gates, parameters, ring).unitary(ring)
    cirq.testing.assert_allclose_up_to_global_phase(unitary, expected.unitary(ring), atol=1e-9)


@pytest.mark.parametrize("model", ["hybrid", "deep"])
@pytest.mark.parametrize("qubits", [4, 5, 6])
def test_gate_list_and_qcnn_circuit_are_equal(model: str, qubits: int) -> None:
    ring, ansatz, actual = circuits.ring(qubits), circuits.build(model, qubits), network.circuit(model, qubits)
    parameters = StepTask(model, qubits, batch_size=1).weights[0]
    resolver = dict(zip(ansatz.symbols, parameters, strict=True))
    expected = cirq.resolve_parameters(ansatz.circuit, resolver)
    gates = [gate for block in actual.blocks for gate in block.placed]
    unitary = _circuit(gates, parameters, ring).unitary(ring)
    cirq.testing.assert_allclose_up_to_global_phase(unitary, expected.unitary(ring), atol=1e-9)
    assert tuple(ring[index] for index in actual.readouts) == ansatz.readouts
    assert actual.parameters == len(ansatz.symbols)
    cluster = _circuit(actual.cluster, parameters, ring)
    np.testing.assert_allclose(cluster.unitary(ring), circuits.cluster_state(ring).unitary(ring), atol=1e-9)
