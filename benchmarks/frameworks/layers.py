"""Circuits `layers` and `reuploading` as circuits of qcnn, for example `model: benchmarks.frameworks.layers:layers`."""

from collections.abc import Sequence

import cirq
import sympy

from benchmarks.frameworks import network
from qcnn.circuits.circuits import Ansatz

_GATES = {"Y": cirq.Y, "Z": cirq.Z, "CNOT": cirq.CNOT}


def layers(qubits: Sequence[cirq.Qid], count: int = network.LAYERS) -> Ansatz:
    """Return layers of RY, CNOT around the ring and RZ, with readouts on all qubits."""
    return _ansatz(network.layers(len(qubits), count), qubits)


def reuploading(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return layers whose RY rotate by a parameter times an input."""
    return _ansatz(network.circuit("reuploading", len(qubits)), qubits, sympy.symbols(f"x0:{len(qubits)}"))


def _ansatz(circuit: network.Circuit, qubits: Sequence[cirq.Qid], inputs: Sequence[sympy.Symbol] = ()) -> Ansatz:
    symbols = sympy.symbols(f"s0:{circuit.parameters}")
    gates = []
    for block in circuit.blocks:
        for name, acting, parameter, _, feature in block.placed:
            gate = _GATES[name]
            if feature >= 0:
                gate **= symbols[parameter] * inputs[feature] / sympy.pi
            elif parameter >= 0:
                gate **= symbols[parameter]
            gates.append(gate(*(qubits[number] for number in acting)))
    return Ansatz(cirq.Circuit(gates), symbols=symbols, readouts=tuple(qubits), inputs=inputs)
