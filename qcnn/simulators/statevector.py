"""Simulator statevector: state vectors in TensorFlow, for any circuit, on CPU and GPU.

A batch of excitations evolves its samples or the states that they span, whichever are fewer. The spanning states are
the graph state and one flipped state per qubit. Replicas that split a batch by qubit evolve the graph state and
only the flipped states of their share. With other preparations every sample is evolved. States that exceed the memory
limit are evolved in chunks.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.circuits.preparation import ring_edges
from qcnn.simulators.costs.statevector import DECLARATION, columns, few_amplitudes, real_bytes, shards_by_qubit
from qcnn.simulators.data_states import (
    data_states,
    flip_masks,
    readouts_from_rows,
    rows_of_batch,
    sample_states,
    spanning_states,
)
from qcnn.simulators.evolution import GroupUnitaries, SampleUnitaries, evolve, gradient_scales, on_last, real_forms
from qcnn.simulators.input_exponents import InputExponents
from qcnn.simulators.interface import (
    ROUNDING,
    AmplitudeBatch,
    CircuitInputBatch,
    ExcitationBatch,
    Inputs,
    ProductStateBatch,
    SimulatorLimits,
    StateBatch,
    StringCoefficients,
)
from qcnn.simulators.structure.gate_fusion import fuse, group_blocks
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.structure.pauli_strings import PauliString
from qcnn.simulators.tensor_ops import map_in_chunks


def create(network: CircuitIR, limits: SimulatorLimits) -> "StatevectorSimulator":
    """Create the simulator of a checked network."""
    dtype = tf.float64 if real_bytes(network, limits) == 8 else tf.float32
    return StatevectorSimulator(network, columns(network, limits), dtype)


class StatevectorSimulator:
    """Simulator that evolves state vectors and sums probabilities, or overlaps, for each Pauli string."""

    name = "statevector"
    compiles = DECLARATION.builtin_operations

    def __init__(self, network: CircuitIR, columns: int, dtype: tf.DType) -> None:
        self.network = network
        self._qubits, self._strings = network.qubits, network.strings
        self._columns, self._dtype = columns, dtype
        self.rounding = ROUNDING[dtype.size]
        self.large = not few_amplitudes(network.qubits)
        self._groups = group_blocks(fuse(network.gates))
        shared = [group for group in self._groups if not group.is_by_sample]
        self._unitaries = GroupUnitaries(shared, network.parameters)
        if network.inputs:
            self._exponents = InputExponents(network)
            self._by_sample = SampleUnitaries(self._groups, network)
        self._edges = ring_edges(self._qubits)
        self._masks = flip_masks(self._qubits, self._edges, range(self._qubits))

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return whether replicas should split a batch by qubit instead of by sample."""
        return self.network.preparation.kind == "excitation" and shards_by_qubit(self._qubits, batch, replicas)

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of the Pauli strings, float64 (batch, strings)."""
        if isinstance(batch, CircuitInputBatch):
            shape = (len(self._strings),)
            return map_in_chunks(self._measure_inputs, parameters, tuple(batch), self._columns, shape, of_inputs=True)
        if isinstance(batch, ProductStateBatch | StateBatch):
            kind, shape = type(batch), (len(self._strings),)
            of_inputs = isinstance(batch, AmplitudeBatch)

            def measure(parameters: tf.Tensor, samples: tf.Tensor) -> tf.Tensor:
                states = data_states(self.network, kind(samples), self._dtype)
                return self._measure(states, parameters, of_states=of_inputs)

            return map_in_chunks(measure, parameters, tuple(batch), self._columns, shape, of_inputs=of_inputs)
        return self._excited(parameters, batch)

    def _excited(self, parameters: tf.Tensor, batch: ExcitationBatch) -> tf.Tensor:
        size, strings = batch.qubit.shape[0], len(self._strings)
        if batch.own is None and size is not None and size <= self._qubits:
            masks = tf.gather(self._masks, batch.qubit)
            return map_in_chunks(self._measure_samples, parameters, (masks, batch.angle), self._columns, (strings,))
        qubits, places = rows_of_batch(self._qubits, batch)
        unexcited, flipped, mixed = self._rows(parameters, tf.gather(self._masks, qubits))
        return readouts_from_rows(unexcited, flipped, mixed, places, batch.angle)

    def table(self, parameters: tf.Tensor) -> StringCoefficients:
        """Return the coefficients of every possible excitation.

        Every qubit reaches all strings.
        """
        unexcited, flipped, mixed = self._rows(parameters, tf.constant(self._masks))
        reached = tf.tile(tf.range(len(self._strings))[None, :], [self._qubits, 1])
        return StringCoefficients(unexcited, reached, flipped, mixed)

    def _rows(self, parameters: tf.Tensor, masks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the unexcited, flipped and mixed rows, float64.

        The unexcited row is (strings,). The flipped rows, minus the unexcited row, and the mixed rows are
        (masks, strings).
        """
        shape = 3, len(self._strings)
        rows = map_in_chunks(self._measure_spanning, parameters, (masks,), self._columns - 1, shape)
        unexcited = rows[0, 0]
        return unexcited, rows[:, 1] - unexcited, rows[:, 2]

    def _measure_samples(self, parameters: tf.Tensor, masks: tf.Tensor, angles: tf.Tensor) -> tf.Tensor:
        states = sample_states(self._qubits, self._edges, masks, angles, self._dtype)
        return self._measure(states, parameters)

    def _measure(self, states: tf.Tensor, parameters: tf.Tensor, *, of_states: bool = False) -> tf.Tensor:
        return self._normalized(*self._values(self._evolve(states, parameters, of_states=of_states)))

    def _measure_spanning(self, parameters: tf.Tensor, masks: tf.Tensor) -> tf.Tensor:
        """Return the unexcited, flipped and mixed rows of every flipped qubit, float64 (masks, 3, strings)."""
        states = spanning_states(self._qubits, self._edges, masks, self._dtype)
        final = self._evolve(states, parameters)
        values, norms = self._values(final)
        own = self._normalized(values, norms)
        between = self._between(final[:1], final[1:])
        mixed = self._normalized(between, tf.sqrt(norms[:1] * norms[1:]))
        return tf.stack([tf.broadcast_to(own[:1], mixed.shape), own[1:], mixed], axis=1)

    def _measure_inputs(self, parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        exponents = self._exponents(parameters, features)
        states = data_states(self.network, CircuitInputBatch(features), self._dtype)
        by_sample = self._by_sample(parameters, exponents)
        is_shared = not all(group.is_by_sample for group in self._groups)
        shared = tf.unstack(self._unitaries(parameters)) if is_shared else []
        matrices = [
            real_forms(
                by_sample[group.key] if group.is_by_sample else shared[self._unitaries.index(group)], self._dtype
            )
            for group in self._groups
        ]
        placed = [on_last(each, len(group.qubits)) for each, group in zip(matrices, self._groups, strict=True)]
        return self._normalized(*self._values(evolve([group.qubits for group in self._groups], states, placed)))

    def _evolve(self, states: tf.Tensor, parameters: tf.Tensor, *, of_states: bool = False) -> tf.Tensor:
        if not self._groups:
            return states
        forms = real_forms(self._unitaries(parameters), states.dtype)
        kinds, numbers = tf.unstack(forms), [self._unitaries.index(group) for group in self._groups]
        matrices = [
            on_last(kinds[number], len(group.qubits)) for number, group in zip(numbers, self._groups, strict=True)
        ]
        places, scales = [group.qubits for group in self._groups], gradient_scales(forms, numbers)
        return evolve(places, states, matrices, scales, of_states=of_states)

    def _normalized(self, values: tf.Tensor, norms: tf.Tensor) -> tf.Tensor:
        """Return values divided by norms in complex64, in which gates change the norms.

        Values of the zero states that fill a chunk stay 0.
        """
        return values if self._dtype == tf.float64 else tf.math.divide_no_nan(values, norms)

    def _values(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the strings, float64 (states, strings), of states that are not normalized, and their squared norms.

        Args:
            states: Real and imaginary parts, (states, 2^qubits, 2).

        Returns:
            The values, and the norms, float64 (states, 1).
        """
        sums = _SignedSums(tf.reduce_sum(tf.square(states), axis=2), self._qubits)
        columns = [
            sums(string) if string.is_diagonal else self._overlaps(states, states, string)[0]
            for string in self._strings
        ]
        first = self._strings[0].qubits[0]
        return tf.stack(columns, axis=1), sums.total(first)

    def _between(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """Return the strings of i|left><right| - i|right><left|, float64 (states, strings)."""
        sums = _SignedSums(2 * (left[..., 0] * right[..., 1] - left[..., 1] * right[..., 0]), self._qubits)
        columns = [
            sums(string) if string.is_diagonal else 2 * self._overlaps(left, right, string)[1]
            for string in self._strings
        ]
        return tf.stack(columns, axis=1)

    def _overlaps(self, left: tf.Tensor, right: tf.Tensor, string: PauliString) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the real and imaginary parts of <left|string|right>, float64 (states,) each."""
        bits = {qubit: 1 << (self._qubits - 1 - qubit) for qubit in string.qubits}
        places = dict(zip(string.qubits, string.axes, strict=True))
        flips = sum(bits[qubit] for qubit, axis in places.items() if axis != "Z")
        signed = [qubit for qubit, axis in places.items() if axis != "X"]
        # Since Y = i X Z, a string flips bits of a basis state, with a sign for each Z and Y and a factor i for each Y.
        flipped = tf.gather(left, tf.bitwise.bitwise_xor(tf.range(2**self._qubits), flips), axis=1)
        real = tf.reduce_sum(flipped * right, axis=2)
        imaginary = flipped[..., 0] * right[..., 1] - flipped[..., 1] * right[..., 0]
        turned = [(real, imaginary), (-imaginary, real), (-real, -imaginary), (imaginary, -real)]
        signs = PauliString(tuple(signed), "Z" * len(signed))
        real, imaginary = (_SignedSums(part, self._qubits)(signs) for part in turned[string.axes.count("Y") % 4])
        return real, imaginary


class _SignedSums:
    """Sums over basis states of weights, (states, 2^qubits), with the signs of diagonal Pauli strings."""

    def __init__(self, weights: tf.Tensor, qubits: int) -> None:
        self._high, self._low = qubits // 2, qubits - qubits // 2
        self._halves = tf.reshape(tf.cast(weights, tf.float64), [-1, 2**self._high, 2**self._low])
        # A string with qubits in one half only needs one of the two partial sums.
        self._over_low, self._over_high = tf.reduce_sum(self._halves, axis=2), tf.reduce_sum(self._halves, axis=1)

    def __call__(self, string: PauliString) -> tf.Tensor:
        """Return the sums with the signs of a diagonal string, float64 (states,)."""
        high = [qubit for qubit in string.qubits if qubit < self._high]
        low = [qubit - self._high for qubit in string.qubits if qubit >= self._high]
        if not low:
            return tf.linalg.matvec(self._over_low, _bit_signs(high, self._high))
        if not high:
            return tf.linalg.matvec(self._over_high, _bit_signs(low, self._low))
        return tf.linalg.matvec(
            tf.linalg.matvec(self._halves, _bit_signs(low, self._low)), _bit_signs(high, self._high)
        )

    def total(self, qubit: int) -> tf.Tensor:
        """Return the sums of the weights, float64 (states, 1), by the partial sums that Z on a qubit needs."""
        part = self._over_low if qubit < self._high else self._over_high
        return tf.reduce_sum(part, axis=1, keepdims=True)


def _bit_signs(positions: Sequence[int], bits: int) -> npt.NDArray[np.float64]:
    """Return the product of the signs of Z on some of the bits, most significant first, for each number, (2^bits,)."""
    signs = np.ones(2**bits)
    for position in positions:
        signs *= 1 - 2 * (np.arange(2**bits) >> (bits - 1 - position) & 1)
    return signs
