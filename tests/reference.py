"""Independent reference of the network from its published description, simulated with Cirq.

Nothing is imported from qcnn. The gates on a pair of qubits are multiplied to one matrix by Cirq, because all pairs of
a layer have the same gates.
"""

import functools

import cirq
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Parameters = tuple[float, ...]


def _basis(qubit: cirq.Qid, s: Parameters) -> list[cirq.Operation]:
    return [cirq.X(qubit) ** s[0], cirq.Y(qubit) ** s[1], cirq.Z(qubit) ** s[2]]


@functools.lru_cache
def _convolution(s: Parameters) -> cirq.Gate:
    a, b = cirq.LineQubit.range(2)
    entangle = [cirq.ZZ(a, b) ** s[6], cirq.YY(a, b) ** s[7], cirq.XX(a, b) ** s[8]]
    gates = [*_basis(a, s[0:3]), *_basis(b, s[3:6]), *entangle, *_basis(a, s[9:12]), *_basis(b, s[12:15])]
    return cirq.MatrixGate(cirq.Circuit(gates).unitary(qubit_order=(a, b)))


@functools.lru_cache
def _pooling(s: Parameters) -> cirq.Gate:
    """Return the pooling gate from a source, the first qubit, to a sink."""
    source, sink = cirq.LineQubit.range(2)
    inverse = [cirq.Z(sink) ** -s[2], cirq.Y(sink) ** -s[1], cirq.X(sink) ** -s[0]]
    gates = [*_basis(sink, s[0:3]), *_basis(source, s[3:6]), cirq.CNOT(source, sink), *inverse]
    return cirq.MatrixGate(cirq.Circuit(gates).unitary(qubit_order=(source, sink)))


def _layer(active: list[cirq.Qid], s: Parameters) -> tuple[list[cirq.Operation], list[cirq.Qid]]:
    n = len(active)
    starts = [*range(0, n - 1, 2), *range(1, n - 1, 2), n - 1]
    convolution, pooling = _convolution(s[:15]), _pooling(s[15:21])
    operations = [convolution(active[i], active[(i + 1) % n]) for i in starts]
    operations += [pooling(active[i], active[n // 2 + i]) for i in range(n // 2)]
    return operations, active[n // 2 :]


def expectations(model: str, n: int, parameters: Floats, qubit: int, angle: float) -> Floats:
    """Return Z on the readouts, float64 (readouts,).

    Args:
        model: hybrid or deep.
        n: Number of qubits.
        parameters: Circuit parameters, float64 (parameters,).
        qubit: Excited qubit.
        angle: Angle of the excitation, in rad.
    """
    line: list[cirq.Qid] = list(cirq.LineQubit.range(n))
    operations = [cirq.H(q) for q in line] + [cirq.CZ(line[i], line[(i + 1) % n]) for i in range(n)]
    operations.append(cirq.rx(angle)(line[qubit]))
    active, left = line, tuple(parameters.tolist())
    while (model == "deep" and len(active) > 1) or active is line:
        layer, active = _layer(active, left[:21])
        operations += layer
        left = left[21:]
    values = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        cirq.Circuit(operations), [cirq.Z(q) for q in active], qubit_order=line
    )
    return np.real(np.array(values))


@functools.lru_cache(maxsize=1)
def _first_layer(n: int, s: Parameters) -> tuple[list[cirq.Operation], list[cirq.Qid]]:
    return _layer(list(cirq.LineQubit.range(n)), s)


def light_cone(n: int, parameters: Floats, qubit: int, angle: float, readout: int) -> float:
    """Return Z on one readout of `hybrid`, simulated on its light cone, for rings that are too large to simulate.

    Args:
        n: Number of qubits.
        parameters: Circuit parameters, float64 (parameters,).
        qubit: Excited qubit.
        angle: Angle of the excitation, in rad.
        readout: Index of the readout.
    """
    line: list[cirq.Qid] = list(cirq.LineQubit.range(n))
    layer, active = _first_layer(n, tuple(parameters.tolist()))
    target = active[readout]
    preparation = [cirq.CZ(line[i], line[(i + 1) % n]) for i in range(n)]
    operations = [*preparation, cirq.rx(angle)(line[qubit]), *layer]
    cone, kept = {target}, []
    for operation in reversed(operations):
        if cone.intersection(operation.qubits):
            cone.update(operation.qubits)
            kept.append(operation)
    # The loop also keeps CZ gates of the preparation that share a qubit with another CZ only. They commute and do not
    # affect the readout, so those that do not touch the qubits of later gates are removed to reduce the width.
    late = {q for operation in kept if operation.gate != cirq.CZ for q in operation.qubits} | {target}
    kept = [operation for operation in kept if operation.gate != cirq.CZ or late.intersection(operation.qubits)]
    used = sorted({q for operation in kept for q in operation.qubits})
    circuit = cirq.Circuit([cirq.H(q) for q in used], reversed(kept))
    values = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(circuit, [cirq.Z(target)])
    return float(np.real(values[0]))
