"""Gathers, chunked maps and matrix products with gradients that are fast in compiled programs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn import tensorflow_internals
from qcnn.simulators.structure.gate_fusion import Block, expand_to_block
from qcnn.simulators.structure.network import LinearExponent


def as_input(array: npt.NDArray[Any]) -> tf.Tensor:
    """Convert an array to an input of compiled programs, instead of a constant in them.

    XLA compiles a program with a constant of more than 10,000 bytes on one core only (HasLargeConstants in
    xla/service/cpu/cpu_compiler.cc).
    """
    if tensorflow_internals.is_saving():
        # TensorFlow does not save arrays from outside of the functions of a Keras model.
        return tf.constant(array)
    with tf.init_scope():
        return tf.constant(array)


def gather_sparse(table: tf.Tensor, places: npt.NDArray[np.int32], constant: int) -> tf.Tensor:
    """Return table[places], (places, columns), for few uses of each row except a constant one.

    The gradient of a row is the sum over its uses, as a gather. The gradient of the constant row is zero.

    Args:
        table: Rows, (rows, columns).
        places: Row indices, int32 (places,).
        constant: Index of a row that is constant.
    """
    uses: list[list[int]] = [[] for _ in range(table.shape[0])]
    for use, place in enumerate(places):
        if place != constant:
            uses[place].append(use)
    width = max(1, *map(len, uses))
    used_by = as_input(np.array([[*used, *[len(places)] * (width - len(used))] for used in uses], np.int32))

    @tf.custom_gradient
    def gather(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            with_zero = tf.pad(upstream, [[0, 1], [0, 0]])
            return tf.reduce_sum(tf.gather(with_zero, used_by), axis=1)

        return tf.gather(table, as_input(places)), gradient

    return gather(table)


def permute(values: tf.Tensor, places: npt.NDArray[np.int32]) -> tf.Tensor:
    """Return values[places], (count,), for a permutation of all indices."""
    forth, back = as_input(places), as_input(np.argsort(places).astype(np.int32))

    @tf.custom_gradient
    def gather(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.gather(values, forth), lambda upstream: tf.gather(upstream, back)

    return gather(values)


def gather_rows(table: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Return table[places], (places, columns).

    The gradient is a matrix product. The compiled gradient of tf.gather adds rows sequentially.
    """
    return _rows_at(table, places, lambda: tf.one_hot(places, table.shape[0], dtype=table.dtype))


def fixed_rows(table: tf.Tensor, places: npt.NDArray[np.int32]) -> tf.Tensor:
    """Return table[places], (places, columns), for places that are constant, as `gather_rows`."""
    ones = np.equal.outer(places, np.arange(table.shape[0])).astype(table.dtype.as_numpy_dtype)
    return _rows_at(table, as_input(places), lambda: as_input(ones))


def gather_wide(table: tf.Tensor, places: npt.NDArray[np.int32]) -> tf.Tensor:
    """Return table[places], (places, ...), for long rows, whose gradient is a sequential sum."""
    where = as_input(places)

    @tf.custom_gradient
    def gather(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        rows = table.shape[0]
        return tf.gather(table, where), lambda upstream: tf.math.unsorted_segment_sum(upstream, where, rows)

    return gather(table)


def _rows_at(table: tf.Tensor, places: tf.Tensor, selection: Callable[[], tf.Tensor]) -> tf.Tensor:
    @tf.custom_gradient
    def gather(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.gather(table, places), lambda upstream: tf.matmul(selection(), upstream, transpose_a=True)

    return gather(table)


def map_in_chunks(
    rows: Callable[..., tf.Tensor],
    parameters: tf.Tensor,
    inputs: tuple[tf.Tensor, ...],
    size: int,
    shape: tuple[int, ...],
    *,
    of_inputs: bool = False,
) -> tf.Tensor:
    """Return rows(parameters, *inputs), evaluated in chunks of the inputs.

    Differentiable in the parameters. The gradient evaluates `rows` again, to save memory.

    Args:
        rows: Function of parameters and inputs that returns float64 (entries, *shape).
        parameters: Circuit parameters, float64 (parameters,).
        inputs: Tensors with the same first dimension.
        size: Maximum number of entries of a chunk.
        shape: Shape of the result of one entry.
        of_inputs: Whether the result is differentiable in the inputs, too.
    """
    count = inputs[0].shape[0]
    if count is not None and count <= size:
        return rows(parameters, *inputs)
    known = count is not None
    count = count if known else tf.shape(inputs[0])[0]
    groups = -(-count // size) if known else tf.maximum(-(-count // size), 1)
    size = -(-count // groups)
    padded = [tf.pad(values, [[0, groups * size - count], *[[0, 0]] * (values.shape.rank - 1)]) for values in inputs]
    grouped = tuple(tf.reshape(values, [groups, size, *values.shape[1:]]) for values in padded)
    every = map_groups(rows, parameters, grouped, (size if known else None, *shape), of_inputs=of_inputs)
    return tf.reshape(every, [groups * size, *every.shape[2:]])[:count]


def map_groups(
    rows: Callable[..., tf.Tensor],
    parameters: tf.Tensor,
    grouped: tuple[tf.Tensor, ...],
    shape: tuple[int | None, ...],
    *,
    of_inputs: bool = False,
) -> tf.Tensor:
    """Return rows(parameters, *group) of each group of the inputs.

    Differentiable in the parameters. The gradient evaluates `rows` again, to save memory.

    Args:
        rows: Function of parameters and inputs that returns float64 of `shape`.
        parameters: Circuit parameters, float64 (parameters,).
        grouped: Tensors whose first dimension is that of the groups.
        shape: Shape of the result of a group.
        of_inputs: Whether the result is differentiable in the inputs, too.
    """
    # There is no control flow to convert, and AutoGraph would log a warning.
    rows = tf.autograph.experimental.do_not_convert(rows)

    @tf.custom_gradient
    def run(
        parameters: tf.Tensor, *differentiable: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor | tuple[tf.Tensor, ...]]]:
        every = tf.map_fn(
            lambda group: rows(parameters, *group),
            grouped,
            parallel_iterations=1,
            fn_output_signature=tf.TensorSpec(shape, tf.float64),
        )

        def gradients(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            # The forward pass is repeated, because the states of all groups do not fit in memory.
            def of_group(group: tuple[tuple[tf.Tensor, ...], tf.Tensor]) -> tuple[tf.Tensor, ...]:
                with tf.GradientTape() as tape:
                    tape.watch((parameters, *group[0]))
                    outputs = rows(parameters, *group[0])
                return tuple(tape.gradient(outputs, (parameters, *group[0]), group[1], tf.UnconnectedGradients.ZERO))

            signature = (parameters, *(values[0] for values in differentiable))
            of_parameters, *others = tf.map_fn(
                of_group,
                (grouped, upstream),
                parallel_iterations=1,
                fn_output_signature=tuple(tf.TensorSpec(each.shape, each.dtype) for each in signature),
            )
            return tf.reduce_sum(of_parameters, axis=0), *others

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            # The forward pass is repeated, because the states of all groups do not fit in memory.
            def add(total: tf.Tensor, group: tuple[tuple[tf.Tensor, ...], tf.Tensor]) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    tape.watch(parameters)
                    outputs = rows(parameters, *group[0])
                return total + tape.gradient(outputs, parameters, group[1])

            return tf.foldl(add, (grouped, upstream), tf.zeros_like(parameters), parallel_iterations=1)

        return every, gradients if differentiable else gradient

    return run(parameters, *(grouped if of_inputs else ()))


# Maximum size of matrices whose batched products are faster as elementwise products and sums.
_SMALL = 4


class BlockUnitaries:
    """Unitaries of distinct blocks, extended to the same number of qubits.

    A block on fewer qubits acts on the last of them. With exponents by sample, each sample has other unitaries.

    Args:
        blocks: Blocks.
        qubits: Number of qubits of the unitaries.
        parameters: Number of circuit parameters.
        by_sample: Exponents that depend on inputs, in the order of the argument `exponents` of a call.
    """

    def __init__(
        self, blocks: Iterable[Block], qubits: int, parameters: int, by_sample: Sequence[LinearExponent] = ()
    ) -> None:
        distinct = {block.key: block for block in blocks}
        self._index = {key: number for number, key in enumerate(distinct)}
        self.identity = len(distinct)
        depth = padded_length(max((len(block.gates) for block in distinct.values()), default=1))
        gates = [gate for block in distinct.values() for gate in block.gates]
        components = max((len(gate.spectrum.phases) for gate in gates), default=1)
        shape = (len(distinct) + 1, depth)
        self._phases = np.zeros((*shape, components))
        self._projectors = np.zeros((*shape, components, 2**qubits, 2**qubits), np.complex128)
        self._projectors[:, :, 0] = np.eye(2**qubits)
        self._exponents = GateExponents(shape, parameters, by_sample)
        for row, block in enumerate(distinct.values()):
            spare = np.eye(2 ** (qubits - len(block.qubits)))
            for column, gate in enumerate(block.gates):
                count = len(gate.spectrum.phases)
                wide = expand_to_block(gate.spectrum.projectors, gate.qubits, block.qubits, levels=2)
                self._phases[row, column, :count] = gate.spectrum.phases
                self._projectors[row, column, :count] = np.kron(spare, wide)
                self._exponents.set(gate.exponent, row, column)

    def index(self, block: Block) -> int:
        """Return the index of the matrix of a block."""
        return self._index[block.key]

    def __call__(self, parameters: tf.Tensor, exponents: tf.Tensor | None = None) -> tf.Tensor:
        """Return the unitaries of the distinct blocks and then the identity, complex128 (blocks + 1, d, d).

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            exponents: Exponents by sample, float64 (samples, exponents), for (samples, blocks + 1, d, d).
        """
        angles = np.pi * as_input(self._phases) * self._exponents(parameters, exponents)[..., None]
        phases = tf.complex(tf.cos(angles), tf.sin(angles))
        return product(tf.reduce_sum(phases[..., None, None] * as_input(self._projectors), axis=-3))


class GateExponents:
    """Exponents of the gates of blocks, (blocks, gates), as functions of the parameters and of exponents by sample."""

    def __init__(self, shape: tuple[int, int], parameters: int, by_sample: Sequence[LinearExponent]) -> None:
        self._constants, self._coefficients = np.zeros(shape), np.zeros((*shape, parameters))
        self._numbers = {exponent: number for number, exponent in enumerate(by_sample)}
        self._places = np.zeros((len(by_sample), *shape))

    def set(self, exponent: LinearExponent, row: int, column: int) -> None:
        """Set the exponent of a gate.

        Args:
            exponent: Its exponent.
            row: Number of its block.
            column: Number of the gate in the block.
        """
        if exponent.terms:
            self._places[self._numbers[exponent], row, column] = 1
            return
        self._constants[row, column] = exponent.constant
        for index, coefficient in exponent.coefficients:
            self._coefficients[row, column, index] = coefficient

    def __call__(self, parameters: tf.Tensor, exponents: tf.Tensor | None) -> tf.Tensor:
        """Return the exponents, float64 (blocks, gates), or (samples, blocks, gates) with exponents by sample.

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            exponents: Exponents by sample, float64 (samples, exponents), or None.
        """
        every = as_input(self._constants) + tf.linalg.matvec(as_input(self._coefficients), parameters)
        if exponents is None:
            return every
        of_samples = exponents @ as_input(self._places.reshape(len(self._numbers), -1))
        return every + tf.reshape(of_samples, [-1, *self._places.shape[1:]])


def product(factors: tf.Tensor) -> tf.Tensor:
    """Return matrix products, (..., d, d).

    Args:
        factors: Matrices in the order in which they act, (..., count, d, d). The count is a power of two.
    """
    while (count := factors.shape[-3]) > 1:
        leading = [-1 if size is None else size for size in factors.shape[:-3]]
        pairs = tf.reshape(factors, [*leading, count // 2, 2, *factors.shape[-2:]])
        earlier, later = tf.unstack(pairs, axis=-3)
        factors = _small_product(later, earlier) if factors.shape[-1] <= _SMALL else tf.matmul(later, earlier)
    return tf.squeeze(factors, axis=-3)


@tf.custom_gradient
def _small_product(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
    """Return products of small matrices as sums of products, six times as fast as compiled tf.matmul."""

    def multiply(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        # Summing over the last axis keeps the program short: sums of outer products make it three times as long.
        return tf.reduce_sum(first[..., :, None, :] * tf.linalg.matrix_transpose(second)[..., None, :, :], axis=-1)

    def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
        return [multiply(upstream, tf.linalg.adjoint(second)), multiply(tf.linalg.adjoint(first), upstream)]

    return multiply(first, second), gradient


def padded_length(count: int) -> int:
    """Return the smallest power of two that is at least `count`, for products by pairs."""
    return 1 << max(0, count - 1).bit_length()
