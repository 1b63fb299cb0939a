"""What cirq decomposes operations into."""

from collections.abc import Iterable

import cirq


def decomposed(operation: cirq.Operation) -> Iterable[cirq.Operation] | None:
    """Return what cirq decomposes an operation into, once; None where it knows nothing.

    Gates are decomposed on qubits that are neighbours in their order: elsewhere cirq 1.5 makes another circuit of a
    `ThreeQubitDiagonalGate`, and fails with a `MatrixGate`.
    """
    gate = operation.gate
    if gate is None:
        parts: Iterable[cirq.Operation] | None = cirq.decompose_once(operation, default=None)
        return parts
    line = cirq.LineQid.for_gate(gate)
    parts = cirq.decompose_once(gate.on(*line), default=None)
    if parts is None:
        return None
    places: dict[cirq.Qid, cirq.Qid] = dict(zip(line, operation.qubits, strict=True))
    return [part.transform_qubits(lambda qubit: places.get(qubit, qubit)) for part in parts]
