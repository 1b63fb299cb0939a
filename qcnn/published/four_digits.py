"""Network of the tutorial "Quantum multilabel classification with JAX" by F. A. Venturelli: four digits, six qubits.

Source: multilabel_classification/tutorial/src/qcnn_architecture.py of github.com/poporubeus/quantum_machine_learning at
commit 851779d, pooling measured qubits as controlled gates. The tutorial has 43 parameters and does not use the last.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import cirq
import sympy

from qcnn.circuits.ansatz import Ansatz
from qcnn.errors import ConfigError
from qcnn.published.rotations import GENERAL_WORDS, Parameters, controlled, phasors

QUBITS = 6


def network(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return the network, whose readouts are its last two qubits: 42 parameters.

    With `head: probabilities`, digit l has the probability of outcome l of the two qubits.
    """
    circuit, parameters, last = _circuit(qubits)
    return Ansatz(circuit, parameters, last)


def outcomes(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return the network, whose readouts are the probabilities of 00, 01, 10 and 11 of its last two qubits.

    With `head: softmax`, the logits are these probabilities, as in the tutorial.
    """
    circuit, parameters, (a, b) = _circuit(qubits)
    projectors = [
        (1 + first * cirq.Z(a) + second * cirq.Z(b) + first * second * cirq.Z(a) * cirq.Z(b)) / 4
        for first in (1, -1)
        for second in (1, -1)
    ]
    return Ansatz(circuit, parameters, projectors)


def _circuit(qubits: Sequence[cirq.Qid]) -> tuple[cirq.Circuit, Parameters, tuple[cirq.Qid, cirq.Qid]]:
    if len(qubits) != QUBITS:
        raise ConfigError(f"qubits: must be {QUBITS} with circuits of qcnn.published.four_digits. Given: {len(qubits)}")
    parameters, circuit = Parameters(), cirq.Circuit()
    # The tutorial uses some angles in several places.
    pairs = [parameters.take(3) for _ in range(3)]
    left, right, between, pooled, kept, last = (parameters.take(3) for _ in range(6))
    evens, odds = qubits[0::2], qubits[1::2]

    circuit.append(_rotations(pairs, zip(evens, odds, strict=True)))
    circuit.append(_entangled(left, a, b) for a, b in zip(evens, odds, strict=True))
    circuit.append(_rotations(pairs, zip(evens, odds, strict=True)))
    circuit.append(_rotations((left, right), (qubits[1:3], qubits[3:5])))
    circuit.append(_entangled(between, a, b) for a, b in (qubits[1:3], qubits[3:5]))
    circuit.append(_rotations((left, right), (qubits[1:3], qubits[3:5])))
    circuit.append(
        controlled(_rotation(pooled, target), measured) for measured, target in zip(evens, odds, strict=True)
    )

    circuit.append(_rotations((kept,), (odds,)))
    circuit.append(_entangled(last, a, b) for a, b in itertools.pairwise(odds))
    circuit.append(_rotations((kept,), (odds,)))
    circuit.append(controlled(_rotation(last, odds[1]), odds[0]))
    circuit.append(phasors(GENERAL_WORDS, parameters.take(len(GENERAL_WORDS)), odds[1:]))
    return circuit, parameters, (odds[1], odds[2])


def _rotation(angles: Sequence[sympy.Symbol], qubit: cirq.Qid) -> list[cirq.Operation]:
    """Return pennylane.Rot: RZ of the first angle, RY of the second, RZ of the third."""
    first, second, third = angles
    return [cirq.rz(first)(qubit), cirq.ry(second)(qubit), cirq.rz(third)(qubit)]


def _rotations(
    angles: Iterable[Sequence[sympy.Symbol]], groups: Iterable[Sequence[cirq.Qid]]
) -> Iterator[list[cirq.Operation]]:
    """Yield the rotations of groups of qubits. The qubits of a group share their angles."""
    for each, group in zip(angles, groups, strict=True):
        yield from (_rotation(each, qubit) for qubit in group)


def _entangled(angles: Sequence[sympy.Symbol], a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    return [cirq.CNOT(a, b), *_rotation(angles, b), cirq.CNOT(a, b)]
