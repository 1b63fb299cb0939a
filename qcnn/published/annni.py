"""Network of PennyLane's demo of the ANNNI chain, after Monaco et al., arXiv:2208.08748.

Source: demonstrations/tutorial_annni.py of github.com/PennyLaneAI/qml at commit 035ab58, pooling measured qubits as
controlled gates. The strings 00, 01 and 10 of the readouts are the ferromagnetic phase, the antiphase and the
paramagnetic phase, as with `head: probabilities`.
"""

from collections.abc import Sequence

import cirq

from qcnn.circuits.ansatz import Ansatz
from qcnn.errors import ConfigError
from qcnn.published.rotations import Parameters


def network(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return layers of convolution and pooling down to two qubits, on a power of two of at least four qubits.

    Eight qubits have 34 parameters.
    """
    count = len(qubits)
    if count < 4 or count & (count - 1):
        raise ConfigError(f"qubits: must be a power of two, 4 or more, with qcnn.published.annni. Given: {count}")
    parameters, circuit, active = Parameters(), cirq.Circuit(), list(qubits)

    def rotate() -> None:
        circuit.append(cirq.ry(angle)(qubit) for angle, qubit in zip(parameters.take(len(active)), active, strict=True))

    rotate()
    while len(active) > 2:
        pairs = list(zip(active[0::2], active[1::2], strict=True))
        circuit.append(cirq.CNOT(a, b) for a, b in pairs)
        rotate()
        for measured, kept in pairs:
            of_zero, of_one = (cirq.rx(angle) for angle in parameters.take(2))
            circuit.append(cirq.ControlledGate(of_zero, control_values=[0]).on(measured, kept))
            circuit.append(cirq.ControlledGate(of_one).on(measured, kept))
        active = active[1::2]
    rotate()
    return Ansatz(circuit, parameters, active)
