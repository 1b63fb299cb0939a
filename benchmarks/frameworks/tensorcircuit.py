"""tensorcircuit-ng on JAX, with vmap over samples and a jitted training step.

With --blocks, each convolution or pooling is applied as one gate, whose matrix is computed once for all qubit pairs.
Compilation takes a fraction of the time, and steps can be faster or slower. With --lightcone, gates outside the light
cone of a readout are omitted.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy.typing as npt
import tensorcircuit as tc

from benchmarks.frameworks import process
from benchmarks.frameworks.network import LEARNING_RATE, Batch, Circuit, FeatureBatch, Gate, StateBatch, StepTask

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-7


class TensorCircuit:
    """Network in tensorcircuit-ng, with an Adam optimizer."""

    def __init__(self, blocks: bool, lightcone: bool, task: StepTask) -> None:
        self._weights = [jnp.asarray(values, jnp.float32) for values in task.weights]
        self._state = initial_state(self._weights)
        self._readouts = partial(readouts_of, task.circuit, task.qubits, blocks, lightcone, task.amplitudes)
        self._is_classification = task.classes > 0
        self._step = jax.jit(self._one_step)

    def prepare(self, batch: Batch | FeatureBatch | StateBatch) -> Any:
        """Copy the batch to the device of JAX."""
        return tuple(map(jnp.asarray, batch))

    def step(self, prepared: Any) -> float:
        """Train on a batch, and return the loss."""
        loss, self._weights, self._state = self._step(self._weights, self._state, prepared)
        # JAX is asynchronous: the loss is complete before the weights.
        for values in self._weights:
            values.block_until_ready()
        return float(loss)

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts (batch, readouts) and gradients."""
        (_, readouts), gradients = jax.jit(jax.value_and_grad(self._loss, has_aux=True))(self._weights, prepared)
        return readouts, gradients

    def _loss(self, weights: list[jax.Array], batch: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        """Return the loss and the readouts."""
        parameters, *dense = weights
        *inputs, label = batch
        values = readouts = self._readouts(parameters, *inputs)
        for kernel, bias in zip(dense[::2], dense[1::2], strict=True):
            values = values @ kernel + bias
        if self._is_classification:
            logarithms = jax.nn.log_softmax(values)
            return -jnp.mean(jnp.take_along_axis(logarithms, label.astype(jnp.int32)[:, None], axis=1)), readouts
        return jnp.mean((values[:, 0] - label) ** 2), readouts

    def _one_step(self, weights: list[jax.Array], state: Any, batch: tuple[jax.Array, ...]) -> Any:
        (loss, _), gradients = jax.value_and_grad(self._loss, has_aux=True)(weights, batch)
        return loss, *adam(weights, state, gradients, LEARNING_RATE)


def initial_state(weights: list[jax.Array]) -> Any:
    """Return the initial state of Adam."""
    return (jnp.zeros(()), *([jnp.zeros_like(values) for values in weights] for _ in range(2)))


def adam(weights: list[jax.Array], state: Any, gradients: list[jax.Array], rate: Any) -> tuple[list[jax.Array], Any]:
    """Return weights and state after an Adam update with the formula of Keras.

    Args:
        weights: Weights before the update.
        state: Number of updates, and first and second moments.
        gradients: Gradients, in the order of the weights.
        rate: Learning rate.
    """
    count, first, second = state
    count += 1
    rate = rate * jnp.sqrt(1 - _BETA2**count) / (1 - _BETA1**count)
    first = [_BETA1 * m + (1 - _BETA1) * g for m, g in zip(first, gradients, strict=True)]
    second = [_BETA2 * v + (1 - _BETA2) * g**2 for v, g in zip(second, gradients, strict=True)]
    updated = [w - rate * m / (jnp.sqrt(v) + _EPSILON) for w, m, v in zip(weights, first, second, strict=True)]
    return updated, (count, first, second)


def readouts_of(
    circuit: Circuit,
    qubits: int,
    blocks: bool,
    lightcone: bool,
    amplitudes: bool,
    parameters: jax.Array,
    *inputs: jax.Array,
) -> jax.Array:
    """Return the expectation values of Z on the readout qubits, complex64 (batch, readouts).

    Args:
        circuit: Circuit.
        qubits: Number of qubits.
        blocks: Whether to apply each block as one gate.
        lightcone: Whether to omit gates outside the light cone of a readout.
        amplitudes: Whether samples are states.
        parameters: Circuit parameters (parameters,).
        *inputs: Excited qubits (batch,) and angles in rad (batch,), features in rad (batch, qubits), or states (batch,
            2^qubits).
    """
    gate_lists = {block.gates for block in circuit.blocks} if blocks else ()
    has_features = any(gate.feature >= 0 for block in circuit.blocks for gate in block.gates)
    shared = {} if has_features else {gates: _matrix(gates, parameters) for gates in gate_lists}

    def sample(*values: jax.Array) -> jax.Array:
        features = values[0] if has_features else None
        matrices = {gates: _matrix(gates, parameters, features) for gates in gate_lists} if has_features else shared
        state = tc.Circuit(qubits, inputs=values[0].astype(jnp.complex64) if amplitudes else None)
        if has_features:
            pass
        elif len(values) == 1 and not amplitudes:
            for index in range(qubits):
                state.ry(index, theta=values[0][index])
        elif not amplitudes:
            qubit, angle = values
            for gate in circuit.cluster:
                _apply(state, gate, parameters)
            # The excited qubit differs between samples but the circuit must not: all are rotated, the others by zero.
            for index in range(qubits):
                state.rx(index, theta=jnp.where(qubit == index, angle, 0.0))
        for block in circuit.blocks:
            if blocks:
                state.unitary(*block.qubits, unitary=matrices[block.gates])
            else:
                for gate in block.placed:
                    _apply(state, gate, parameters, features)
        readouts = [state.expectation_ps(z=[index], enable_lightcone=lightcone) for index in circuit.readouts]
        return jnp.real(jnp.stack(readouts))

    return jax.vmap(sample)(*inputs)


def _matrix(gates: tuple[Gate, ...], parameters: jax.Array, features: jax.Array | None = None) -> jax.Array:
    """Return the product of the gates of a block, (4, 4)."""
    matrix = jnp.eye(4, dtype=jnp.complex64)
    for gate in gates:
        name, angles = _library_gate(gate, parameters, features)
        factor = getattr(tc.gates, name)(**angles).tensor.reshape(2 ** len(gate.qubits), -1)
        if len(gate.qubits) == 1:
            factor = jnp.kron(factor, jnp.eye(2)) if gate.qubits == (0,) else jnp.kron(jnp.eye(2), factor)
        matrix = factor @ matrix
    return matrix


def _apply(state: Any, gate: Gate, parameters: jax.Array, features: jax.Array | None = None) -> None:
    name, angles = _library_gate(gate, parameters, features)
    getattr(state, name)(*gate.qubits, **angles)


def _library_gate(gate: Gate, parameters: jax.Array, features: jax.Array | None) -> tuple[str, dict[str, jax.Array]]:
    """Return the name of a gate in tensorcircuit, and its keyword arguments."""
    if gate.parameter < 0:
        return gate.name.lower(), {}
    factor = features[gate.feature] if features is not None and gate.feature >= 0 else gate.sign * math.pi
    return f"r{gate.name.lower()}", {"theta": factor * parameters[gate.parameter]}


def main() -> None:
    """Measure steps, or print readouts and gradients for the check."""
    tc.set_backend("jax")
    tc.set_dtype("complex64")
    parser = process.parser(features=True)
    parser.add_argument("--blocks", action="store_true", help="Apply each convolution and pooling as one gate.")
    parser.add_argument("--lightcone", action="store_true", help="Set enable_lightcone of expectation_ps.")
    arguments = parser.parse_args()
    name = f"tensorcircuit-ng {tc.__version__}, jax {jax.__version__}"
    options = ", blocks" * arguments.blocks + ", lightcone" * arguments.lightcone
    process.run(name + options, arguments, partial(TensorCircuit, arguments.blocks, arguments.lightcone))


if __name__ == "__main__":
    main()
