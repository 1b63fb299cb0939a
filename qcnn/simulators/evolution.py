"""State vectors under groups of blocks, with the adjoint gradient: a few sweeps, whatever the number of parameters.

The adjoint method is Jones and Gacon's, arXiv:2009.02823, with a group of blocks where they have a gate: one
matrix a group gathers the gradient of all its parameters. Real and imaginary parts of an amplitude are
neighbours and a group's qubits the last axes, so that every sweep is one real matrix product over long rows.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.simulators.structure.gate_fusion import MOST_QUBITS, Block, GateGroup
from qcnn.simulators.tensor_ops import BlockUnitaries, gather_sparse, padded, permuted, product

# Two blocks of up to so many qubits act side by side.
_PAIR_QUBITS = 2
# Gates of a piece of a block. Most blocks have no more; longer ones are cut, so that not all are padded to theirs.
_PIECE_GATES = 16


class GroupUnitaries:
    """The matrices of groups, each kind once, as functions of the parameters.

    All at once, so that the program does not grow with groups and blocks: a group is the product of its layers, and
    a layer the Kronecker product of blocks side by side, with the qubits put in order.
    """

    def __init__(self, groups: Iterable[GateGroup], parameters: int) -> None:
        kinds = {group.key: _layers(group) for group in groups}
        alike: dict[int, list[tuple[object, ...]]] = {}
        for key, layers in kinds.items():
            alike.setdefault(padded(len(layers)), []).append(key)
        self._sizes = {depth: len(keys) for depth, keys in alike.items()}
        ordered = [(key, depth) for depth, keys in alike.items() for key in keys]
        self._index = {key: number for number, (key, _) in enumerate(ordered)}
        every = [layer for key, depth in ordered for layer in [*kinds[key], *[_Layer()] * (depth - len(kinds[key]))]]
        self._pairs = _LayerMatrices([layer.pair for layer in every], _PAIR_QUBITS, parameters)
        wide = [layer.wide for layer in every]
        self._wide = _LayerMatrices(wide, MOST_QUBITS, parameters) if any(wide) else None

    def index(self, group: GateGroup) -> int:
        """Return which of the matrices is the group's."""
        return self._index[group.key]

    def __call__(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return every kind's matrix, complex128 (kinds, 16, 16), for parameters float64 (parameters,).

        A group on fewer than four qubits has the last of them.
        """
        layers = self._pairs(parameters)
        if self._wide is not None:
            layers = tf.matmul(self._wide(parameters), layers)
        by_depth = tf.split(layers, [depth * size for depth, size in self._sizes.items()])
        products = [
            product(tf.reshape(own, [size, depth, *own.shape[1:]]))
            for own, (depth, size) in zip(by_depth, self._sizes.items(), strict=True)
        ]
        return tf.concat(products, axis=0)


@dataclasses.dataclass(frozen=True)
class _Placed:
    """A block within a group: which of the four qubits are its own."""

    axes: tuple[int, ...]
    block: Block


@dataclasses.dataclass
class _Layer:
    """Up to two small blocks side by side, or one that is wider."""

    pair: list[_Placed] = dataclasses.field(default_factory=list)
    wide: list[_Placed] = dataclasses.field(default_factory=list)

    def add(self, placed: _Placed) -> bool:
        """Take in a block that no other of this layer shares a qubit with, if there is room."""
        small = len(placed.axes) <= _PAIR_QUBITS
        if self.wide or (self.pair and not small) or len(self.pair) == MOST_QUBITS // _PAIR_QUBITS:
            return False
        (self.pair if small else self.wide).append(placed)
        return True


def _layers(group: GateGroup) -> list[_Layer]:
    """Return a group's blocks in layers, each in the first that comes late enough and has room."""
    layers: list[_Layer] = []
    last: dict[int, int] = {}
    first = MOST_QUBITS - len(group.qubits)
    for block in group.blocks:
        placed = _Placed(tuple(first + group.qubits.index(qubit) for qubit in block.qubits), block)
        earliest = max(last.get(axis, 0) for axis in placed.axes)
        number = next((n for n in range(earliest, len(layers)) if layers[n].add(placed)), len(layers))
        if number == len(layers):
            layers.append(_Layer())
            layers[number].add(placed)
        last.update(dict.fromkeys(placed.axes, number + 1))
    return layers


class _LayerMatrices:
    """The matrices of layers whose blocks are on up to `width` qubits."""

    def __init__(self, layers: Sequence[Sequence[_Placed]], width: int, parameters: int) -> None:
        self._layers, self._width = len(layers), width
        factors = MOST_QUBITS // width
        cut = [[_pieces(placed.block) for placed in layer] + [[]] * (factors - len(layer)) for layer in layers]
        pieces = [piece for layer in cut for own in layer for piece in own]
        self._matrices = BlockUnitaries(pieces, width, parameters)
        self._longest = padded(max((len(own) for layer in cut for own in layer), default=1))
        numbers = [
            [*map(self._matrices.index, own), *[self._matrices.identity] * (self._longest - len(own))]
            for layer in cut
            for own in layer
        ]
        self._numbers = np.array(numbers, np.int32).ravel()
        size = 4**MOST_QUBITS
        orders = [_in_order([placed.axes for placed in layer], width) + size * n for n, layer in enumerate(layers)]
        self._order = np.array(orders, np.int32).ravel()

    def __call__(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return every layer's matrix, complex128 (layers, 16, 16)."""
        wide, narrow = 2**MOST_QUBITS, 2**self._width
        pieces = tf.reshape(self._matrices(parameters), [-1, narrow**2])
        chosen = gather_sparse(pieces, self._numbers, self._matrices.identity)
        factors = product(tf.reshape(chosen, [self._layers, -1, self._longest, narrow, narrow]))
        if factors.shape[1] == 1:
            whole = factors
        else:
            first, second = tf.unstack(factors, axis=1)
            whole = first[:, :, None, :, None] * second[:, None, :, None, :]
        return tf.reshape(permuted(tf.reshape(whole, [-1]), self._order), [self._layers, wide, wide])


def _pieces(block: Block) -> list[Block]:
    cuts = range(0, len(block.gates), _PIECE_GATES)
    return [Block(block.qubits, block.gates[start : start + _PIECE_GATES]) for start in cuts]


def _in_order(own: Sequence[tuple[int, ...]], width: int) -> npt.NDArray[np.int32]:
    """Return where each entry of a layer's matrix, qubits in order, stands in the product of its blocks' matrices."""
    spare = [axis for axis in range(MOST_QUBITS) if not any(axis in axes for axes in own)]
    order: list[int] = []
    for axes in [*own, *[()] * (MOST_QUBITS // width - len(own))]:
        # Spare qubits first: a matrix of fewer qubits is that of the last ones.
        order += [*(spare.pop(0) for _ in range(width - len(axes))), *axes]
    size = 2**MOST_QUBITS
    rows = np.arange(size, dtype=np.int32).reshape([2] * MOST_QUBITS).transpose(np.argsort(order)).ravel()
    places: npt.NDArray[np.int32] = (size * rows[:, None] + rows).ravel()
    return places


def evolve(places: Sequence[tuple[int, ...]], states: tf.Tensor, unitaries: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the states after unitaries on some qubits each, real (..., states, 2^qubits, 2) as they came.

    Differentiable in the unitaries, in the form that `real_forms` gives them, (..., 2d, 2d); the states that come in
    are constant. The number of states may be unknown.
    """
    if not places:
        return states
    shape = states.shape
    outer, whole = shape[:-3], [-1 if size is None else size for size in shape]
    natural = tuple(range(shape[-2].bit_length() - 1))

    @tf.custom_gradient
    def run(*unitaries: tf.Tensor) -> tuple[tf.Tensor, Callable[..., list[tf.Tensor]]]:
        order, state = natural, states
        for qubits, matrix in zip(places, unitaries, strict=True):
            order, state = _bring_last(state, order, qubits)
            state = tf.matmul(_rows(state, outer, qubits), matrix, transpose_b=True)
        final = state

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            gradients: list[tf.Tensor] = []
            nothing = tf.zeros([], states.dtype)
            state, adjoint, arranged = final, _moved(upstream, natural, order), order
            for qubits, matrix in zip(reversed(places), reversed(unitaries), strict=True):
                _, state = _bring_last(state, arranged, qubits)
                arranged, adjoint = _bring_last(adjoint, arranged, qubits)
                inverse = matrix + nothing
                state = tf.matmul(_rows(state, outer, qubits), inverse)
                adjoint = _rows(adjoint, outer, qubits)
                own = tf.matmul(adjoint, state, transpose_a=True)
                gradients.insert(0, own)
                # Otherwise the compiler leaves these products to the end, and keeps the states of all groups for them.
                nothing = 0 * tf.reshape(own, [-1])[0]
                if len(gradients) < len(places):
                    adjoint = tf.matmul(adjoint, inverse)
            return gradients

        return tf.reshape(_moved(final, order, natural), whole), gradient

    return run(*unitaries)


def real_forms(matrices: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the real matrices, (..., 2d, 2d), that act on amplitudes whose two parts are neighbours."""
    real, imaginary = tf.math.real(matrices), tf.math.imag(matrices)
    rows = [tf.stack([real, -imaginary], axis=-1), tf.stack([imaginary, real], axis=-1)]
    size = 2 * matrices.shape[-1]
    return tf.cast(tf.reshape(tf.stack(rows, axis=-3), [*matrices.shape[:-2], size, size]), dtype)


def on_last(matrix: tf.Tensor, qubits: int) -> tf.Tensor:
    """Return the part of a real form on four qubits that is that of the last ones, (..., 2d, 2d)."""
    size = 2 * 2**qubits
    return matrix if matrix.shape[-1] == size else matrix[..., :size, :size]


def _rows(states: tf.Tensor, outer: Sequence[int], qubits: Sequence[int]) -> tf.Tensor:
    return tf.reshape(states, [*outer, -1, 2 * 2 ** len(qubits)])


def _bring_last(states: tf.Tensor, order: tuple[int, ...], qubits: Sequence[int]) -> tuple[tuple[int, ...], tf.Tensor]:
    new = (*(qubit for qubit in order if qubit not in qubits), *qubits)
    return new, _moved(states, order, new)


def _moved(states: tf.Tensor, old: tuple[int, ...], new: tuple[int, ...]) -> tf.Tensor:
    """Put the qubits' axes into another order; those that stay neighbours travel as one."""
    if old == new:
        return states
    together = list(common_slices(old, new))
    before = sorted(together, key=lambda run: old.index(run[0]))
    view = tf.reshape(states, [-1, *(2 ** len(run) for run in before), 2])
    return tf.transpose(view, [0, *(1 + before.index(run) for run in together), 1 + len(together)])


def common_slices(old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the stretches of the new order that are also stretches of the old."""
    run = new[:1]
    for qubit, following in itertools.pairwise(new):
        if old.index(following) == old.index(qubit) + 1:
            run += (following,)
        else:
            yield run
            run = (following,)
    yield run
