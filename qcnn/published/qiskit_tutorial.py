"""Network of tutorial 11 of Qiskit Machine Learning, "The Quantum Convolution Neural Network".

Source: docs/tutorials/11_quantum_convolutional_neural_networks.ipynb of github.com/qiskit-community/
qiskit-machine-learning at commit 5b5a221. The features are the inputs of ZFeatureMap with two repetitions.
"""

import math
from collections.abc import Sequence

import cirq
import sympy

from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.feature_maps import with_feature_map
from qcnn.errors import ConfigError
from qcnn.published.rotations import Parameters

QUBITS = 8


def network(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return ZFeatureMap and three layers of convolution and pooling, each pair with its own parameters, 63 in all.

    The second half of the qubits of a layer remains. Z of the last qubit is read out.
    """
    if len(qubits) != QUBITS:
        raise ConfigError(
            f"qubits: must be {QUBITS} with circuits of qcnn.published.qiskit_tutorial. Given: {len(qubits)}"
        )
    parameters, circuit, active = Parameters(), cirq.Circuit(), list(qubits)
    while len(active) > 1:
        pairs = [
            *zip(active[0::2], active[1::2], strict=True),
            *zip(active[1::2], [*active[2::2], active[0]], strict=True),
        ]
        circuit.append(_convolution(parameters.take(3), a, b) for a, b in pairs)
        half = len(active) // 2
        circuit.append(_pooling(parameters.take(3), a, b) for a, b in zip(active[:half], active[half:], strict=True))
        active = active[half:]
    return with_feature_map(Ansatz(circuit, parameters, active[0]), qubits, "z")


def _pooling(angles: Sequence[sympy.Symbol], a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    before = [cirq.rz(-math.pi / 2)(b), cirq.CNOT(b, a), cirq.rz(angles[0])(a), cirq.ry(angles[1])(b)]
    return [*before, cirq.CNOT(a, b), cirq.ry(angles[2])(b)]


def _convolution(angles: Sequence[sympy.Symbol], a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    """Return the circuit of Vatan and Williams, arXiv:quant-ph/0308006, figure 6: that of the pooling, CNOT and RZ."""
    return [*_pooling(angles, a, b), cirq.CNOT(b, a), cirq.rz(math.pi / 2)(a)]
