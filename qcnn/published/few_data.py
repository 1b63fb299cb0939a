"""Network of PennyLane's demo "Generalization in QML from few training data", after Caro et al., arXiv:2111.05292.

Source: demonstrations/tutorial_learning_few_data.py of github.com/PennyLaneAI/qml at commit 016e1bc, with pooling as
controlled gates. The demo has 51 parameters, of which it does not use the first six of the second layer. The digit l
has the probability of outcome l of qubit 0, which is the model of `--classes 1,0`.
"""

import itertools
from collections.abc import Sequence

import cirq
import sympy

from qcnn.circuits.ansatz import Ansatz
from qcnn.errors import ConfigError
from qcnn.published.rotations import GENERAL_WORDS, Parameters, controlled, phasors, u3

QUBITS = 6


def network(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return two layers of convolution and pooling and a general unitary on the last two qubits: 45 parameters."""
    if len(qubits) != QUBITS:
        raise ConfigError(f"qubits: must be {QUBITS} with circuits of qcnn.published.few_data. Given: {len(qubits)}")
    parameters, circuit, active = Parameters(), cirq.Circuit(), list(qubits)
    for layer in range(2):
        first = parameters.take(0 if layer else 6)
        between, pooled = parameters.take(9), parameters.take(3)
        circuit.append(_convolution(first, between, active))
        circuit.append(_pooling(pooled, active))
        active = active[::2]
    circuit.append(phasors(GENERAL_WORDS, parameters.take(len(GENERAL_WORDS)), active))
    return Ansatz(circuit, parameters, qubits[0])


def _convolution(
    first: Sequence[sympy.Symbol], angles: Sequence[sympy.Symbol], active: Sequence[cirq.Qid]
) -> list[cirq.Operation]:
    """Return the convolution of the pairs (0, 1), (2, 3), ..., then (1, 2), (3, 4), ....

    Args:
        first: Angles of U3 before the even pairs, or none.
        angles: Angles about XX, YY and ZZ, and of U3 on both qubits after them.
        active: Qubits of the layer.
    """
    operations: list[cirq.Operation] = []
    pairs = list(itertools.pairwise(active))
    for number, (a, b) in [*enumerate(pairs)][0::2] + [*enumerate(pairs)][1::2]:
        if first and number % 2 == 0:
            operations += [*u3(first[0:3], a), *u3(first[3:6], b)]
        operations += phasors(("XX", "YY", "ZZ"), angles[0:3], (a, b))
        operations += [*u3(angles[3:6], a), *u3(angles[6:9], b)]
    return operations


def _pooling(angles: Sequence[sympy.Symbol], active: Sequence[cirq.Qid]) -> list[cirq.Operation]:
    """Return U3 of each even qubit, if the measured odd qubit after it is 1."""
    pairs = zip(active[0::2], active[1::2], strict=False)
    # The phase of U3, which U3 as three rotations lacks, is not observable: its control is measured.
    return [each for even, odd in pairs for each in controlled(u3(angles, even), odd)]
