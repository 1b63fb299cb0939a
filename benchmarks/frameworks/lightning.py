"""PennyLane lightning.qubit with adjoint gradients of the loss (device_vjp) and broadcasting."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pennylane as qml
from pennylane import numpy as qnp

from benchmarks.frameworks import process
from benchmarks.frameworks.network import LEARNING_RATE, Batch, FeatureBatch, Gate, StepTask

_GATES = {
    "H": qml.Hadamard,
    "CZ": qml.CZ,
    "CNOT": qml.CNOT,
    "X": qml.RX,
    "Y": qml.RY,
    "Z": qml.RZ,
    "XX": qml.IsingXX,
    "YY": qml.IsingYY,
    "ZZ": qml.IsingZZ,
}


class Lightning:
    """Network in PennyLane, with its Adam optimizer."""

    def __init__(self, task: StepTask) -> None:
        self._circuit, self._qubits = task.circuit, task.qubits
        self._rotation = qml.RY if task.features else qml.RX
        self._weights = [qnp.array(values, requires_grad=True) for values in task.weights]
        self._adam = qml.AdamOptimizer(LEARNING_RATE, eps=1e-7)
        device = qml.device("lightning.qubit", wires=task.qubits, c_dtype=np.complex64)
        self._node = qml.QNode(self._measure, device, diff_method="adjoint", device_vjp=True)

    def prepare(self, batch: Batch | FeatureBatch) -> Any:
        """Return the angle of every qubit in every sample, (qubits, batch), and the labels."""
        if isinstance(batch, FeatureBatch):
            return batch.features.T, batch.label
        angles = np.zeros((self._qubits, len(batch.qubit)))
        angles[batch.qubit, np.arange(len(batch.qubit))] = batch.angle
        return angles, batch.label

    def step(self, prepared: Any) -> float:
        """Train on a batch, and return the loss."""
        updated, loss = self._adam.step_and_cost(self._loss(*prepared), *self._weights)
        # For a single argument, PennyLane does not return a list.
        self._weights = updated if len(self._weights) > 1 else [updated]
        return float(loss)

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts (batch, readouts) and gradients."""
        readouts = np.stack(self._node(self._weights[0], prepared[0]), axis=-1)
        gradients = qml.grad(self._loss(*prepared))(*self._weights)
        return readouts, gradients if isinstance(gradients, tuple) else [gradients]

    def _loss(self, angles: npt.NDArray[Any], label: npt.NDArray[Any]) -> Any:
        def loss(parameters: Any, *dense: Any) -> Any:
            values = qnp.stack(self._node(parameters, angles)).T
            for kernel, bias in zip(dense[::2], dense[1::2], strict=True):
                values = values @ kernel + bias
            return qnp.mean((values[:, 0] - label) ** 2)

        return loss

    def _measure(self, parameters: Any, angles: npt.NDArray[Any]) -> list[Any]:
        scaled = math.pi * parameters
        # Autograd records every access to the array.
        values = [scaled[index] for index in range(self._circuit.parameters)]
        for gate in self._circuit.cluster:
            apply_gate(gate, values)
        # Broadcasting requires the same gates for all samples, so qubits without an excitation are rotated by zero.
        for qubit, angle in enumerate(angles):
            self._rotation(angle, wires=qubit)
        for block in self._circuit.blocks:
            for gate in block.placed:
                apply_gate(gate, values)
        return [qml.expval(qml.Z(qubit)) for qubit in self._circuit.readouts]


def apply_gate(gate: Gate, values: Sequence[Any]) -> None:
    """Apply a gate, whose angle is the value of its parameter in rad."""
    if gate.parameter < 0:
        _GATES[gate.name](wires=gate.qubits)
    else:
        _GATES[gate.name](gate.sign * values[gate.parameter], wires=gate.qubits)


if __name__ == "__main__":
    process.run(f"PennyLane lightning {qml.version()}", process.parser(features=True).parse_args(), Lightning)
