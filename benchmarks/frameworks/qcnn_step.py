"""Training step of qcnn: its model and compiled epochs, on the batches of the other frameworks."""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from benchmarks.frameworks import layers, process
from benchmarks.frameworks.network import (
    EPOCH_STEPS,
    HIDDEN_UNITS,
    LEARNING_RATE,
    Batch,
    FeatureBatch,
    StateBatch,
    StepTask,
)
from qcnn.circuits.circuits import ring
from qcnn.circuits.formats.loading import embed_ansatz
from qcnn.data import Samples
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.fields import MEMORY
from qcnn.experiment.parsing import from_mapping
from qcnn.model.batches import Shards, shard
from qcnn.model.network import build_model
from qcnn.model.optimizer import assign, build_optimizer, values_of
from qcnn.model.steps import training_epoch


class QcnnFramework:
    """Network of qcnn without a distribution strategy."""

    def __init__(self, config: ExperimentConfig, task: StepTask) -> None:
        self._model, optimizer = build_model(config), build_optimizer(config, updates=1)
        self._variables = self._model.trainable_variables
        optimizer.build(self._variables)
        assign(self._variables, task.weights)
        self.run = training_epoch(tf.distribute.get_strategy(), self._model, optimizer)

    def prepare(self, batch: Batch | FeatureBatch | StateBatch) -> Shards:
        """Return the batch as one shard."""
        return shards_of([batch])

    def step(self, prepared: Shards) -> float:
        """Train on a batch, and return the loss."""
        return float(self.run(prepared)[0, 0])

    def gradients(self, prepared: Shards) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts (batch, readouts) and gradients, which are the updates of a gradient descent step."""
        samples = {name: values[0, 0] for name, values in prepared.inputs.items()}
        readouts = self._model.get_layer("quantum")(samples).numpy()
        before = values_of(self._variables)
        training_epoch(tf.distribute.get_strategy(), self._model, _GradientDescent())(prepared)
        return readouts, [old - new for old, new in zip(before, values_of(self._variables), strict=True)]


class _GradientDescent:
    """Gradient descent with learning rate 1. An update equals the gradient."""

    def apply_gradients(self, pairs: Any, skip_gradients_aggregation: bool) -> None:
        for gradient, variable in pairs:
            variable.assign_sub(gradient)


def measure(name: str, config: ExperimentConfig, task: StepTask, repeats: int) -> None:
    """Measure the first step, then epochs of 32 steps, and print the result as JSON.

    Args:
        name: Name of the framework in the result.
        config: Experiment.
        task: Network and batches.
        repeats: Minimum number of epochs.
    """
    shards = shards_of([task.samples(index) for index in range(1 + EPOCH_STEPS)])
    start = time.perf_counter()
    framework = QcnnFramework(config, task)
    losses = framework.run(shards, range(1))[:, 0].tolist()
    first, since_start = time.perf_counter() - start, process.seconds_since_start()
    seconds: list[float] = []
    while process.should_repeat(seconds, repeats):
        start = time.perf_counter()
        measures = framework.run(shards, range(1, 1 + EPOCH_STEPS))
        seconds.append(time.perf_counter() - start)
        losses += measures[:, 0].tolist()
    process.report_steps(name, task, first, since_start, [epoch / EPOCH_STEPS for epoch in seconds], losses)


def shards_of(batches: Sequence[Batch | FeatureBatch | StateBatch]) -> Shards:
    """Return batches as shards of one replica, in which each batch is a step."""
    *inputs, label = (np.concatenate(column) for column in zip(*batches, strict=True))
    samples = Samples(dict(zip(batches[0]._fields, inputs, strict=False)), label.astype(np.int8))
    return shard(samples, len(batches[0].label), replicas=1)


def _config(arguments: argparse.Namespace) -> ExperimentConfig:
    model, encoding = arguments.model, "ry"
    if model == "layers":
        model = "benchmarks.frameworks.layers:layers"
    elif model == "reuploading":
        model, encoding = embed_ansatz(layers.reuploading(ring(arguments.qubits)), "circuit.json"), "circuit"
    return from_mapping(
        {
            "model": model,
            **({"data": MEMORY, "encoding": encoding} if arguments.features else {}),
            **({"data": MEMORY, "encoding": "amplitude"} if arguments.amplitudes else {}),
            "qubits": arguments.qubits,
            "simulator": arguments.simulator,
            "batch_size": arguments.batch,
            "learning_rate": LEARNING_RATE,
            "hidden_units": HIDDEN_UNITS,
            "strategy": "none",
            "workers": 1,
            # The other frameworks have a constant learning rate and compute plain expectation values.
            "options": {
                "learning_rate_schedule": "constant",
                "warmup_fraction": 0,
                "readout_normalization": "none",
                **({"loss": "cross_entropy", "classes": arguments.classes} if arguments.classes else {}),
            },
        }
    )


def main() -> None:
    """Measure steps, or print readouts and gradients for the check."""
    parser = process.parser(features=True)
    parser.add_argument("--simulator", default="lightcone")
    arguments = parser.parse_args()
    name, config = f"qcnn, {arguments.simulator}", _config(arguments)
    if arguments.check:
        process.run(name, arguments, lambda task: QcnnFramework(config, task))
    else:
        measure(name, config, process.task_of(arguments), arguments.repeats)


if __name__ == "__main__":
    main()
