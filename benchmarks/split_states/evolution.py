"""Training step of a network on a split state: loss and gradient with the adjoint method.

Samples are product states of features, which each share prepares independently. The state of a share is its real and
imaginary parts, (samples, 2^local qubits, 2). An order lists the global qubits and then the local qubits, which are the
axes of the state. XLA compiles one program per segment and direction, which all shares run.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from benchmarks.split_states.schedule import Segment, schedule
from benchmarks.split_states.shares import Shares
from qcnn.simulators.data_states import product_states
from qcnn.simulators.evolution import GroupUnitaries, move_axes, on_last, real_forms
from qcnn.simulators.structure.gates import CircuitIR

Order = tuple[int, ...]
# Dimensions of a state: samples, amplitudes, parts. Blocks have one more.
_STATE_RANK = 3


class SplitState:
    """Network whose states are split into shares."""

    def __init__(self, network: CircuitIR, shares: Shares, dtype: tf.DType) -> None:
        self._network, self._shares, self._dtype = network, shares, dtype
        self._count = shares.count.bit_length() - 1
        segments = schedule(network, shares.count)
        self._groups = [group for segment in segments for group in segment.groups]
        self._unitaries = GroupUnitaries(self._groups, network.parameters)
        self._compiled_matrices = _compile(self._matrices)
        first = segments[0].global_qubits
        self._first = (*first, *(qubit for qubit in range(network.qubits) if qubit not in first))
        self._programs: list[_SegmentProgram] = []
        order = self._first
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            program = _SegmentProgram(segment, order, following, receives=bool(self._programs))
            self._programs.append(program)
            order = program.order_of_next
        self._last = order

    def loss_and_gradient(
        self, parameters: tf.Tensor, features: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the mean squared error of the readouts, and its gradient.

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            features: Angles of the samples, (samples, qubits), in radians.
            labels: Labels, float64 (samples, readouts).
        """
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            matrices = self._compiled_matrices(parameters)
        ends = [sum(program.groups for program in self._programs[:count]) for count in range(len(self._programs) + 1)]
        parts = [matrices[start:end] for start, end in itertools.pairwise(ends)]
        indices = list(self._shares.devices)
        states = self._on_devices(self._prepare, indices, [features] * len(indices))
        for program, part in zip(self._programs, parts, strict=True):
            states = self._on_devices(program.forward, states, [part] * len(states))
            if program.exchanges:
                states = self._shares.exchange(states)
        readouts = self._shares.total(self._on_devices(self._z, indices, states))
        error = readouts - labels
        upstream = 2 * error / tf.cast(tf.size(error), error.dtype)
        adjoints = self._on_devices(self._adjoint, indices, states, [upstream] * len(states))
        gradients: list[list[tf.Tensor]] = []
        for program, part in zip(reversed(self._programs), reversed(parts), strict=True):
            if program.exchanges:
                states, adjoints = self._shares.exchange(states), self._shares.exchange(adjoints)
            results = self._on_devices(program.reverse, states, adjoints, [part] * len(states))
            states, adjoints, of_part = (list(each) for each in zip(*results, strict=True))
            gradients.insert(0, of_part)
        # One sum for all matrices, because a sum over processes takes milliseconds.
        flat = self._shares.total(self._on_devices(lambda *own: tf.concat(own, axis=0), *gradients))
        pieces = tf.split(flat, [matrix.shape.num_elements() for matrix in matrices])
        upstreams = [tf.reshape(piece, matrix.shape) for piece, matrix in zip(pieces, matrices, strict=True)]
        return tf.reduce_mean(tf.square(error)), tape.gradient(matrices, parameters, upstreams)

    def _matrices(self, parameters: tf.Tensor) -> list[tf.Tensor]:
        kinds = tf.unstack(real_forms(self._unitaries(parameters), self._dtype))
        return [on_last(kinds[self._unitaries.index(group)], len(group.qubits)) for group in self._groups]

    def _on_devices(self, function: Callable[..., Any], *values: Sequence[Any]) -> list[Any]:
        """Call a function of the values of each share, on its device."""
        results = []
        for device, *arguments in zip(self._shares.devices.values(), *values, strict=True):
            with tf.device(device):
                results.append(function(*arguments))
        return results

    def _prepare(self, share: int, features: tf.Tensor) -> tf.Tensor:
        """Return product states: those of the local qubits times an amplitude of the global qubits."""
        kind, angles = self._network.preparation.kind, tf.gather(features, self._first, axis=1)
        local = product_states(kind, angles[:, self._count :], self._dtype)
        if not self._count:
            return local
        factor = product_states(kind, angles[:, : self._count], self._dtype)[:, share]
        states = tf.complex(local[..., 0], local[..., 1]) * tf.complex(factor[:, 0], factor[:, 1])[:, None]
        return tf.stack([tf.math.real(states), tf.math.imag(states)], axis=2)

    def _z(self, share: int, state: tf.Tensor) -> tf.Tensor:
        """Return the contribution of a share to Z on the readouts, float64 (samples, readouts)."""
        weights = tf.cast(tf.reduce_sum(tf.square(state), axis=2), tf.float64)
        columns = []
        for readout in self._network.readouts:
            position = self._last.index(readout)
            if position < self._count:
                sign = 1 - 2 * (share >> (self._count - 1 - position) & 1)
                columns.append(sign * tf.reduce_sum(weights, axis=1))
            else:
                by_bit = tf.reshape(weights, [state.shape[0], 2 ** (position - self._count), 2, -1])
                zero, one = tf.unstack(tf.reduce_sum(by_bit, axis=[1, 3]), axis=1)
                columns.append(zero - one)
        return tf.stack(columns, axis=1)

    def _adjoint(self, share: int, state: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        """Return the gradient of the final state of a share from that of the readouts."""
        with tf.GradientTape() as tape:
            tape.watch(state)
            values = self._z(share, state)
        return tape.gradient(values, state, upstream)


class _SegmentProgram:
    """Compiled programs of a segment.

    Before an exchange, the program of a segment splits the state of a share by its next global qubits into blocks,
    (shares, samples, rest, 2). After the exchange, the blocks are those of the previous global qubits.

    Attributes:
        groups: Number of groups.
        exchanges: Whether an exchange follows.
        order_of_next: Order at the start of the next segment, or at the end of the last segment.
        forward: Function of a state or blocks and the matrices. Returns the new state or blocks.
        reverse: Function of the final state or blocks, their gradient and the matrices. Returns the initial state or
            blocks, their gradient, and the gradient of the matrices as a vector.
    """

    def __init__(self, segment: Segment, first: Order, following: Segment | None, *, receives: bool) -> None:
        self._count = len(segment.global_qubits)
        self._receives = receives
        self._orders = [first]
        for group in segment.groups:
            self._orders.append((*(qubit for qubit in self._orders[-1] if qubit not in group.qubits), *group.qubits))
        self.groups, self.exchanges = len(segment.groups), following is not None
        old, wanted = first[: self._count], following.global_qubits if following else ()
        rest = tuple(qubit for qubit in self._orders[-1] if qubit not in (*old, *wanted))
        self._end = (*old, *wanted, *rest)
        self.order_of_next = (*wanted, *old, *rest) if following else self._end
        self.forward, self.reverse = _compile(self._forward), _compile(self._reverse)

    def _forward(self, state: tf.Tensor, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
        state = _join(state)
        for matrix, (old, new) in zip(matrices, itertools.pairwise(self._orders), strict=True):
            state = _multiply(self._move(state, old, new), matrix, transpose=True)
        state = self._move(state, self._orders[-1], self._end)
        return _split(state, 2**self._count) if self.exchanges else state

    def _reverse(
        self, state: tf.Tensor, adjoint: tf.Tensor, matrices: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        order, gradients = self._end, list[tf.Tensor]()
        state, adjoint, zero = _join(state), _join(adjoint), tf.zeros([], state.dtype)
        for matrix, new in zip(reversed(matrices), reversed(self._orders[1:]), strict=True):
            # The dependency forces the order of execution, as in `qcnn.simulators.evolution.evolve`.
            inverse = matrix + zero
            state = _multiply(self._move(state, order, new), inverse)
            adjoint = self._move(adjoint, order, new)
            of_matrix = tf.matmul(_rows(adjoint, matrix), _rows(state, matrix), transpose_a=True)
            adjoint = _multiply(adjoint, inverse)
            gradients.insert(0, tf.reshape(of_matrix, [-1]))
            zero, order = 0 * gradients[0][0], new
        state, adjoint = (self._move(each, order, self._orders[0]) for each in (state, adjoint))
        if self._receives:
            state, adjoint = (_split(each, 2**self._count) for each in (state, adjoint))
        return state, adjoint, tf.concat(gradients, axis=0)

    def _move(self, state: tf.Tensor, old: Order, new: Order) -> tf.Tensor:
        """Transpose the axes of the local qubits."""
        return tf.reshape(move_axes(state, old[self._count :], new[self._count :]), state.shape)


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    # There is no control flow to convert, and AutoGraph would log a warning.
    compiled: Callable[..., Any] = tf.function(tf.autograph.experimental.do_not_convert(function), jit_compile=True)
    return compiled


def _multiply(state: tf.Tensor, matrix: tf.Tensor, *, transpose: bool = False) -> tf.Tensor:
    """Apply the inverse of a real unitary to the last qubits, or with `transpose` the unitary."""
    return tf.reshape(tf.matmul(_rows(state, matrix), matrix, transpose_b=transpose), state.shape)


def _rows(state: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    return tf.reshape(state, [-1, matrix.shape[0]])


def _split(state: tf.Tensor, count: int) -> tf.Tensor:
    """Split a state by its first local qubits into blocks, (count, samples, rest, 2)."""
    return tf.transpose(tf.reshape(state, [state.shape[0], count, -1, 2]), [1, 0, 2, 3])


def _join(state: tf.Tensor) -> tf.Tensor:
    """Join blocks to a state. A state is returned unchanged."""
    is_state = state.shape.rank == _STATE_RANK
    return state if is_state else tf.reshape(tf.transpose(state, [1, 0, 2, 3]), [state.shape[1], -1, 2])
