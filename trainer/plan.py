"""What an experiment will cost, before it runs."""

import dataclasses
import time

import numpy as np
import tensorflow as tf

from trainer import data
from trainer.config import ExperimentConfig
from trainer.expectation import WORKERS, estimate_with, reductions_of, seconds_on_states
from trainer.limits import limits
from trainer.model import assemble
from trainer.quantum import circuits
from trainer.simulators import choice
from trainer.simulators.choice import Estimate
from trainer.simulators.interface import Batch, Table
from trainer.simulators.probe import probe
from trainer.simulators.registry import SIMULATORS
from trainer.simulators.structure.gates import Network, read_model
from trainer.simulators.structure.readouts import find_readouts
from trainer.training.batches import shard
from trainer.training.optimizer import build_optimizer
from trainer.training.steps import measuring_epoch, training_epoch

_PROBED_STEPS = 50


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Seconds an epoch with one simulator, for an experiment's number of workers."""

    estimate: Estimate
    epoch_seconds: float


@dataclasses.dataclass(frozen=True)
class Plan:
    """What an experiment will cost; `by_workers` holds the seconds an epoch of the chosen simulator."""

    samples: int
    train_steps: int
    validation_steps: int
    circuits: int
    readouts: int
    cones: tuple[tuple[int, ...], ...]
    predictions: tuple[Prediction, ...]
    chosen: Prediction
    by_workers: dict[int, float]
    probe_seconds: float


def plan(config: ExperimentConfig) -> Plan:
    """Count what an experiment does and predict its seconds from a short measurement of this machine.

    Raises:
        ConfigError: the experiment cannot run.

    >>> from trainer.config import from_mapping
    >>> expected = plan(from_mapping({"qubits": 4, "rounds": 10}))
    >>> expected.samples, expected.train_steps, expected.readouts, expected.chosen.estimate.simulator
    (40, 1, 2, 'statevector')
    >>> list(expected.by_workers)
    [1, 2, 4, 8, 16, 32]
    """
    ansatz, network = read_model(config.model, config.qubits)
    if config.simulator != "auto":
        # Whatever it refuses is refused here.
        SIMULATORS[config.simulator].check(network, limits(config))
    counts = config.split_counts
    steps = [-(-count // config.batch_size) for count in (counts.train, counts.validation)]
    estimates = choice.estimates(network, limits(config))
    cheapest = choice.cheapest(estimates, network, limits(config)).simulator
    name = cheapest if config.simulator == "auto" else config.simulator
    start = time.perf_counter()
    speed, rest = probe(), _rest_of_an_epoch(config, ansatz, network)
    probed = time.perf_counter() - start

    def predict(estimate: Estimate, workers: int) -> float:
        return rest + reductions_of(steps[0], workers) + seconds_on_states(estimate, speed, steps)

    predictions = tuple(Prediction(estimate, predict(estimate, config.workers)) for estimate in estimates)
    chosen = next(prediction for prediction in predictions if prediction.estimate.simulator == name)
    by_workers = {
        workers: predict(estimate_with(config, network, name, workers), workers)
        for workers in WORKERS
        if workers <= config.batch_size
    }
    return Plan(
        samples=config.rounds * config.qubits,
        train_steps=steps[0],
        validation_steps=steps[1],
        circuits=counts.train + counts.validation,
        readouts=len(network.readouts),
        cones=_cones(network),
        predictions=predictions,
        chosen=chosen,
        by_workers=by_workers,
        probe_seconds=probed,
    )


def _cones(network: Network) -> tuple[tuple[int, ...], ...]:
    """Return, for every kind of readout, the qubits of its independent parts, traced out ones included."""
    kinds = find_readouts(network).kinds
    return tuple(tuple(part.cone.inner + part.cone.outer for part in kind.parts) for kind in kinds)


class _Nothing:
    """A simulator that takes no time: what is left of an epoch is everything else."""

    name = "nothing"
    compiles = True
    large = False

    def __init__(self, network: Network) -> None:
        self.network = network
        self._readouts = len(network.readouts)

    def by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: it runs alone."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Return zeros, float64 (batch, readouts), that depend on the parameters."""
        nothing = 0 * tf.reduce_sum(parameters)
        return tf.zeros([tf.shape(batch.qubit)[0], self._readouts], tf.float64) + nothing

    def table(self, parameters: tf.Tensor) -> Table:
        """Return zeros, of one qubit."""
        zeros = tf.zeros([1, 1], tf.float64)
        return Table(tf.zeros([self._readouts], tf.float64), tf.zeros([1, 1], tf.int32), zeros, zeros)


def _rest_of_an_epoch(config: ExperimentConfig, ansatz: circuits.Ansatz, network: Network) -> float:
    """Measure a part of an epoch of one process, without its simulator; return the seconds of the whole."""
    model = assemble(config, ansatz, _Nothing(network))
    optimizer = build_optimizer(config, updates=1)
    optimizer.build(model.trainable_variables)
    strategy = tf.distribute.get_strategy()
    runs = (training_epoch(strategy, model, optimizer), measuring_epoch(strategy, model))
    total = 0.0
    counts = config.split_counts
    for run, count in zip(runs, (counts.train, counts.validation), strict=True):
        part = min(count, _PROBED_STEPS * config.batch_size)
        samples = data.Samples(np.zeros(part, np.int32), np.zeros(part, np.float32), np.ones(part, np.int8))
        run(shard(samples, config.batch_size, 1))
        start = time.perf_counter()
        run(shard(samples, config.batch_size, 1))
        total += (time.perf_counter() - start) * count / part
    return total
