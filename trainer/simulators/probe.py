"""How fast this machine evolves states: measured in about a second, so that predictions hold on any machine."""

import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from trainer.simulators.costs.cost import Cost, Speed, evolution
from trainer.simulators.evolution import Unitaries, evolve, real_forms
from trainer.simulators.structure.gates import Exponent, Gate, Spectrum
from trainer.simulators.structure.groups import Block, Group

_REPEATS, _STEPS = 5, 5
# Qubits and states: so few amplitudes that only the number of kernels counts, and more than fit in any cache.
_SMALL, _LARGE = (8, 1), (18, 8)


def probe() -> Speed:
    """Measure this machine."""
    small, kernels = _measure(*_SMALL)
    large, work = _measure(*_LARGE)
    kernel_seconds = small / kernels.kernels
    left = max(large - small, 1e-9)
    # Arithmetic and traffic overlap and the slower one decides, so each may have taken all of the time.
    return Speed(flops=work.flops / left, traffic=work.traffic / left, kernel_seconds=kernel_seconds)


def _measure(qubits: int, states: int) -> tuple[float, Cost]:
    """Return the seconds of evolving states forward and back, and what that costs by the same count as a step."""
    groups = [_group(range(4)), _group(range(qubits - 4, qubits)), _group(range(2, 6))]
    unitaries = Unitaries(groups, 1)
    data = np.full((states, 2**qubits, 2), 2.0 ** (-qubits / 2), np.float32)

    def step(parameters: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            kinds = tf.unstack(real_forms(unitaries(parameters), tf.float32))
            matrices = [kinds[unitaries.index(group)] for group in groups]
            final = evolve([group.qubits for group in groups], tf.constant(data), matrices)
            value = tf.reduce_sum(final[..., 0] ** 2)
        return parameters - 1e-3 * tape.gradient(value, parameters)

    # Many steps a call, as in an epoch: entering a compiled program takes longer than a small step.
    @tf.function(jit_compile=True, autograph=False)
    def steps(parameters: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda index, _: index < _STEPS, lambda index, last: (index + 1, step(last)), (0, parameters)
        )[1]

    parameters = tf.constant([0.3], tf.float64)
    seconds = _typical(lambda: steps(parameters).numpy()) / _STEPS
    return seconds, evolution(groups, states * 2.0**qubits, real_bytes=4)


def _group(qubits: range) -> Group:
    dimension = 2 ** len(qubits)
    half = np.diag((np.arange(dimension) % 2).astype(np.complex128))
    spectrum = Spectrum(np.array([0.0, 1.0]), np.stack([np.eye(dimension) - half, half]))
    gate = Gate(tuple(qubits), spectrum, Exponent(0.0, ((0, 1.0),)))
    return Group(gate.qubits, (Block(gate.qubits, (gate,)),))


def _typical(run: Callable[[], object]) -> float:
    run()
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
