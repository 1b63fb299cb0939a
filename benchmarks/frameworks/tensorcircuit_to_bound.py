"""Train with tensorcircuit-ng on JAX, and write the trace of the epochs.

Samples, batches, learning rates and initializations are those of qcnn. Each convolution is one gate (`--blocks` of
benchmarks.frameworks.tensorcircuit). With a single initialization, validation is omitted, because it requires
additional compilation and does not affect the result.
"""

import json
import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tensorcircuit as tc

from benchmarks.frameworks.network import circuit
from benchmarks.frameworks.tensorcircuit import adam, initial_state, readouts_of
from benchmarks.frameworks.trace import Array, BenchmarkTask, TrainingTrace, load_task, parser


class ModelState(NamedTuple):
    """Weights and the state of Adam."""

    weights: list[jax.Array]
    optimizer: Any


class TrainableModel:
    """Network with a compiled training step and validation."""

    def __init__(self, task: BenchmarkTask, *, lightcone: bool) -> None:
        self._task = task
        network = circuit(task.model, task.qubits)
        self._readouts = partial(readouts_of, network, task.qubits, True, lightcone)
        self._step = jax.jit(self._one_step)
        self._compiled_squares = jax.jit(self._squares)

    def initial(self, index: int) -> ModelState:
        """Return the initial state of an initialization."""
        weights = [jnp.asarray(values[index], jnp.float32) for values in self._task.weights]
        return ModelState(weights, initial_state(weights))

    def epoch(self, state: ModelState, number: int) -> ModelState:
        """Train for the epoch with this number, counted from 0."""
        order = self._task.order[number]
        for index, batch in enumerate(batches(tuple(column[order] for column in self._task.train), self._size)):
            update = number * math.ceil(len(order) / self._size) + index
            state = self._step(state, batch, self._task.rates[update])
        return state

    def validation_mse(self, state: ModelState) -> float:
        """Return the mean squared error of the validation samples."""
        samples = self._task.validation
        squares = [self._compiled_squares(state.weights, batch) for batch in batches(samples, self._size)]
        return sum(map(float, squares)) / len(samples[0])

    @property
    def _size(self) -> int:
        return self._task.batch_size

    def _squares(self, weights: list[jax.Array], batch: tuple[jax.Array, ...]) -> jax.Array:
        """Return the sum of squared errors."""
        parameters, *dense = weights
        qubit, angle, label, counts = batch
        if self._task.centered:
            # An excitation by angle 0 is the state without an excitation.
            values = self._readouts(parameters, jnp.append(qubit, 0), jnp.append(angle, 0.0))
            values = values[:-1] - values[-1]
        else:
            values = self._readouts(parameters, qubit, angle)
        for kernel, bias in zip(dense[::2], dense[1::2], strict=True):
            values = values @ kernel + bias
        return jnp.sum(counts * (values[:, 0] - label) ** 2)

    def _one_step(self, state: ModelState, batch: tuple[jax.Array, ...], rate: jax.Array) -> ModelState:
        def loss(weights: list[jax.Array]) -> jax.Array:
            return self._squares(weights, batch) / jnp.sum(batch[-1])

        return ModelState(*adam(state.weights, state.optimizer, jax.grad(loss)(state.weights), rate))


def batches(samples: tuple[Array, ...], size: int) -> Iterator[tuple[Array, ...]]:
    """Yield batches of equal size, which compile once.

    The last batch is padded. The last column is 1 for samples and 0 for padding.
    """
    columns = *samples, np.ones(len(samples[0]), np.float32)
    for first in range(0, len(samples[0]), size):
        batch = [column[first : first + size] for column in columns]
        yield tuple(np.pad(column, (0, size - len(column))) for column in batch)


def train(model: TrainableModel, task: BenchmarkTask, trace: TrainingTrace) -> None:
    """Train until the last epoch or the time limit.

    Args:
        model: Network of the task.
        task: Task.
        trace: Trace to which epochs are added.
    """
    state, done = model.initial(0), 0
    candidates: list[tuple[float, ModelState]] = []
    for index in range(task.initializations) if task.initializations > 1 else ():
        state, done = model.initial(index), task.trial_epochs
        losses = []
        for number in range(done):
            state = model.epoch(state, number)
            losses.append(model.validation_mse(state))
            trace.record(state.weights, undecided=True)
            if trace.is_over:
                return
        candidates.append((min(losses), state))
    if candidates:
        _, state = min(candidates, key=lambda pair: pair[0])
    for number in range(done, len(task.order)):
        state = model.epoch(state, number)
        trace.record(state.weights, undecided=False)
        if trace.is_over:
            return


def main() -> None:
    """Train and write the trace."""
    tc.set_backend("jax")
    tc.set_dtype("complex64")
    options = parser()
    options.add_argument("--lightcone", action="store_true", help="Set enable_lightcone of expectation_ps.")
    arguments = options.parse_args()
    trace, task = TrainingTrace(arguments.started, arguments.limit), load_task(arguments.task)
    train(TrainableModel(task, lightcone=arguments.lightcone), task, trace)
    trace.save(arguments.trace)
    print(json.dumps({"simulator": f"tensorcircuit-ng {tc.__version__}, jax {jax.__version__}"}))


if __name__ == "__main__":
    main()
