"""The product itself: its model and its compiled epochs, on the batches that the peers see."""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from benchmarks.frameworks import process
from benchmarks.frameworks.network import EPOCH_STEPS, HIDDEN_UNITS, LEARNING_RATE, Batch, Task
from qcnn.data import excited
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.model.batches import Shards, shard
from qcnn.model.network import build_model
from qcnn.model.optimizer import assign, build_optimizer, values_of
from qcnn.model.steps import training_epoch


class Ours:
    """The network without a strategy."""

    def __init__(self, config: ExperimentConfig, task: Task) -> None:
        self._model, optimizer = build_model(config), build_optimizer(config, updates=1)
        self._variables = self._model.trainable_variables
        optimizer.build(self._variables)
        assign(self._variables, task.weights)
        self.run = training_epoch(tf.distribute.get_strategy(), self._model, optimizer)

    def prepare(self, batch: Batch) -> Shards:
        """Return the batch as one shard."""
        return _shards([batch])

    def step(self, prepared: Shards) -> float:
        """Train on a batch."""
        return float(self.run(prepared)[0, 0])

    def gradients(self, prepared: Shards) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts and gradients, as one step of gradient descent moves the weights."""
        samples = {name: values[0, 0] for name, values in prepared.inputs.items()}
        readouts = self._model.get_layer("quantum")(samples).numpy()
        before = values_of(self._variables)
        training_epoch(tf.distribute.get_strategy(), self._model, _Descent())(prepared)
        return readouts, [old - new for old, new in zip(before, values_of(self._variables), strict=True)]


class _Descent:
    """The simplest optimizer that the training step accepts: weights minus gradients."""

    def apply_gradients(self, pairs: Any, skip_gradients_aggregation: bool) -> None:
        for gradient, variable in pairs:
            variable.assign_sub(gradient)


def measure(name: str, config: ExperimentConfig, task: Task, repeats: int) -> None:
    """Measure the first step, then epochs of 32, and print both."""
    shards = _shards([task.batch(index) for index in range(1 + EPOCH_STEPS)])
    start = time.perf_counter()
    ours = Ours(config, task)
    losses = ours.run(shards, range(1))[:, 0].tolist()
    first = time.perf_counter() - start
    seconds: list[float] = []
    while process.goes_on(seconds, repeats):
        start = time.perf_counter()
        measures = ours.run(shards, range(1, 1 + EPOCH_STEPS))
        seconds.append(time.perf_counter() - start)
        losses += measures[:, 0].tolist()
    process.measured(name, task, first, [epoch / EPOCH_STEPS for epoch in seconds], losses)


def _shards(batches: list[Batch]) -> Shards:
    qubit, angle, label = (np.concatenate(column) for column in zip(*batches, strict=True))
    return shard(excited(qubit, angle, label.astype(np.int8)), len(batches[0].qubit), replicas=1)


def _config(arguments: argparse.Namespace) -> ExperimentConfig:
    return from_mapping(
        {
            "model": arguments.model,
            "qubits": arguments.qubits,
            "simulator": arguments.simulator,
            "batch_size": arguments.batch,
            "learning_rate": LEARNING_RATE,
            "hidden_units": HIDDEN_UNITS,
            "strategy": "none",
            "workers": 1,
        }
    )


def main() -> None:
    """Measure or check."""
    parser = process.parser()
    parser.add_argument("--simulator", default="lightcone")
    arguments = parser.parse_args()
    name, config = f"qcnn, {arguments.simulator}", _config(arguments)
    if arguments.check:
        process.run(name, arguments, lambda task: Ours(config, task))
    else:
        measure(name, config, Task(arguments.model, arguments.qubits, arguments.batch), arguments.repeats)


if __name__ == "__main__":
    main()
