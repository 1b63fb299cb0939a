"""The matrices of all blocks at once."""

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from qcnn.simulators.structure.gate_fusion import Block, on_block
from qcnn.simulators.structure.gates import Exponent
from qcnn.simulators.tensor_ops import as_input

# Up to such matrices, the products of many at a time are faster written out.
_SMALL = 4


class Matrices:
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
                own = on_block(gate.spectrum.projectors, gate.qubits, block.qubits, levels=2)
                self._phases[row, column, :count] = gate.spectrum.phases
                self._projectors[row, column, :count] = np.kron(spare, own)
                self._set_exponent(gate.exponent, row, column)

    def _set_exponent(self, exponent: Exponent, row: int, column: int) -> None:
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
