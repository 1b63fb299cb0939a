"""The circuit that prepares the data state of one sample, for simulators of other libraries."""

from collections.abc import Sequence

import cirq

from qcnn.trainer.errors import ConfigError
from qcnn.trainer.quantum.circuits import cluster_state
from qcnn.trainer.quantum.preparation import Preparation

_TURNS = {"rx": cirq.rx, "ry": cirq.ry, "rz": cirq.rz}


def data_state(preparation: Preparation, qubits: Sequence[cirq.Qid], sample: Sequence[float]) -> cirq.Circuit:
    """Return what prepares a sample from |0>: of an excitation its qubit and angle, else its features; in rad.

    Raises:
        ConfigError: the sample is none of these.
    """
    given = ",".join(f"{value:g}" for value in sample)
    if preparation.kind == "excitation":
        if len(sample) != 2 or sample[0] not in range(len(qubits)):
            raise ConfigError(
                f"sample: must be a qubit, 0 to {len(qubits) - 1}, and an angle, such as 3,0.5. Given: {given}"
            )
        turned = cirq.rx(sample[1])(qubits[int(sample[0])])
        return cirq.Circuit(cluster_state(qubits).all_operations(), turned)
    if preparation.kind == "state" or len(sample) != preparation.features:
        what = f"{preparation.features} angles" if preparation.features else "left out: a state vector is no circuit"
        raise ConfigError(f"sample: must be {what}. Given: {given}")
    turn = _TURNS[preparation.kind]
    # |0> would not show a turn about Z.
    first = cirq.H.on_each(*qubits) if preparation.kind == "rz" else []
    return cirq.Circuit(first, (turn(angle)(qubit) for qubit, angle in zip(qubits, sample, strict=False)))
