"""Gates that transform a Pauli string into Z on one of its qubits, for simulators that evaluate Z."""

import dataclasses
import functools

import cirq

from qcnn.circuits.ansatz import ring
from qcnn.simulators.structure.gates import Gate, LinearExponent, read_gates
from qcnn.simulators.structure.pauli_strings import PauliString


def target_of(string: PauliString) -> int:
    """Return the qubit on which Z is measured instead of a string."""
    return string.qubits[0]


def measurement_gates(string: PauliString) -> tuple[Gate, ...]:
    """Return the gates after which Z on `target_of` a string has the expectation value of the string before them.

    They have no noise: it stands for the measurement of every qubit, after which outcomes are multiplied.
    """
    gates = basis_gates(string)
    return (*gates, *(_moved(gate, (qubit, target_of(string))) for gate in _flip() for qubit in string.qubits[1:]))


def basis_gates(string: PauliString) -> tuple[Gate, ...]:
    """Return the gates on single qubits that transform a string into Z on all of its qubits."""
    pairs = zip(string.qubits, string.axes, strict=True)
    return tuple(_moved(gate, (qubit,)) for qubit, axis in pairs for gate in _basis_gates(axis))


def inverse_of(gate: Gate) -> Gate:
    """Return the inverse of a gate without parameters."""
    return dataclasses.replace(gate, exponent=LinearExponent(-gate.exponent.constant))


def _moved(gate: Gate, qubits: tuple[int, ...]) -> Gate:
    return Gate(qubits, gate.spectrum, gate.exponent)


# Cached, so that equal gates share their spectrum.
@functools.cache
def _basis_gates(axis: str) -> tuple[Gate, ...]:
    (qubit,) = ring(1)
    operations = {"X": [cirq.H(qubit)], "Y": [cirq.X(qubit) ** 0.5], "Z": []}[axis]
    return read_gates(operations, (), [qubit])


@functools.cache
def _flip() -> tuple[Gate, ...]:
    return read_gates([cirq.CNOT(*ring(2))], (), ring(2))
