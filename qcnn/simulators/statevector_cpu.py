"""Simulator statevector_cpu: state vectors in compiled kernels, for any circuit, on CPUs.

The kernels evolve bundles of samples, one sample per lane of a vector register, see `kernels.program`. Large states are
evolved one at a time, see `kernels.lanes`. A batch of excitations evolves its samples, or the states that determine the
readouts of all samples, whichever are fewer.
"""

import functools
import math
from collections.abc import Callable

import tensorflow as tf

from qcnn.errors import ConfigError
from qcnn.simulators.costs.statevector_cpu import (
    plan_memory,
    real_bytes,
    samples_of_a_bundle,
    shards_by_qubit,
    spanning_samples,
)
from qcnn.simulators.data_states import data_states, qubit_states, readouts_from_rows, rows_of_batch
from qcnn.simulators.interface import (
    Inputs,
    ProductStateBatch,
    ReadoutCoefficients,
    SimulatorLimits,
    StateBatch,
)
from qcnn.simulators.kernels import library
from qcnn.simulators.kernels.encoding import encode
from qcnn.simulators.kernels.lanes import lane_weights, spread
from qcnn.simulators.kernels.program import build
from qcnn.simulators.structure.gates import CircuitIR
from qcnn.simulators.tensor_ops import map_in_chunks


def create(network: CircuitIR, limits: SimulatorLimits) -> "StatevectorCpuSimulator":
    """Create the simulator of a checked network.

    Raises:
        ConfigError: If TensorFlow compiles for GPUs.
    """
    if tf.config.get_visible_devices("GPU"):
        raise ConfigError(
            "simulator: must not be statevector_cpu where TensorFlow uses GPUs, unless CUDA_VISIBLE_DEVICES hides "
            "them. Given: statevector_cpu"
        )
    library.register()
    return StatevectorCpuSimulator(network, limits)


class StatevectorCpuSimulator:
    """Simulator that evolves state vectors in compiled kernels."""

    name = "statevector_cpu"
    compiles = True
    large = False

    def __init__(self, network: CircuitIR, limits: SimulatorLimits) -> None:
        self.network = network
        size = real_bytes(network, limits)
        self._dtype = tf.float64 if size == 8 else tf.float32
        self._lanes = samples_of_a_bundle(size)
        self._memory = plan_memory(network, limits)
        # Larger batches only occur without a gradient. The unexcited state, which centers readouts, is one sample more.
        self._keep_up_to = limits.share + 1 if self._memory.keep else 0
        program, one_state = build(network), self._memory.one_state
        self._samples = 1 if one_state else self._lanes
        if one_state:
            program = spread(program, self._lanes)
            self._lane_weights = lane_weights(program, self._lanes)
        self._program = encode(program, network.parameters)
        most = library.MAX_THREADS
        threads = library.Threads(most if one_state else min(self._memory.threads, most), one_state)
        # XLA runs the kernels, also for callers that it does not compile.
        self._forward = tf.function(
            functools.partial(library.forward, self._program, threads), jit_compile=True, autograph=False
        )
        self._backward = tf.function(
            functools.partial(library.backward, self._program, threads), jit_compile=True, autograph=False
        )

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return whether replicas should split a batch by qubit instead of by sample."""
        return self.network.preparation.kind == "excitation" and shards_by_qubit(
            self.network.qubits, batch, replicas, self._samples
        )

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of Z on the readouts, float64 (batch, readouts)."""
        if isinstance(batch, StateBatch):
            return self._in_chunks(parameters, batch)
        if isinstance(batch, ProductStateBatch):
            return self._readouts(parameters, self._product_inputs(batch))
        size, qubits = batch.qubit.shape[0], self.network.qubits
        if batch.own is None and size is not None and size <= spanning_samples(qubits):
            return self._readouts(parameters, self._excitation_inputs(batch.qubit, batch.angle))
        excited, places = rows_of_batch(qubits, batch)
        unexcited, flipped, mixed = self._rows(parameters, excited)
        return readouts_from_rows(unexcited, flipped, mixed, places, batch.angle)

    def table(self, parameters: tf.Tensor) -> ReadoutCoefficients:
        """Return the readout coefficients of every possible excitation.

        Every qubit reaches all readouts.
        """
        qubits, readouts = self.network.qubits, len(self.network.readouts)
        unexcited, flipped, mixed = self._rows(parameters, tf.range(qubits))
        return ReadoutCoefficients(unexcited, tf.tile(tf.range(readouts)[None, :], [qubits, 1]), flipped, mixed)

    def _rows(self, parameters: tf.Tensor, excited: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the unexcited, flipped and mixed rows of excited qubits, float64.

        The unexcited row is (readouts,). The flipped rows, minus the unexcited row, and the mixed rows are
        (qubits, readouts). They follow from samples at the angles pi and pi / 2.
        """
        count = excited.shape[0]
        angles = tf.constant([0.0, *[math.pi] * count, *[math.pi / 2] * count], tf.float32)
        samples = tf.concat([[0], excited, excited], axis=0)
        values = self._readouts(parameters, self._excitation_inputs(samples, angles))
        unexcited, flipped, between = values[0], values[1 : 1 + count], values[1 + count :]
        return unexcited, flipped - unexcited, 2 * between - unexcited - flipped

    def _in_chunks(self, parameters: tf.Tensor, batch: StateBatch) -> tf.Tensor:
        """Return the readouts, float64 (batch, readouts), in chunks of samples whose states fit in memory."""

        def measure(parameters: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
            return self._readouts(parameters, data_states(self.network, StateBatch(states), self._dtype))

        shape = (len(self.network.readouts),)
        return map_in_chunks(measure, parameters, tuple(batch), self._memory.columns, shape)

    def _product_inputs(self, batch: ProductStateBatch) -> tf.Tensor:
        """Return the states of each qubit, (samples, 2 qubits, 2)."""
        preparation = self.network.preparation
        angles = tf.pad(batch.features, [[0, 0], [0, self.network.qubits - preparation.features]])
        states = qubit_states(preparation.kind, angles, self._dtype)
        return tf.reshape(states, [-1, 2 * self.network.qubits, 2])

    def _excitation_inputs(self, qubit: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        """Return the rotations from which the kernels compute the data states, (samples, 2, 2)."""
        half, norm = tf.cast(angle, self._dtype) / 2, 2.0 ** (-self.network.qubits / 2)
        rotation = tf.stack([norm * tf.cos(half), norm * tf.sin(half)], axis=1)
        rotated = tf.cast(qubit, self._dtype)
        return tf.stack([rotation, tf.stack([rotated, tf.zeros_like(rotated)], axis=1)], axis=1)

    def _readouts(self, parameters: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """Return the readouts of input states (samples, amplitudes, 2), float64 (samples, readouts)."""
        size, readouts = states.shape[0], len(self.network.readouts)
        if size is None:
            # The number of bundles of a call is a constant of the program.
            one = tf.TensorSpec((readouts,), tf.float64)
            return tf.map_fn(lambda state: self._of_states(parameters, state[None])[0], states, fn_output_signature=one)
        return self._of_states(parameters, states)

    def _of_states(self, parameters: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        size, lanes = states.shape[0], self._lanes
        keep = size <= self._keep_up_to
        if self._memory.one_state:
            values = self._run(parameters, self._in_lanes(states), keep=keep)
            return tf.reduce_sum(values, axis=2) * self._lane_weights
        bundles = -(-size // lanes)
        padded = tf.pad(states, [[0, bundles * lanes - size], [0, 0], [0, 0]])
        bundled = tf.transpose(tf.reshape(padded, [bundles, lanes, -1, 2]), [0, 2, 3, 1])
        values = tf.transpose(self._run(parameters, bundled, keep=keep), [0, 2, 1])
        return tf.reshape(values, [bundles * lanes, -1])[:size]

    def _in_lanes(self, states: tf.Tensor) -> tf.Tensor:
        """Return input states for programs of one state, (samples, rows, 2, lanes)."""
        if self.network.preparation.kind == "state":
            return tf.transpose(tf.reshape(states, [states.shape[0], -1, self._lanes, 2]), [0, 1, 3, 2])
        return tf.tile(states[..., None], [1, 1, 1, self._lanes])

    def _run(self, parameters: tf.Tensor, states: tf.Tensor, *, keep: bool) -> tf.Tensor:
        """Return the readouts, float64 (bundles, readouts, lanes), differentiable in the parameters only."""

        @tf.custom_gradient
        def run(parameters: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            values, *kept = self._forward(parameters, states, keep=keep)

            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                return self._backward(parameters, states, upstream, *kept)

            return values, gradient

        return run(parameters)
