"""PennyLane's default.qubit on JAX, broadcast over samples, with backpropagation in a jitted training step."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy.typing as npt
import pennylane as qml

from benchmarks.frameworks import process
from benchmarks.frameworks.lightning import apply_gate
from benchmarks.frameworks.network import LEARNING_RATE, FeatureBatch, StepTask
from benchmarks.frameworks.tensorcircuit import adam, initial_state


class DefaultQubit:
    """Network in PennyLane on samples with one feature per qubit, with an Adam optimizer."""

    def __init__(self, task: StepTask) -> None:
        self._circuit = task.circuit
        self._weights = [jnp.asarray(values, jnp.float32) for values in task.weights]
        self._state = initial_state(self._weights)
        device = qml.device("default.qubit", wires=task.qubits)
        self._node = qml.QNode(self._measure, device, interface="jax", diff_method="backprop")
        self._step = jax.jit(self._one_step)

    def prepare(self, batch: FeatureBatch) -> Any:
        """Copy the batch to the device of JAX."""
        return jnp.asarray(batch.features), jnp.asarray(batch.label)

    def step(self, prepared: Any) -> float:
        """Train on a batch, and return the loss."""
        loss, self._weights, self._state = self._step(self._weights, self._state, *prepared)
        # JAX is asynchronous: the loss is complete before the weights.
        for values in self._weights:
            values.block_until_ready()
        return float(loss)

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts (batch, readouts) and gradients."""
        return self._readouts(self._weights[0], prepared[0]), jax.jit(jax.grad(self._loss))(self._weights, *prepared)

    def _readouts(self, parameters: jax.Array, features: jax.Array) -> jax.Array:
        return jnp.stack(self._node(parameters, features), axis=-1)

    def _loss(self, weights: list[jax.Array], features: jax.Array, label: jax.Array) -> jax.Array:
        parameters, *dense = weights
        values = self._readouts(parameters, features)
        for kernel, bias in zip(dense[::2], dense[1::2], strict=True):
            values = values @ kernel + bias
        return jnp.mean((values[:, 0] - label) ** 2)

    def _one_step(self, weights: list[jax.Array], state: Any, features: jax.Array, label: jax.Array) -> Any:
        loss, gradients = jax.value_and_grad(self._loss)(weights, features, label)
        return loss, *adam(weights, state, gradients, LEARNING_RATE)

    def _measure(self, parameters: jax.Array, features: jax.Array) -> list[Any]:
        for qubit in range(features.shape[1]):
            qml.RY(features[:, qubit], wires=qubit)
        for block in self._circuit.blocks:
            for gate in block.placed:
                apply_gate(gate, math.pi * parameters)
        return [qml.expval(qml.Z(qubit)) for qubit in self._circuit.readouts]


if __name__ == "__main__":
    name = f"PennyLane default.qubit {qml.version()}, jax {jax.__version__}"
    process.run(name, process.parser(features=True).parse_args(), DefaultQubit)
