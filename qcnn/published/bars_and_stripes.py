"""Circuits for images of bars and stripes as amplitudes.

The first half of the qubits is the row of a pixel, the second half its column. Pixels are -1 or +1 with noise (Bowles,
Ahmed and Schuld, arXiv:2403.07059). A stripe is constant along each row: its amplitudes are those of a state of the row
qubits times the uniform superposition of the column qubits, which H maps to |0...0>.
"""

import itertools
from collections.abc import Sequence

import cirq

from qcnn.circuits.ansatz import Ansatz

Qubits = Sequence[cirq.Qid]


def squares(qubits: Qubits) -> Ansatz:
    """Return the readouts Z and ZZ of the image itself, without gates, for dense layers.

    These are the readouts of WeiNet (Wei et al., arXiv:2104.06918), which permutes the amplitudes before. They depend
    on the squares of the pixels only.
    """
    return Ansatz(cirq.Circuit(), (), _readouts(qubits))


def signs(qubits: Qubits) -> Ansatz:
    """Return the readouts Z and ZZ after H on each qubit, without parameters, for dense layers."""
    return Ansatz(cirq.Circuit(cirq.H.on_each(*qubits)), (), _readouts(qubits))


def _readouts(qubits: Qubits) -> list[cirq.PauliString[cirq.Qid]]:
    pairs = [cirq.Z(a) * cirq.Z(b) for a, b in itertools.combinations(qubits, 2)]
    return [*(cirq.PauliString(cirq.Z(qubit)) for qubit in qubits), *pairs]
