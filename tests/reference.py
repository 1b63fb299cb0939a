"""The network straight from its published description, simulated by cirq: nothing here comes from trainer."""

import cirq
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def _basis(qubit: cirq.Qid, s: Floats) -> list[cirq.Operation]:
    return [cirq.X(qubit) ** s[0], cirq.Y(qubit) ** s[1], cirq.Z(qubit) ** s[2]]


def _convolve(a: cirq.Qid, b: cirq.Qid, s: Floats) -> list[cirq.Operation]:
    entangle = [cirq.ZZ(a, b) ** s[6], cirq.YY(a, b) ** s[7], cirq.XX(a, b) ** s[8]]
    return [*_basis(a, s[0:3]), *_basis(b, s[3:6]), *entangle, *_basis(a, s[9:12]), *_basis(b, s[12:15])]


def _pool(source: cirq.Qid, sink: cirq.Qid, s: Floats) -> list[cirq.Operation]:
    inverse = [cirq.Z(sink) ** -s[2], cirq.Y(sink) ** -s[1], cirq.X(sink) ** -s[0]]
    return [*_basis(sink, s[0:3]), *_basis(source, s[3:6]), cirq.CNOT(source, sink), *inverse]


def _layer(active: list[cirq.Qid], s: Floats) -> tuple[list[cirq.Operation], list[cirq.Qid]]:
    n = len(active)
    starts = [*range(0, n - 1, 2), *range(1, n - 1, 2), n - 1]
    operations = [op for i in starts for op in _convolve(active[i], active[(i + 1) % n], s[:15])]
    for i in range(n // 2):
        operations += _pool(active[i], active[n // 2 + i], s[15:21])
    return operations, active[n // 2 :]


def expectations(model: str, n: int, parameters: Floats, qubit: int, angle: float) -> Floats:
    """Z on the readouts, (readouts,), in double precision."""
    line: list[cirq.Qid] = list(cirq.LineQubit.range(n))
    operations = [cirq.H(q) for q in line] + [cirq.CZ(line[i], line[(i + 1) % n]) for i in range(n)]
    operations.append(cirq.rx(angle)(line[qubit]))
    active = line
    while (model == "deep" and len(active) > 1) or active is line:
        layer, active = _layer(active, parameters)
        operations += layer
        parameters = parameters[21:]
    values = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        cirq.Circuit(operations), [cirq.Z(q) for q in active], qubit_order=line
    )
    return np.real(np.array(values))


def light_cone(n: int, parameters: Floats, qubit: int, angle: float, readout: int) -> float:
    """One readout of `hybrid` on a ring too long to simulate, from the gates and qubits it depends on alone."""
    line: list[cirq.Qid] = list(cirq.LineQubit.range(n))
    layer, active = _layer(line, parameters)
    target = active[readout]
    preparation = [cirq.CZ(line[i], line[(i + 1) % n]) for i in range(n)]
    operations = [*preparation, cirq.rx(angle)(line[qubit]), *layer]
    cone, kept = {target}, []
    for operation in reversed(operations):
        if cone.intersection(operation.qubits):
            cone.update(operation.qubits)
            kept.append(operation)
    # Reversed order also keeps, of the preparation, what only follows another CZ: those commute, so it is harmless
    # but wide; what does not touch the qubits of the later gates is left out.
    late = {q for operation in kept if operation.gate != cirq.CZ for q in operation.qubits} | {target}
    kept = [operation for operation in kept if operation.gate != cirq.CZ or late.intersection(operation.qubits)]
    used = sorted({q for operation in kept for q in operation.qubits})
    circuit = cirq.Circuit([cirq.H(q) for q in used], reversed(kept))
    values = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(circuit, [cirq.Z(target)])
    return float(np.real(values[0]))
