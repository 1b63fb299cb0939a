"""Simulator statevector: state vectors in TensorFlow, for any circuit, on CPU and GPU.

A batch of excitations evolves its samples or the states that they span, whichever are fewer. The spanning states are
the graph state and one flipped state per qubit. Replicas that split a batch by qubit evolve the graph state and
only the flipped states of their share. With other preparations every sample is evolved. States that exceed the memory
limit are evolved in chunks.
"""

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
from qcnn.simulators.evolution import GroupUnitaries, evolve, gradient_scales, on_last, real_forms
from qcnn.simulators.interface import (
    ROUNDING,
    ExcitationBatch,
    Inputs,
    ProductStateBatch,
    ReadoutCoefficients,
    SimulatorLimits,
    StateBatch,
)
from qcnn.simulators.structure.gate_fusion import fuse, group_blocks
from qcnn.simulators.structure.gates import CircuitIR
from qcnn.simulators.tensor_ops import map_in_chunks


def create(network: CircuitIR, limits: SimulatorLimits) -> "StatevectorSimulator":
    """Create the simulator of a checked network."""
    dtype = tf.float64 if real_bytes(network, limits) == 8 else tf.float32
    return StatevectorSimulator(network, columns(network, limits), dtype)


class StatevectorSimulator:
    """Simulator that evolves state vectors and sums probabilities for each readout."""

    name = "statevector"
    compiles = DECLARATION.builtin_operations

    def __init__(self, network: CircuitIR, columns: int, dtype: tf.DType) -> None:
        self.network = network
        self._qubits, self._readouts = network.qubits, network.readouts
        self._columns, self._dtype = columns, dtype
        self.rounding = ROUNDING[dtype.size]
        self.large = not few_amplitudes(network.qubits)
        self._groups = group_blocks(fuse(network.gates))
        self._unitaries = GroupUnitaries(self._groups, network.parameters)
        self._edges = ring_edges(self._qubits)
        self._masks = flip_masks(self._qubits, self._edges, range(self._qubits))

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return whether replicas should split a batch by qubit instead of by sample."""
        return self.network.preparation.kind == "excitation" and shards_by_qubit(self._qubits, batch, replicas)

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of Z on the readouts, float64 (batch, readouts)."""
        if isinstance(batch, ProductStateBatch | StateBatch):
            kind, shape = type(batch), (len(self._readouts),)

            def measure(parameters: tf.Tensor, samples: tf.Tensor) -> tf.Tensor:
                return self._measure(data_states(self.network, kind(samples), self._dtype), parameters)

            return map_in_chunks(measure, parameters, tuple(batch), self._columns, shape)
        return self._excited(parameters, batch)

    def _excited(self, parameters: tf.Tensor, batch: ExcitationBatch) -> tf.Tensor:
        size, readouts = batch.qubit.shape[0], len(self._readouts)
        if batch.own is None and size is not None and size <= self._qubits:
            masks = tf.gather(self._masks, batch.qubit)
            return map_in_chunks(self._measure_samples, parameters, (masks, batch.angle), self._columns, (readouts,))
        qubits, places = rows_of_batch(self._qubits, batch)
        unexcited, flipped, mixed = self._rows(parameters, tf.gather(self._masks, qubits))
        return readouts_from_rows(unexcited, flipped, mixed, places, batch.angle)

    def table(self, parameters: tf.Tensor) -> ReadoutCoefficients:
        """Return the readout coefficients of every possible excitation.

        Every qubit reaches all readouts.
        """
        unexcited, flipped, mixed = self._rows(parameters, tf.constant(self._masks))
        reached = tf.tile(tf.range(len(self._readouts))[None, :], [self._qubits, 1])
        return ReadoutCoefficients(unexcited, reached, flipped, mixed)

    def _rows(self, parameters: tf.Tensor, masks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the unexcited, flipped and mixed rows, float64.

        The unexcited row is (readouts,). The flipped rows, minus the unexcited row, and the mixed rows are
        (masks, readouts).
        """
        shape = 3, len(self._readouts)
        rows = map_in_chunks(self._measure_spanning, parameters, (masks,), self._columns - 1, shape)
        unexcited = rows[0, 0]
        return unexcited, rows[:, 1] - unexcited, rows[:, 2]

    def _measure_samples(self, parameters: tf.Tensor, masks: tf.Tensor, angles: tf.Tensor) -> tf.Tensor:
        states = sample_states(self._qubits, self._edges, masks, angles, self._dtype)
        return self._measure(states, parameters)

    def _measure(self, states: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        values, norms = self._z(tf.reduce_sum(tf.square(self._evolve(states, parameters)), axis=2))
        return self._normalized(values, norms)

    def _measure_spanning(self, parameters: tf.Tensor, masks: tf.Tensor) -> tf.Tensor:
        """Return the unexcited, flipped and mixed rows of every flipped qubit, float64 (masks, 3, readouts)."""
        states = spanning_states(self._qubits, self._edges, masks, self._dtype)
        final = self._evolve(states, parameters)
        values, norms = self._z(tf.reduce_sum(tf.square(final), axis=2))
        own = self._normalized(values, norms)
        graph, flipped = final[:1], final[1:]
        between, _ = self._z(2 * (graph[..., 0] * flipped[..., 1] - graph[..., 1] * flipped[..., 0]))
        mixed = self._normalized(between, tf.sqrt(norms[:1] * norms[1:]))
        return tf.stack([tf.broadcast_to(own[:1], mixed.shape), own[1:], mixed], axis=1)

    def _evolve(self, states: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        if not self._groups:
            return states
        forms = real_forms(self._unitaries(parameters), states.dtype)
        kinds, numbers = tf.unstack(forms), [self._unitaries.index(group) for group in self._groups]
        matrices = [
            on_last(kinds[number], len(group.qubits)) for number, group in zip(numbers, self._groups, strict=True)
        ]
        return evolve([group.qubits for group in self._groups], states, matrices, gradient_scales(forms, numbers))

    def _normalized(self, values: tf.Tensor, norms: tf.Tensor) -> tf.Tensor:
        """Return values divided by norms in complex64, in which gates change the norms.

        Values of the zero states that fill a chunk stay 0.
        """
        return values if self._dtype == tf.float64 else tf.math.divide_no_nan(values, norms)

    def _z(self, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return Z on the readouts, float64 (states, readouts), and the squared norms, float64 (states, 1).

        Args:
            weights: Probabilities that are not normalized, (states, 2^qubits).
        """
        high = self._qubits // 2
        halves = tf.reshape(tf.cast(weights, tf.float64), [-1, 2**high, 2 ** (self._qubits - high)])
        # Each readout needs only one of the two partial sums.
        over_low, over_high = tf.reduce_sum(halves, axis=2), tf.reduce_sum(halves, axis=1)
        columns = [
            tf.linalg.matvec(over_low, _bit_signs(readout, high))
            if readout < high
            else tf.linalg.matvec(over_high, _bit_signs(readout - high, self._qubits - high))
            for readout in self._readouts
        ]
        part = over_low if self._readouts[0] < high else over_high
        return tf.stack(columns, axis=1), tf.reduce_sum(part, axis=1, keepdims=True)


def _bit_signs(position: int, bits: int) -> npt.NDArray[np.float64]:
    return (1.0 - 2 * (np.arange(2**bits) >> (bits - 1 - position) & 1)).astype(np.float64)
