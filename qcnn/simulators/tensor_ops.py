"""Operations with a gradient that is fast where it is compiled: rows of a table, and turns of pairs of amplitudes."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.simulators.structure.gate_fusion import Block, expand_to_block
from qcnn.simulators.structure.gates import LinearExponent


def as_input(array: npt.NDArray[Any]) -> tf.Tensor:
    """Return an array as what compiled programs are given, instead of as a part of them.

    A program that holds more than 10,000 bytes of one constant is turned into machine code on one core only
    (HasLargeConstants in xla/service/cpu/cpu_compiler.cc).
    """
    with tf.init_scope():
        return tf.constant(array)


def gather_sparse(table: tf.Tensor, places: npt.NDArray[np.int32], constant: int) -> tf.Tensor:
    """Return table[places], (places, columns), where few places are the same but for a row that is constant.

    The gradient gathers what the uses of each row were given; to the constant row it is zero.
    """
    uses: list[list[int]] = [[] for _ in range(table.shape[0])]
    for use, place in enumerate(places):
        if place != constant:
            uses[place].append(use)
    most = max(1, *map(len, uses))
    given_by = as_input(np.array([[*used, *[len(places)] * (most - len(used))] for used in uses], np.int32))

    @tf.custom_gradient
    def gather(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            with_nothing = tf.pad(upstream, [[0, 1], [0, 0]])
            return tf.reduce_sum(tf.gather(with_nothing, given_by), axis=1)

        return tf.gather(table, as_input(places)), gradient

    return gather(table)


def permuted(values: tf.Tensor, places: npt.NDArray[np.int32]) -> tf.Tensor:
    """Return values[places], (count,), where every place is there once."""
    forth, back = as_input(places), as_input(np.argsort(places).astype(np.int32))

    @tf.custom_gradient
    def gather(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.gather(values, forth), lambda upstream: tf.gather(upstream, back)

    return gather(values)


def gather_rows(table: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Return table[places], (places, columns).

    The gradient is a matrix product: that of tf.gather, compiled, adds up one row after another.
    """
    return _rows_at(table, places, lambda: tf.one_hot(places, table.shape[0], dtype=table.dtype))


def fixed_rows(table: tf.Tensor, places: npt.NDArray[np.int32]) -> tf.Tensor:
    """Return what `gather_rows` does, for places that are the same in every step."""
    ones = np.equal.outer(places, np.arange(table.shape[0])).astype(table.dtype.as_numpy_dtype)
    return _rows_at(table, as_input(places), lambda: as_input(ones))


def gather_wide(table: tf.Tensor, places: npt.NDArray[np.int32]) -> tf.Tensor:
    """Return table[places], (places, ...), for rows so long that their gradient may add up one after another."""
    where = as_input(places)

    @tf.custom_gradient
    def gather(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        rows = table.shape[0]
        return tf.gather(table, where), lambda upstream: tf.math.unsorted_segment_sum(upstream, where, rows)

    return gather(table)


def _rows_at(table: tf.Tensor, places: tf.Tensor, chosen: Callable[[], tf.Tensor]) -> tf.Tensor:
    @tf.custom_gradient
    def gather(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.gather(table, places), lambda upstream: tf.matmul(chosen(), upstream, transpose_a=True)

    return gather(table)


def map_in_chunks(
    rows: Callable[..., tf.Tensor],
    parameters: tf.Tensor,
    inputs: tuple[tf.Tensor, ...],
    size: int,
    shape: tuple[int, ...],
) -> tf.Tensor:
    """Return rows(parameters, *inputs), one of `shape` an entry, from at most `size` entries at a time.

    Differentiable in the parameters alone.
    """
    count = inputs[0].shape[0]
    if count is not None and count <= size:
        return rows(parameters, *inputs)
    known = count is not None
    count = count if known else tf.shape(inputs[0])[0]
    groups = -(-count // size) if known else tf.maximum(-(-count // size), 1)
    size = -(-count // groups)
    padded = [tf.pad(values, [[0, groups * size - count], *[[0, 0]] * (values.shape.rank - 1)]) for values in inputs]
    # What AutoGraph cannot read it warns of, and there is nothing to rewrite.
    rows = tf.autograph.experimental.do_not_convert(rows)
    grouped = tuple(tf.reshape(values, [groups, size, *values.shape[1:]]) for values in padded)

    @tf.custom_gradient
    def run(parameters: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        every = tf.map_fn(
            lambda group: rows(parameters, *group),
            grouped,
            parallel_iterations=1,
            fn_output_signature=tf.TensorSpec((size if known else None, *shape), tf.float64),
        )

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            # Evolved once more: the states of all groups do not fit in memory.
            def add(total: tf.Tensor, group: tuple[tuple[tf.Tensor, ...], tf.Tensor]) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    tape.watch(parameters)
                    outputs = rows(parameters, *group[0])
                return total + tape.gradient(outputs, parameters, group[1])

            return tf.foldl(add, (grouped, upstream), tf.zeros_like(parameters), parallel_iterations=1)

        return every, gradient

    every = run(parameters)
    return tf.reshape(every, [groups * size, *every.shape[2:]])[:count]


# Up to such matrices, the products of many at a time are faster written out.
_SMALL = 4


class BlockUnitaries:
    """The unitaries of blocks, each kind once, all on one number of qubits: fewer are the last of these."""

    def __init__(self, blocks: Iterable[Block], qubits: int, parameters: int) -> None:
        kinds = {block.key: block for block in blocks}
        self._index = {key: number for number, key in enumerate(kinds)}
        self.identity = len(kinds)
        depth = padded(max((len(block.gates) for block in kinds.values()), default=1))
        gates = [gate for block in kinds.values() for gate in block.gates]
        components = max((len(gate.spectrum.phases) for gate in gates), default=1)
        shape = (len(kinds) + 1, depth)
        self._phases = np.zeros((*shape, components))
        self._projectors = np.zeros((*shape, components, 2**qubits, 2**qubits), np.complex128)
        self._projectors[:, :, 0] = np.eye(2**qubits)
        self._constants = np.zeros(shape)
        self._coefficients = np.zeros((*shape, parameters))
        for row, block in enumerate(kinds.values()):
            spare = np.eye(2 ** (qubits - len(block.qubits)))
            for column, gate in enumerate(block.gates):
                count = len(gate.spectrum.phases)
                own = expand_to_block(gate.spectrum.projectors, gate.qubits, block.qubits, levels=2)
                self._phases[row, column, :count] = gate.spectrum.phases
                self._projectors[row, column, :count] = np.kron(spare, own)
                self._set_exponent(gate.exponent, row, column)

    def _set_exponent(self, exponent: LinearExponent, row: int, column: int) -> None:
        self._constants[row, column] = exponent.constant
        for index, coefficient in exponent.coefficients:
            self._coefficients[row, column, index] = coefficient

    def index(self, block: Block) -> int:
        """Return which of the matrices is the block's."""
        return self._index[block.key]

    def __call__(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return every kind's matrix and last the identity, complex128 (kinds + 1, d, d).

        For parameters float64 (parameters,).
        """
        exponents = as_input(self._constants) + tf.linalg.matvec(as_input(self._coefficients), parameters)
        angles = np.pi * as_input(self._phases) * exponents[:, :, None]
        turns = tf.complex(tf.cos(angles), tf.sin(angles))
        return product(tf.reduce_sum(turns[..., None, None] * as_input(self._projectors), axis=2))


def product(factors: tf.Tensor) -> tf.Tensor:
    """Return the products of matrices, (..., d, d), of factors (..., count, d, d), first the one that acts first.

    The count is a power of two.
    """
    while (count := factors.shape[-3]) > 1:
        pairs = tf.reshape(factors, [*factors.shape[:-3], count // 2, 2, *factors.shape[-2:]])
        earlier, later = tf.unstack(pairs, axis=-3)
        factors = _small_product(later, earlier) if factors.shape[-1] <= _SMALL else tf.matmul(later, earlier)
    return tf.squeeze(factors, axis=-3)


@tf.custom_gradient
def _small_product(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
    """Return the products of small matrices as sums of products: compiled, that takes a sixth of tf.matmul's time."""

    def multiplied(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        # Summed over the last axis: written out column by row, it is three times as long a program.
        return tf.reduce_sum(first[..., :, None, :] * tf.linalg.matrix_transpose(second)[..., None, :, :], axis=-1)

    def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
        return [multiplied(upstream, tf.linalg.adjoint(second)), multiplied(tf.linalg.adjoint(first), upstream)]

    return multiplied(first, second), gradient


def padded(count: int) -> int:
    """Return the next power of two, for a product by pairs."""
    return 1 << max(0, count - 1).bit_length()
