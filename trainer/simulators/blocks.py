"""Gates fused into blocks of few qubits, and the matrices of all blocks at once."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from trainer.simulators.gates import Complex, Exponent, Gate, Spectrum


@dataclasses.dataclass(frozen=True)
class Block:
    """Gates, in their order, that act on the same few qubits; these ascend."""

    qubits: tuple[int, ...]
    gates: tuple[Gate, ...]

    @functools.cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for blocks of equal matrices at all parameters, wherever they act."""
        axes = {qubit: axis for axis, qubit in enumerate(self.qubits)}
        return len(self.qubits), tuple((gate.key, tuple(axes[q] for q in gate.qubits)) for gate in self.gates)


def fuse(gates: Iterable[Gate]) -> list[Block]:
    """Fuse greedily: a gate joins the block before it on its qubits, or takes in the smaller ones before it.

    No block is larger than its largest gate, and none is on one qubit where a later gate could take it in.
    """
    blocks: dict[int, tuple[tuple[int, ...], list[Gate]]] = {}
    last: dict[int, int] = {}
    for number, gate in enumerate(gates):
        before = dict.fromkeys(last[qubit] for qubit in gate.qubits if qubit in last)
        host = next((block for block in before if set(gate.qubits) <= set(blocks[block][0])), None)
        if host is not None and all(last[qubit] == host for qubit in gate.qubits):
            blocks[host][1].append(gate)
            continue
        taken: list[Gate] = []
        for block in before:
            qubits, inside = blocks[block]
            if set(qubits) <= set(gate.qubits) and all(last[qubit] == block for qubit in qubits):
                taken += inside
                del blocks[block]
        blocks[number] = (tuple(sorted(gate.qubits)), [*taken, gate])
        last.update(dict.fromkeys(gate.qubits, number))
    return [Block(qubits, tuple(inside)) for qubits, inside in blocks.values()]


class Matrices:
    """The unitaries of blocks, each kind once, as functions of the parameters."""

    def __init__(self, blocks: Iterable[Block], parameters: int) -> None:
        kinds = {block.key: block for block in blocks}
        alike: dict[tuple[int, int], list[Block]] = {}
        for block in kinds.values():
            alike.setdefault((len(block.qubits), _padded(len(block.gates))), []).append(block)
        self._groups = [_Group(same_shape, parameters) for same_shape in alike.values()]
        ordered = [block.key for same_shape in alike.values() for block in same_shape]
        self._index = {key: number for number, key in enumerate(ordered)}

    def index(self, block: Block) -> int:
        """Return which of the matrices is the block's."""
        return self._index[block.key]

    def __call__(self, parameters: tf.Tensor) -> list[tf.Tensor]:
        """Return every kind's matrix, complex128 (d, d), for parameters float64 (parameters,)."""
        return [matrix for group in self._groups for matrix in tf.unstack(group.matrices(parameters))]


class _Group:
    """Blocks of one size, d x d, padded to one number of gates and of components."""

    def __init__(self, blocks: Sequence[Block], parameters: int) -> None:
        dimension = 2 ** len(blocks[0].qubits)
        depth = _padded(len(blocks[0].gates))
        components = max((len(gate.spectrum.phases) for block in blocks for gate in block.gates), default=1)
        shape = (len(blocks), depth)
        self._phases = np.zeros((*shape, components))
        self._projectors = np.zeros((*shape, components, dimension, dimension), np.complex128)
        self._projectors[:, :, 0] = np.eye(dimension)
        self._constants = np.zeros(shape)
        self._coefficients = np.zeros((*shape, parameters))
        for row, block in enumerate(blocks):
            for column, gate in enumerate(block.gates):
                count = len(gate.spectrum.phases)
                self._phases[row, column, :count] = gate.spectrum.phases
                self._projectors[row, column, :count] = _on_block(gate.spectrum, gate.qubits, block.qubits)
                self._set_exponent(gate.exponent, row, column)

    def _set_exponent(self, exponent: Exponent, row: int, column: int) -> None:
        self._constants[row, column] = exponent.constant
        for index, coefficient in exponent.coefficients:
            self._coefficients[row, column, index] = coefficient

    def matrices(self, parameters: tf.Tensor) -> tf.Tensor:
        exponents = self._constants + tf.tensordot(self._coefficients, parameters, 1)
        angles = np.pi * self._phases * exponents[:, :, None]
        turns = tf.complex(tf.cos(angles), tf.sin(angles))
        product = tf.reduce_sum(turns[..., None, None] * self._projectors, axis=2)
        while product.shape[1] > 1:
            product = tf.matmul(product[:, 1::2], product[:, 0::2])
        return product[:, 0]


def _padded(gates: int) -> int:
    """Return the next power of two, for a product by pairs."""
    return 1 << max(0, gates - 1).bit_length()


def _on_block(spectrum: Spectrum, qubits: tuple[int, ...], block: tuple[int, ...]) -> Complex:
    """Return a gate's projectors on the whole block, whose qubits may be more and in another order."""
    rest = [qubit for qubit in block if qubit not in qubits]
    wide = np.kron(spectrum.projectors, np.eye(2 ** len(rest)))
    order = [[*qubits, *rest].index(qubit) for qubit in block]
    size = len(block)
    axes = [0, *(1 + axis for axis in order), *(1 + size + axis for axis in order)]
    return wide.reshape(-1, *(2,) * (2 * size)).transpose(axes).reshape(wide.shape)
