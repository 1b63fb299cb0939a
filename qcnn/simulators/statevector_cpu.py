"""Simulator statevector_cpu: state vectors in compiled kernels, for any circuit, on CPUs.

The kernels evolve bundles of samples, one sample per lane of a vector register, see `kernels.program`. Large states are
evolved one at a time, see `kernels.lanes`. A batch of excitations evolves its samples, or the states that determine the
readouts of all samples, whichever are fewer.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from qcnn.errors import ConfigError
from qcnn.simulators import kernels
from qcnn.simulators.costs.statevector_cpu import (
    evolves_samples,
    flipped_states,
    plan_memory,
    real_bytes,
    samples_of_a_bundle,
    shards_by_qubit,
    spanning_bundles,
    spanning_program,
)
from qcnn.simulators.data_states import angles_of_qubits, data_states, qubit_states, readouts_from_rows, rows_of_batch
from qcnn.simulators.input_exponents import InputExponents
from qcnn.simulators.interface import (
    ROUNDING,
    AmplitudeBatch,
    CircuitInputBatch,
    Inputs,
    ProductStateBatch,
    SimulatorLimits,
    StateBatch,
    StringCoefficients,
)
from qcnn.simulators.kernels import library
from qcnn.simulators.kernels.encoding import EncodedProgram, encode
from qcnn.simulators.kernels.lanes import lane_weights, spread
from qcnn.simulators.kernels.program import Program, build
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.tensor_ops import as_input, map_groups, map_in_chunks


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
        self.rounding = ROUNDING[size]
        self._dtype = tf.float64 if size == 8 else tf.float32
        self._lanes = samples_of_a_bundle(size)
        self._memory = plan_memory(network, limits)
        # Larger batches only occur without a gradient. The unexcited state, which centers readouts, is one sample more.
        self._keep_up_to = limits.share + 1 if self._memory.keep else 0
        program, self._one_state = build(network), self._memory.one_state
        self._samples = 1 if self._one_state else self._lanes
        if self._one_state:
            program = spread(program, self._lanes)
            self._lane_weights = lane_weights(program, self._lanes)
        self._of_samples = self._kernels(program)
        if network.inputs:
            self._exponents = InputExponents(network)
            numbers = {exponent: number for number, exponent in enumerate(network.exponents_by_sample)}
            self._exponent_of_phase = np.array([numbers[phase.exponent] for phase in program.phases], np.int32)
            self._frequencies = np.array([phase.frequency for phase in program.phases])
        if network.preparation.kind == "excitation" and not self._one_state:
            self._of_spanning_states = self._kernels(spanning_program(network, program, self._lanes))

    def _kernels(self, program: Program) -> "_Kernels":
        most = kernels.max_threads()
        threads = kernels.Threads(most if self._one_state else min(self._memory.threads, most), self._one_state)
        norms = self._dtype == tf.float32
        return _Kernels(encode(program, self.network.parameters, norms=norms), threads)

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return whether replicas should split a batch by qubit instead of by sample."""
        return self.network.preparation.kind == "excitation" and shards_by_qubit(
            self.network.qubits, batch, replicas, self._samples
        )

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of the Pauli strings, float64 (batch, strings)."""
        if isinstance(batch, StateBatch):
            return self._in_chunks(parameters, batch)
        if isinstance(batch, CircuitInputBatch):
            return self._readouts(parameters, self._circuit_inputs(parameters, batch.features), of_states=True)
        if isinstance(batch, ProductStateBatch):
            return self._readouts(parameters, self._product_inputs(batch))
        size, qubits = batch.qubit.shape[0], self.network.qubits
        if batch.own is None and size is not None and evolves_samples(qubits, size, self._samples):
            return self._readouts(parameters, self._excitation_inputs(batch.qubit, batch.angle))
        excited, places = rows_of_batch(qubits, batch)
        unexcited, flipped, mixed = self._rows(parameters, excited)
        return readouts_from_rows(unexcited, flipped, mixed, places, batch.angle)

    def table(self, parameters: tf.Tensor) -> StringCoefficients:
        """Return the coefficients of every possible excitation.

        Every qubit reaches all strings.
        """
        qubits, readouts = self.network.qubits, len(self.network.strings)
        unexcited, flipped, mixed = self._rows(parameters, tf.range(qubits))
        return StringCoefficients(unexcited, tf.tile(tf.range(readouts)[None, :], [qubits, 1]), flipped, mixed)

    def _rows(self, parameters: tf.Tensor, excited: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the unexcited, flipped and mixed rows of excited qubits, float64.

        The unexcited row is (readouts,). The flipped rows, minus the unexcited row, and the mixed rows are
        (qubits, readouts). They follow from the readouts at the angles pi and pi / 2.
        """
        unexcited, flipped, between = (
            self._spanning_samples(parameters, excited)
            if self._one_state
            else self._spanning_lanes(parameters, excited)
        )
        return unexcited, flipped - unexcited, 2 * between - unexcited - flipped

    def _spanning_samples(self, parameters: tf.Tensor, excited: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the readouts of the unexcited state, and of excited qubits at the angles pi and pi / 2."""
        count = excited.shape[0]
        angles = tf.constant([0.0, *[math.pi] * count, *[math.pi / 2] * count], tf.float64)
        samples = tf.concat([[0], excited, excited], axis=0)
        values = self._readouts(parameters, self._excitation_inputs(samples, angles))
        return values[0], values[1 : 1 + count], values[1 + count :]

    def _spanning_lanes(self, parameters: tf.Tensor, excited: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the same as `_spanning_samples`, from bundles of flipped states with the unexcited state."""
        count, lanes, whole = excited.shape[0], self._lanes, self.network.qubits
        flipped, bundles = flipped_states(whole, lanes), spanning_bundles(whole, count, lanes)
        qubits = tf.reshape(tf.pad(excited, [[0, bundles * flipped - count]]), [bundles, flipped])
        qubits = tf.reshape(tf.pad(qubits, [[0, 0], [lanes - flipped, 0]]), [-1])
        angles = tf.constant([*[0.0] * (lanes - flipped), *[math.pi] * flipped] * bundles, tf.float64)
        inputs = self._bundled(self._excitation_inputs(qubits, angles))
        plan = self._memory
        keep = plan.keep and plan.spanning and bundles * lanes <= plan.evolved
        if flipped == lanes:
            zero = self._in_lanes(self._excitation_inputs(tf.zeros([1], tf.int32), tf.zeros([1], tf.float64)))
            inputs = tf.concat([inputs, tf.tile(zero, [bundles, 1, 1, 1])], axis=1)
        found = self._of_spanning_states(parameters, inputs, keep=keep)
        readouts = len(self.network.strings)
        values = tf.transpose(found.map(lambda each: each[:, : 2 * readouts]).readouts(), [1, 0, 2])
        own, between = values[:readouts], values[readouts:]
        alone = found.map(lambda each: tf.reduce_sum(each[0, 2 * readouts :], axis=1))
        unexcited = alone.readouts() if flipped == lanes else own[:, 0, 0]
        rows = [
            tf.transpose(tf.reshape(part[:, :, lanes - flipped :], [-1, bundles * flipped]))[:count]
            for part in (own, between)
        ]
        return unexcited, rows[0], rows[1]

    def _in_chunks(self, parameters: tf.Tensor, batch: StateBatch) -> tf.Tensor:
        """Return the readouts, float64 (batch, readouts), in chunks of samples whose states fit in memory."""
        of_inputs, shape = isinstance(batch, AmplitudeBatch), (len(self.network.strings),)

        def measure(parameters: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
            given = data_states(self.network, StateBatch(states), self._dtype)
            return self._readouts(parameters, given, of_states=of_inputs)

        return map_in_chunks(measure, parameters, tuple(batch), self._memory.columns, shape, of_inputs=of_inputs)

    def _product_inputs(self, batch: ProductStateBatch) -> tf.Tensor:
        """Return the states of each qubit, (samples, 2 qubits, 2)."""
        states = qubit_states(self.network.preparation.kind, angles_of_qubits(self.network, batch), self._dtype)
        return tf.reshape(states, [-1, 2 * self.network.qubits, 2])

    def _circuit_inputs(self, parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        """Return |0> for each qubit, and the phases of the gates that depend on inputs, (samples, rows, 2)."""
        exponents = tf.gather(self._exponents(parameters, features), as_input(self._exponent_of_phase), axis=1)
        angles = np.pi * as_input(self._frequencies) * exponents
        phases = tf.cast(tf.stack([tf.cos(angles), tf.sin(angles)], axis=2), self._dtype)
        ground = tf.constant([[1.0, 0.0], [0.0, 0.0]] * self.network.qubits, self._dtype)
        return tf.concat([tf.tile(ground[None], [tf.shape(phases)[0], 1, 1]), phases], axis=1)

    def _excitation_inputs(self, qubit: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        """Return the rotations from which the kernels compute the data states, (samples, 2, 2)."""
        half, norm = tf.cast(angle, self._dtype) / 2, 2.0 ** (-self.network.qubits / 2)
        rotation = tf.stack([norm * tf.cos(half), norm * tf.sin(half)], axis=1)
        rotated = tf.cast(qubit, self._dtype)
        return tf.stack([rotation, tf.stack([rotated, tf.zeros_like(rotated)], axis=1)], axis=1)

    def _readouts(self, parameters: tf.Tensor, states: tf.Tensor, *, of_states: bool = False) -> tf.Tensor:
        """Return the readouts of input states (samples, amplitudes, 2), float64 (samples, readouts).

        With `of_states` they are also differentiable in the input states, which include phases of gates.
        """
        size, readouts = states.shape[0], len(self.network.strings)
        run = functools.partial(self._of_states, of_states=of_states)
        if size is None:
            # The number of bundles of a call is a constant of the program.
            return map_groups(run, parameters, (states[:, None],), (1, readouts), of_inputs=of_states)[:, 0]
        return run(parameters, states)

    def _of_states(self, parameters: tf.Tensor, states: tf.Tensor, *, of_states: bool) -> tf.Tensor:
        size = states.shape[0]
        keep = size <= self._keep_up_to
        if self._one_state:
            found = self._of_samples(parameters, self._in_lanes(states), keep=keep, of_states=of_states)
            return found.map(lambda each: tf.reduce_sum(each, axis=2) * self._lane_weights).readouts()
        found = self._of_samples(parameters, self._bundled(states), keep=keep, of_states=of_states)
        values = tf.transpose(found.readouts(), [0, 2, 1])
        return tf.reshape(values, [-1, values.shape[2]])[:size]

    def _bundled(self, states: tf.Tensor) -> tf.Tensor:
        """Return input states in bundles, (bundles, rows, 2, lanes)."""
        size, lanes = states.shape[0], self._lanes
        bundles = -(-size // lanes)
        padded = tf.pad(states, [[0, bundles * lanes - size], [0, 0], [0, 0]])
        return tf.transpose(tf.reshape(padded, [bundles, lanes, -1, 2]), [0, 2, 3, 1])

    def _in_lanes(self, states: tf.Tensor) -> tf.Tensor:
        """Return input states for programs of one state, (samples, rows, 2, lanes)."""
        if self.network.preparation.kind == "state":
            return tf.transpose(tf.reshape(states, [states.shape[0], -1, self._lanes, 2]), [0, 1, 3, 2])
        return tf.tile(states[..., None], [1, 1, 1, self._lanes])


class _Values(NamedTuple):
    """Expectation values of states that are not normalized, and for each the squared norm of its state.

    In complex64 the norms of states change with every gate. Readouts are divided by them. In complex128, `norms` is
    None.
    """

    values: tf.Tensor
    norms: tf.Tensor | None

    def map(self, change: Callable[[tf.Tensor], tf.Tensor]) -> "_Values":
        """Return a function of the values and of the norms."""
        return _Values(change(self.values), None if self.norms is None else change(self.norms))

    def readouts(self) -> tf.Tensor:
        """Return the readouts. Those of the zero states that fill bundles are 0."""
        return self.values if self.norms is None else tf.math.divide_no_nan(self.values, self.norms)


class _Kernels:
    """Program with its gradient."""

    def __init__(self, program: EncodedProgram, threads: kernels.Threads) -> None:
        self._program = program
        # XLA runs the kernels, also for callers that it does not compile.
        self._forward = tf.function(
            functools.partial(library.forward, program, threads), jit_compile=True, autograph=False
        )
        self._backward = tf.function(
            functools.partial(library.backward, program, threads), jit_compile=True, autograph=False
        )

    def __call__(self, parameters: tf.Tensor, states: tf.Tensor, *, keep: bool, of_states: bool = False) -> _Values:
        """Return the values, float64 (bundles, values, lanes), differentiable in the parameters.

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            states: Input states, (bundles, rows, 2, lanes).
            keep: Whether to keep the evolved states for the gradient.
            of_states: Whether the values are differentiable in the input states, too, as in a circuit with inputs.
        """

        @tf.custom_gradient
        def run(parameters: tf.Tensor, *inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
            values, *kept = self._forward(parameters, states, keep=keep)

            def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
                gradients: list[tf.Tensor] = self._backward(parameters, states, upstream, *kept, of_states=of_states)
                return gradients

            return values, gradient

        values = run(parameters, *([states] if of_states else []))
        readouts = self._program.readouts
        return _Values(values[:, :readouts], values[:, readouts:] if self._program.norms else None)
