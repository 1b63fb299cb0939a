"""Circuits for excitations of the cluster state, with readouts that are equal for all samples."""

from collections.abc import Sequence

import cirq
import sympy

from qcnn.circuits.circuits import Ansatz

_A, _B, _C = sympy.symbols("a b c")


def vanishing(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return a circuit on two neighbors, whose only readout is 0 for all parameters."""
    first, second, *_ = qubits
    gates = [cirq.ry(_A)(first), cirq.ry(_B)(second), cirq.CNOT(first, second), cirq.rx(_C)(second)]
    return Ansatz(cirq.Circuit(gates), (_A, _B, _C), (second,))


def partly_vanishing(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return a circuit whose readout on qubit 2 depends on the sample. The readouts on qubits 0 and 3 are 0."""
    undone = [cirq.CZ(qubits[1], qubits[2]), cirq.CZ(qubits[2], qubits[3]), cirq.H(qubits[2])]
    rotated = cirq.rx(_A)(qubits[2])
    return Ansatz(cirq.Circuit(undone, rotated), (_A,), (qubits[0], qubits[2], qubits[3]))


def without_parameters(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return a circuit without parameters, with one readout."""
    return Ansatz(cirq.Circuit(cirq.CZ(qubits[0], qubits[1]), cirq.H(qubits[1])), (), (qubits[1],))
