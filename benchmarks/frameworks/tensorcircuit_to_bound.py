"""tensorcircuit-ng on jax, trained as the product trains: same samples, batches, weights, rates and starts.

A convolution is one gate (`--blocks` of benchmarks.frameworks.tensorcircuit). Validation, which costs compiling, is left out
where nothing depends on it: where there is one start.
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
from benchmarks.frameworks.tensorcircuit import adam, fresh_state, readouts_of
from benchmarks.frameworks.trace import Array, Exercise, Trace, load_exercise, parser


class Line(NamedTuple):
    """Weights under training, and Adam's state."""

    weights: list[jax.Array]
    state: Any


class Learner:
    """The network, its compiled step and its validation."""

    def __init__(self, exercise: Exercise, *, lightcone: bool) -> None:
        self._exercise = exercise
        network = circuit(exercise.model, exercise.qubits)
        self._readouts = partial(readouts_of, network, exercise.qubits, True, lightcone)
        self._step = jax.jit(self._one_step)
        self._sum = jax.jit(self._squares)

    def fresh(self, start: int) -> Line:
        """Return what a start begins with."""
        weights = [jnp.asarray(values[start], jnp.float32) for values in self._exercise.weights]
        return Line(weights, fresh_state(weights))

    def epoch(self, line: Line, number: int) -> Line:
        """Train for the epoch of this number, counted from 0."""
        order = self._exercise.order[number]
        for index, batch in enumerate(batches(tuple(column[order] for column in self._exercise.train), self._size)):
            update = number * math.ceil(len(order) / self._size) + index
            line = self._step(line, batch, self._exercise.rates[update])
        return line

    def validation(self, line: Line) -> float:
        """Return the mean squared error over the validation samples."""
        samples = self._exercise.validation
        return sum(float(self._sum(line.weights, batch)) for batch in batches(samples, self._size)) / len(samples[0])

    @property
    def _size(self) -> int:
        return self._exercise.batch_size

    def _squares(self, weights: list[jax.Array], batch: tuple[jax.Array, ...]) -> jax.Array:
        """Return the sum of squared errors."""
        parameters, *dense = weights
        qubit, angle, label, counts = batch
        if self._exercise.centred:
            # Turned by no angle: the state without an excitation.
            values = self._readouts(parameters, jnp.append(qubit, 0), jnp.append(angle, 0.0))
            values = values[:-1] - values[-1]
        else:
            values = self._readouts(parameters, qubit, angle)
        for kernel, bias in zip(dense[::2], dense[1::2], strict=True):
            values = values @ kernel + bias
        return jnp.sum(counts * (values[:, 0] - label) ** 2)

    def _one_step(self, line: Line, batch: tuple[jax.Array, ...], rate: jax.Array) -> Line:
        def loss(weights: list[jax.Array]) -> jax.Array:
            return self._squares(weights, batch) / jnp.sum(batch[-1])

        return Line(*adam(line.weights, line.state, jax.grad(loss)(line.weights), rate))


def batches(samples: tuple[Array, ...], size: int) -> Iterator[tuple[Array, ...]]:
    """Yield batches with a column more, 1 for a sample and 0 for what fills the last up: one shape compiles once."""
    columns = *samples, np.ones(len(samples[0]), np.float32)
    for first in range(0, len(samples[0]), size):
        batch = [column[first : first + size] for column in columns]
        yield tuple(np.pad(column, (0, size - len(column))) for column in batch)


def train(learner: Learner, exercise: Exercise, trace: Trace) -> None:
    """Train to the end, or until the time is up."""
    line, done = learner.fresh(0), 0
    tried: list[tuple[float, Line]] = []
    for start in range(exercise.starts) if exercise.starts > 1 else ():
        line, done = learner.fresh(start), exercise.trial
        losses = []
        for number in range(done):
            line = learner.epoch(line, number)
            losses.append(learner.validation(line))
            trace.note(line.weights, undecided=True)
            if trace.is_over:
                return
        tried.append((min(losses), line))
    if tried:
        _, line = min(tried, key=lambda pair: pair[0])
    for number in range(done, len(exercise.order)):
        line = learner.epoch(line, number)
        trace.note(line.weights, undecided=False)
        if trace.is_over:
            return


def main() -> None:
    """Train."""
    tc.set_backend("jax")
    tc.set_dtype("complex64")
    arguments = parser()
    arguments.add_argument("--lightcone", action="store_true", help="enable_lightcone of expectation_ps")
    given = arguments.parse_args()
    trace, exercise = Trace(given.started, given.limit), load_exercise(given.exercise)
    train(Learner(exercise, lightcone=given.lightcone), exercise, trace)
    trace.save(given.trace)
    print(json.dumps({"simulator": f"tensorcircuit-ng {tc.__version__}, jax {jax.__version__}"}))


if __name__ == "__main__":
    main()
