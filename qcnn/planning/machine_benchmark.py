"""Benchmark of the local machine with the programs of training, in a few seconds."""

import functools
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from qcnn import data
from qcnn.circuits.preparation import Preparation
from qcnn.experiment.parsing import from_mapping
from qcnn.model.batches import shard
from qcnn.model.network import build_model
from qcnn.model.optimizer import build_optimizer
from qcnn.model.steps import training_epoch
from qcnn.planning.machine import NOMINAL_MACHINE, MachineProfile
from qcnn.process.operating_system import cores
from qcnn.simulators import costs, kernels, statevector_cpu
from qcnn.simulators.costs.cost import MachineSpeed, StepCost, evolution
from qcnn.simulators.evolution import GroupUnitaries, evolve, real_forms
from qcnn.simulators.interface import ProductStateBatch, SimulatorLimits
from qcnn.simulators.structure.gate_fusion import Block, GateGroup
from qcnn.simulators.structure.gates import read_model
from qcnn.simulators.structure.network import Gate, GateSpectrum, LinearExponent

# Minimum duration and minimum number of repetitions of each benchmark.
_SECONDS, _REPEATS = 0.4, 5
_STEPS = 4
# Experiment with few amplitudes, whose duration depends only on the number of kernels.
_SMALL = {"qubits": 5, "batch_size": 4, "rounds": 100, "workers": 1, "strategy": "none", "simulator": "statevector"}
# Number of samples to order, and batch size.
_SAMPLES, _BATCH = 2**15, 64
# Qubits and states: amplitudes that fit in the cache of one core, and more than fit in any cache.
_FEW, _MANY = (10, 11), (17, 8)
# Network and batch size of the benchmark of the compiled kernels.
_COMPILED = "deep", 12, 32


def benchmark_machine() -> MachineProfile:
    """Measure the rates of the local machine's processor, each from the shortest of several times.

    The rates also serve for machines without GPUs, so that they are not those of local GPUs.
    """
    with tf.device("/CPU:0"):
        call_seconds, kernel_seconds = _epoch()
        few_seconds, few = _evolution(*_FEW, tf.float64)
        many_seconds, many = _evolution(*_MANY, tf.float32)
    return MachineProfile(
        MachineSpeed(
            # Arithmetic and memory traffic overlap, and the slower one determines the time. Both use the whole time.
            flops=many.flops / many_seconds,
            traffic=many.traffic / many_seconds,
            few_flops=few.few_flops / few_seconds,
            kernel_seconds=kernel_seconds,
            compiled_flops=_compiled_flops(kernel_seconds),
        ),
        call_seconds,
        _ordering_seconds() / _SAMPLES,
        cores(),
    )


def _ordering_seconds() -> float:
    """Return the seconds for permuting samples and splitting them into batches."""
    zeros = np.zeros(_SAMPLES, np.int32)
    samples = data.excitation_samples(zeros, zeros.astype(np.float32), zeros.astype(np.int8))
    return _min_seconds(lambda: shard(samples.take(data.epoch_order(0, 1, _SAMPLES)), _BATCH, 1))


def _epoch() -> tuple[float, float]:
    """Return the seconds of a call of a training epoch, and of a kernel of its steps."""
    config = from_mapping(_SMALL)
    model = build_model(config)
    optimizer = build_optimizer(config, updates=1)
    optimizer.build(model.trainable_variables)
    run = training_epoch(tf.distribute.get_strategy(), model, optimizer)
    shards = shard(data.generate(config).train, config.batch_size, 1)
    updates = len(shards.sizes)
    one, every = (_min_seconds(functools.partial(run, shards, range(count))) for count in (1, updates))
    step = max(every - one, 1e-9) / (updates - 1)
    network = model.get_layer("quantum").simulator.network
    return max(one - step, 0.0), step / costs.statevector.estimate(network, config.limits).kernels


def _evolution(qubits: int, states: int, dtype: tf.DType) -> tuple[float, StepCost]:
    """Return the seconds and the counted cost of evolving states forward and backward."""
    groups = [_group(range(4)), _group(range(qubits - 4, qubits)), _group(range(2, 6))]
    unitaries = GroupUnitaries(groups, 1)
    before = np.full((states, 2**qubits, 2), 2.0 ** (-qubits / 2), dtype.as_numpy_dtype)

    def step(parameters: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            kinds = tf.unstack(real_forms(unitaries(parameters), dtype))
            matrices = [kinds[unitaries.index(group)] for group in groups]
            final = evolve([group.qubits for group in groups], tf.constant(before), matrices)
            value = tf.reduce_sum(final[..., 0] ** 2)
        return parameters - 1e-3 * tape.gradient(value, parameters)

    return _seconds_of_step(step, parameters=1), evolution(groups, states << qubits, dtype.size)


def _compiled_flops(kernel_seconds: float) -> float:
    """Return the operations per second of the compiled kernels, those of a typical machine if they cannot run here.

    Args:
        kernel_seconds: Seconds of a kernel of a compiled program, which a step has in addition.
    """
    if kernels.missing_reason():
        return NOMINAL_MACHINE.with_cores(cores()).speed.compiled_flops
    model, qubits, batch = _COMPILED
    _, network = read_model(model, qubits, Preparation("ry", qubits))
    limits = SimulatorLimits(memory=2**30, batch=batch)
    simulator = statevector_cpu.create(network, limits)
    features = tf.constant(np.random.default_rng(0).uniform(-np.pi, np.pi, (batch, qubits)), tf.float32)

    def step(parameters: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = tf.reduce_sum(simulator.expectations(parameters, ProductStateBatch(features)))
        return parameters - 1e-3 * tape.gradient(value, parameters)

    cost = costs.statevector_cpu.estimate(network, limits)
    seconds = _seconds_of_step(step, network.parameters)
    # At least a tenth of the step, because other load can make the benchmark of a kernel slow.
    return cost.compiled_flops / max(seconds - cost.kernels * kernel_seconds, 0.1 * seconds)


def _seconds_of_step(step: Callable[[tf.Tensor], tf.Tensor], parameters: int) -> float:
    """Return the seconds of a training step, which changes the values of parameters."""

    # Several steps per call, as in an epoch, because a call of a compiled program takes as long as a small step.
    @tf.function(jit_compile=True, autograph=False)
    def steps(values: tf.Tensor) -> tf.Tensor:
        _, last = tf.while_loop(lambda index, _: index < _STEPS, lambda index, own: (index + 1, step(own)), (0, values))
        return last

    values = tf.constant(np.full(parameters, 0.3), tf.float64)
    return _min_seconds(lambda: steps(values).numpy()) / _STEPS


def _group(qubits: range) -> GateGroup:
    dimension = 2 ** len(qubits)
    half = np.diag((np.arange(dimension) % 2).astype(np.complex128))
    spectrum = GateSpectrum(np.array([0.0, 1.0]), np.stack([np.eye(dimension) - half, half]))
    gate = Gate(tuple(qubits), spectrum, LinearExponent(0.0, ((0, 1.0),)))
    return GateGroup(gate.qubits, (Block(gate.qubits, (gate,)),))


def _min_seconds(run: Callable[[], object]) -> float:
    run()
    seconds: list[float] = []
    while len(seconds) < _REPEATS or sum(seconds) < _SECONDS:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
