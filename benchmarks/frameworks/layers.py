"""Circuit `layers` of the benchmarks as a circuit of qcnn: `model: benchmarks.frameworks.layers:layers`."""

from collections.abc import Sequence

import cirq
import sympy

from benchmarks.frameworks import network
from qcnn.circuits.circuits import Ansatz

_GATES = {"Y": cirq.Y, "Z": cirq.Z, "CNOT": cirq.CNOT}


def layers(qubits: Sequence[cirq.Qid], count: int = network.LAYERS) -> Ansatz:
    """Return layers of RY, CNOT around the ring and RZ, with readouts on all qubits."""
    circuit = network.layers(len(qubits), count)
    symbols = sympy.symbols(f"s0:{circuit.parameters}")
    gates = []
    for block in circuit.blocks:
        for name, acting, parameter, _ in block.placed:
            gate = _GATES[name] if parameter < 0 else _GATES[name] ** symbols[parameter]
            gates.append(gate(*(qubits[number] for number in acting)))
    return Ansatz(cirq.Circuit(gates), symbols=symbols, readouts=tuple(qubits))
