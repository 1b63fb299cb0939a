"""The real matrices of noisy blocks on coefficients of Pauli products, as functions of the parameters."""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from qcnn.trainer.simulators.blocks import padded, product
from qcnn.trainer.simulators.rows import as_input
from qcnn.trainer.simulators.structure.gates import Exponent
from qcnn.trainer.simulators.structure.groups import Block, on_block
from qcnn.trainer.simulators.structure.pauli import terms


class Superoperators:
    """The matrices of blocks, each kind once, those on as many qubits together."""

    def __init__(self, blocks: Iterable[Block], parameters: int) -> None:
        kinds: dict[int, dict[tuple[object, ...], Block]] = {}
        for block in blocks:
            kinds.setdefault(len(block.qubits), {})[block.key] = block
        self._alike = [_Alike(list(each.values()), parameters) for each in kinds.values()]
        every = [block.key for each in kinds.values() for block in each.values()]
        self._index = {key: number for number, key in enumerate(every)}

    def index(self, block: Block) -> int:
        """Return which of the matrices is the block's."""
        return self._index[block.key]

    def __call__(self, parameters: tf.Tensor) -> list[tf.Tensor]:
        """Return every kind's matrix, float64 (4^qubits, 4^qubits), for parameters float64 (parameters,)."""
        return [matrix for alike in self._alike for matrix in tf.unstack(alike(parameters))]


class _Alike:
    """Kinds of blocks on one number of qubits: products of their gates, padded with identities."""

    def __init__(self, blocks: Sequence[Block], parameters: int) -> None:
        size = 4 ** len(blocks[0].qubits)
        every = [[terms(gate) for gate in block.gates] for block in blocks]
        depth = padded(max(map(len, every)))
        most = max(len(each.frequencies) for gates in every for each in gates)
        shape = (len(blocks), depth)
        self._frequencies = np.zeros((*shape, most))
        self._cosines, self._sines = np.zeros((*shape, most, size, size)), np.zeros((*shape, most, size, size))
        self._cosines[:, :, 0] = np.eye(size)
        self._constants, self._coefficients = np.zeros(shape), np.zeros((*shape, parameters))
        for row, (block, gates) in enumerate(zip(blocks, every, strict=True)):
            for column, (gate, each) in enumerate(zip(block.gates, gates, strict=True)):
                count = len(each.frequencies)
                self._frequencies[row, column, :count] = each.frequencies
                self._cosines[row, column, :count] = on_block(each.cosines, gate.qubits, block.qubits, levels=4)
                self._sines[row, column, :count] = on_block(each.sines, gate.qubits, block.qubits, levels=4)
                self._set_exponent(gate.exponent, row, column)

    def _set_exponent(self, exponent: Exponent, row: int, column: int) -> None:
        self._constants[row, column] = exponent.constant
        for index, coefficient in exponent.coefficients:
            self._coefficients[row, column, index] = coefficient

    def __call__(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return the matrices, float64 (kinds, 4^qubits, 4^qubits)."""
        exponents = as_input(self._constants) + tf.linalg.matvec(as_input(self._coefficients), parameters)
        angles = (np.pi * as_input(self._frequencies) * exponents[:, :, None])[..., None, None]
        both = tf.cos(angles) * as_input(self._cosines) + tf.sin(angles) * as_input(self._sines)
        return product(tf.reduce_sum(both, axis=2))
