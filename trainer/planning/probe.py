"""Measures this machine, by the programs of training themselves, in a few seconds."""

import functools
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from trainer import data
from trainer.config import from_mapping
from trainer.model import assemble
from trainer.planning.machine import Machine, layer_weights
from trainer.simulators.costs.cost import Cost, Speed, evolution
from trainer.simulators.evolution import Unitaries, evolve, real_forms
from trainer.simulators.interface import Batch, Table
from trainer.simulators.structure.gates import Exponent, Gate, Network, Spectrum, read_model
from trainer.simulators.structure.groups import Block, Group
from trainer.training.batches import shard
from trainer.training.optimizer import build_optimizer
from trainer.training.steps import training_epoch

_REPEATS, _STEPS = 5, 5
# Qubits and states: so few amplitudes that only the number of kernels counts, and more than fit in any cache.
_SMALL, _LARGE = (8, 1), (18, 8)
# Qubits and samples of a step: so few that only its update counts, and of more only the hidden layer.
_FEW, _MANY = (4, 4), (64, 256)
_UPDATES = 50


def probe() -> Machine:
    """Measure this machine, taken for idle: the least of several times counts."""
    small, kernels = _measure(*_SMALL)
    large, work = _measure(*_LARGE)
    kernel_seconds = small / kernels.kernels
    left = max(large - small, 1e-9)
    call, update, _ = _around(*_FEW)
    _, step, weights = _around(*_MANY)
    return Machine(
        # Arithmetic and traffic overlap and the slower one decides, so each may have taken all of the time.
        Speed(flops=work.flops / left, traffic=work.traffic / left, kernel_seconds=kernel_seconds),
        call_seconds=call,
        update_seconds=update,
        weight_seconds=max(step - update, 1e-9) / weights,
    )


def _measure(qubits: int, states: int) -> tuple[float, Cost]:
    """Return the seconds of evolving states forward and back, and what that costs by the same count as a step."""
    groups = [_group(range(4)), _group(range(qubits - 4, qubits)), _group(range(2, 6))]
    unitaries = Unitaries(groups, 1)
    states_before = np.full((states, 2**qubits, 2), 2.0 ** (-qubits / 2), np.float32)

    def step(parameters: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            kinds = tf.unstack(real_forms(unitaries(parameters), tf.float32))
            matrices = [kinds[unitaries.index(group)] for group in groups]
            final = evolve([group.qubits for group in groups], tf.constant(states_before), matrices)
            value = tf.reduce_sum(final[..., 0] ** 2)
        return parameters - 1e-3 * tape.gradient(value, parameters)

    # Many steps a call, as in an epoch: entering a compiled program takes longer than a small step.
    @tf.function(jit_compile=True, autograph=False)
    def steps(parameters: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda index, _: index < _STEPS, lambda index, last: (index + 1, step(last)), (0, parameters)
        )[1]

    parameters = tf.constant([0.3], tf.float64)
    seconds = _least(lambda: steps(parameters).numpy()) / _STEPS
    return seconds, evolution(groups, states * 2.0**qubits, real_bytes=4)


def _group(qubits: range) -> Group:
    dimension = 2 ** len(qubits)
    half = np.diag((np.arange(dimension) % 2).astype(np.complex128))
    spectrum = Spectrum(np.array([0.0, 1.0]), np.stack([np.eye(dimension) - half, half]))
    gate = Gate(tuple(qubits), spectrum, Exponent(0.0, ((0, 1.0),)))
    return Group(gate.qubits, (Block(gate.qubits, (gate,)),))


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


def _around(qubits: int, batch: int) -> tuple[float, float, int]:
    """Return the seconds of entering a training epoch and of one step without states, and its hidden weights."""
    config = from_mapping({"qubits": qubits, "batch_size": batch, "rounds": batch, "workers": 1, "strategy": "none"})
    ansatz, network = read_model(config.model, config.qubits)
    model = assemble(config, ansatz, _Nothing(network))
    optimizer = build_optimizer(config, updates=1)
    optimizer.build(model.trainable_variables)
    run = training_epoch(tf.distribute.get_strategy(), model, optimizer)
    count = _UPDATES * batch
    samples = data.Samples(np.zeros(count, np.int32), np.zeros(count, np.float32), np.ones(count, np.int8))
    shards = shard(samples, batch, 1)
    call, whole = (_least(functools.partial(run, shards, range(updates))) for updates in (1, _UPDATES))
    return call, (whole - call) / (_UPDATES - 1), layer_weights(config, len(network.readouts))


def _least(run: Callable[[], object]) -> float:
    run()
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
