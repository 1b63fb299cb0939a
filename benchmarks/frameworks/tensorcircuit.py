"""tensorcircuit-ng on jax: samples by vmap, the whole step jitted.

With --blocks the matrix of a convolution, which all pairs share, is computed once and applied as one gate: a fraction
of the compiling, steps that may be faster or slower. With --lightcone each readout drops what it does not depend on.
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
from benchmarks.frameworks.network import LEARNING_RATE, Batch, Circuit, Gate, Task

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-7


class TensorCircuit:
    """The network and the state of Adam."""

    def __init__(self, blocks: bool, lightcone: bool, task: Task) -> None:
        self._weights = [jnp.asarray(values, jnp.float32) for values in task.weights]
        self._state = fresh_state(self._weights)
        self._readouts = partial(readouts_of, task.circuit, task.qubits, blocks, lightcone)
        self._step = jax.jit(self._one_step)

    def prepare(self, batch: Batch) -> Any:
        """Return the batch on jax's device."""
        return tuple(map(jnp.asarray, batch))

    def step(self, prepared: Any) -> float:
        """Train on a batch."""
        loss, self._weights, self._state = self._step(self._weights, self._state, prepared)
        # The loss is ready before the weights are.
        for values in self._weights:
            values.block_until_ready()
        return float(loss)

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts and gradients."""
        (_, readouts), gradients = jax.jit(jax.value_and_grad(self._loss, has_aux=True))(self._weights, prepared)
        return readouts, gradients

    def _loss(self, weights: list[jax.Array], batch: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        """Return the loss, and the readouts that it comes from."""
        parameters, *dense = weights
        qubit, angle, label = batch
        values = readouts = self._readouts(parameters, qubit, angle)
        for kernel, bias in zip(dense[::2], dense[1::2], strict=True):
            values = values @ kernel + bias
        return jnp.mean((values[:, 0] - label) ** 2), readouts

    def _one_step(self, weights: list[jax.Array], state: Any, batch: tuple[jax.Array, ...]) -> Any:
        (loss, _), gradients = jax.value_and_grad(self._loss, has_aux=True)(weights, batch)
        return loss, *adam(weights, state, gradients, LEARNING_RATE)


def fresh_state(weights: list[jax.Array]) -> Any:
    """Return the state that Adam begins with."""
    return (jnp.zeros(()), *([jnp.zeros_like(values) for values in weights] for _ in range(2)))


def adam(weights: list[jax.Array], state: Any, gradients: list[jax.Array], rate: Any) -> tuple[list[jax.Array], Any]:
    """Return weights and state after an update, as Keras makes it."""
    count, first, second = state
    count += 1
    rate = rate * jnp.sqrt(1 - _BETA2**count) / (1 - _BETA1**count)
    first = [_BETA1 * m + (1 - _BETA1) * g for m, g in zip(first, gradients, strict=True)]
    second = [_BETA2 * v + (1 - _BETA2) * g**2 for v, g in zip(second, gradients, strict=True)]
    moved = [w - rate * m / (jnp.sqrt(v) + _EPSILON) for w, m, v in zip(weights, first, second, strict=True)]
    return moved, (count, first, second)


def readouts_of(
    circuit: Circuit,
    qubits: int,
    blocks: bool,
    lightcone: bool,
    parameters: jax.Array,
    qubit: jax.Array,
    angle: jax.Array,
) -> jax.Array:
    """Return Z on the readouts, (batch, readouts)."""
    kinds = {block.gates for block in circuit.blocks} if blocks else ()
    matrices = {gates: _matrix(gates, parameters) for gates in kinds}

    def sample(qubit: jax.Array, angle: jax.Array) -> jax.Array:
        state = tc.Circuit(qubits)
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
                    _apply(state, gate, parameters)
        values = [state.expectation_ps(z=[index], enable_lightcone=lightcone) for index in circuit.readouts]
        return jnp.real(jnp.stack(values))

    return jax.vmap(sample)(qubit, angle)


def _matrix(gates: tuple[Gate, ...], parameters: jax.Array) -> jax.Array:
    """Return the product of the gates of a block, (4, 4)."""
    matrix = jnp.eye(4, dtype=jnp.complex64)
    for gate in gates:
        name, angles = _called(gate, parameters)
        factor = getattr(tc.gates, name)(**angles).tensor.reshape(2 ** len(gate.qubits), -1)
        if len(gate.qubits) == 1:
            factor = jnp.kron(factor, jnp.eye(2)) if gate.qubits == (0,) else jnp.kron(jnp.eye(2), factor)
        matrix = factor @ matrix
    return matrix


def _apply(state: Any, gate: Gate, parameters: jax.Array) -> None:
    name, angles = _called(gate, parameters)
    getattr(state, name)(*gate.qubits, **angles)


def _called(gate: Gate, parameters: jax.Array) -> tuple[str, dict[str, jax.Array]]:
    """Return the library's name of a gate, and its angle if it has one."""
    if gate.parameter < 0:
        return gate.name.lower(), {}
    return f"r{gate.name.lower()}", {"theta": gate.sign * math.pi * parameters[gate.parameter]}


def main() -> None:
    """Measure or check."""
    tc.set_backend("jax")
    tc.set_dtype("complex64")
    parser = process.parser()
    parser.add_argument("--blocks", action="store_true", help="apply convolutions and poolings as one gate each")
    parser.add_argument("--lightcone", action="store_true", help="enable_lightcone of expectation_ps")
    arguments = parser.parse_args()
    name = f"tensorcircuit-ng {tc.__version__}, jax {jax.__version__}"
    form = ", blocks" * arguments.blocks + ", lightcone" * arguments.lightcone
    process.run(name + form, arguments, partial(TensorCircuit, arguments.blocks, arguments.lightcone))


if __name__ == "__main__":
    main()
