"""Evolution of state vectors by groups of blocks, with the adjoint gradient.

The adjoint method (Jones and Gacon, arXiv:2009.02823) needs a few sweeps, independent of the number of parameters. Here
it is applied to groups of blocks instead of gates: one matrix per group holds the gradient of all its parameters. Real
and imaginary parts of an amplitude are adjacent, and the qubits of a group are the last axes. Every sweep is then one
real matrix product with long rows.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.simulators.structure.gate_fusion import MAX_QUBITS, Block, GateGroup
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.tensor_ops import BlockUnitaries, gather_sparse, padded_length, permute, product

# Maximum number of qubits of blocks that are combined in pairs.
_PAIR_QUBITS = 2
# Maximum number of gates of a piece of a block. Most blocks have fewer. Longer ones are cut, because all pieces are
# padded to the same length.
_PIECE_GATES = 16


class GroupUnitaries:
    """Unitaries of distinct groups as functions of the parameters.

    All unitaries are computed as one batch, so that the program size does not depend on the number of groups and
    blocks. A group is the product of its layers. A layer is the Kronecker product of its blocks, with permuted qubits.
    """

    def __init__(self, groups: Iterable[GateGroup], parameters: int) -> None:
        layers_of = {group.key: _layers(group) for group in groups}
        by_depth: dict[int, list[tuple[object, ...]]] = {}
        for key, layers in layers_of.items():
            by_depth.setdefault(padded_length(len(layers)), []).append(key)
        self._sizes = {depth: len(keys) for depth, keys in by_depth.items()}
        ordered = [(key, depth) for depth, keys in by_depth.items() for key in keys]
        self._index = {key: number for number, (key, _) in enumerate(ordered)}
        every = [
            layer for key, depth in ordered for layer in [*layers_of[key], *[_Layer()] * (depth - len(layers_of[key]))]
        ]
        self._pairs = _LayerMatrices([layer.pair for layer in every], _PAIR_QUBITS, parameters)
        wide = [layer.wide for layer in every]
        self._wide = _LayerMatrices(wide, MAX_QUBITS, parameters) if any(wide) else None

    def index(self, group: GateGroup) -> int:
        """Return the index of the matrix of a group."""
        return self._index[group.key]

    def __call__(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return the unitaries of the distinct groups, complex128 (groups, 16, 16).

        A group on fewer than four qubits acts on the last of the four qubits.

        Args:
            parameters: Circuit parameters, float64 (parameters,).
        """
        layers = self._pairs(parameters)
        if self._wide is not None:
            layers = tf.matmul(self._wide(parameters), layers)
        by_depth = tf.split(layers, [depth * size for depth, size in self._sizes.items()])
        products = [
            product(tf.reshape(matrices, [size, depth, *matrices.shape[1:]]))
            for matrices, (depth, size) in zip(by_depth, self._sizes.items(), strict=True)
        ]
        return tf.concat(products, axis=0)


@dataclasses.dataclass(frozen=True)
class _Placed:
    """A block, and its axes among the four qubits of a group."""

    axes: tuple[int, ...]
    block: Block


@dataclasses.dataclass
class _Layer:
    """Up to two small blocks on disjoint qubits, or one wider block."""

    pair: list[_Placed] = dataclasses.field(default_factory=list)
    wide: list[_Placed] = dataclasses.field(default_factory=list)

    def add(self, placed: _Placed) -> bool:
        """Add a block on disjoint qubits, if it fits, and return whether it was added."""
        small = len(placed.axes) <= _PAIR_QUBITS
        if self.wide or (self.pair and not small) or len(self.pair) == MAX_QUBITS // _PAIR_QUBITS:
            return False
        (self.pair if small else self.wide).append(placed)
        return True


def _layers(group: GateGroup) -> list[_Layer]:
    """Return the layers of a group, with each block in the first possible layer."""
    layers: list[_Layer] = []
    last: dict[int, int] = {}
    first = MAX_QUBITS - len(group.qubits)
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
    """Unitaries of layers whose blocks act on up to `width` qubits."""

    def __init__(self, layers: Sequence[Sequence[_Placed]], width: int, parameters: int) -> None:
        self._layers, self._width = len(layers), width
        factors = MAX_QUBITS // width
        cut = [[_pieces(placed.block) for placed in layer] + [[]] * (factors - len(layer)) for layer in layers]
        pieces = [piece for layer in cut for block in layer for piece in block]
        self._matrices = BlockUnitaries(pieces, width, parameters)
        self._longest = padded_length(max((len(block) for layer in cut for block in layer), default=1))
        numbers = [
            [*map(self._matrices.index, block), *[self._matrices.identity] * (self._longest - len(block))]
            for layer in cut
            for block in layer
        ]
        self._numbers = np.array(numbers, np.int32).ravel()
        size = 4**MAX_QUBITS
        orders = [_element_order([placed.axes for placed in layer], width) + size * n for n, layer in enumerate(layers)]
        self._order = np.array(orders, np.int32).ravel()

    def __call__(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return the unitaries of the layers, complex128 (layers, 16, 16)."""
        wide, narrow = 2**MAX_QUBITS, 2**self._width
        pieces = tf.reshape(self._matrices(parameters), [-1, narrow**2])
        chosen = gather_sparse(pieces, self._numbers, self._matrices.identity)
        factors = product(tf.reshape(chosen, [self._layers, -1, self._longest, narrow, narrow]))
        if factors.shape[1] == 1:
            whole = factors
        else:
            first, second = tf.unstack(factors, axis=1)
            whole = first[:, :, None, :, None] * second[:, None, :, None, :]
        return tf.reshape(permute(tf.reshape(whole, [-1]), self._order), [self._layers, wide, wide])


def _pieces(block: Block) -> list[Block]:
    cuts = range(0, len(block.gates), _PIECE_GATES)
    return [Block(block.qubits, block.gates[start : start + _PIECE_GATES]) for start in cuts]


def _element_order(layer: Sequence[tuple[int, ...]], width: int) -> npt.NDArray[np.int32]:
    """Return the indices of a layer's matrix elements in the Kronecker product of its blocks.

    Args:
        layer: Axes of each block.
        width: Number of qubits of each factor of the product.
    """
    spare = [axis for axis in range(MAX_QUBITS) if not any(axis in axes for axes in layer)]
    order: list[int] = []
    for axes in [*layer, *[()] * (MAX_QUBITS // width - len(layer))]:
        # Spare qubits come first, because a smaller block acts on the last qubits.
        order += [*(spare.pop(0) for _ in range(width - len(axes))), *axes]
    size = 2**MAX_QUBITS
    rows = np.arange(size, dtype=np.int32).reshape([2] * MAX_QUBITS).transpose(np.argsort(order)).ravel()
    places: npt.NDArray[np.int32] = (size * rows[:, None] + rows).ravel()
    return places


class SampleUnitaries:
    """Unitaries of groups that depend on inputs, for each sample."""

    def __init__(self, groups: Iterable[GateGroup], network: CircuitIR) -> None:
        by_size: dict[int, dict[tuple[object, ...], Block]] = {}
        for group in groups:
            if group.is_by_sample:
                by_size.setdefault(len(group.qubits), {})[group.key] = group.blocks[0]
        exponents, parameters = network.exponents_by_sample, network.parameters
        self._matrices = [
            (list(keyed), BlockUnitaries(keyed.values(), size, parameters, exponents))
            for size, keyed in by_size.items()
        ]

    def __call__(self, parameters: tf.Tensor, exponents: tf.Tensor) -> dict[tuple[object, ...], tf.Tensor]:
        """Return the unitaries by the keys of the groups, complex128 (samples, d, d) each.

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            exponents: Exponents by sample, float64 (samples, exponents).
        """
        return {
            key: matrix
            for keys, matrices in self._matrices
            for key, matrix in zip(keys, tf.unstack(matrices(parameters, exponents), axis=1), strict=False)
        }


def evolve(
    places: Sequence[tuple[int, ...]],
    states: tf.Tensor,
    unitaries: Sequence[tf.Tensor],
    scales: Sequence[tf.Tensor] | None = None,
    *,
    of_states: bool = False,
) -> tf.Tensor:
    """Apply unitaries to states, and return states of the same shape.

    Differentiable in the unitaries. The gradient with respect to the states is not defined unless requested.

    Args:
        places: Qubits of each unitary.
        states: Real and imaginary parts, (..., states, 2^qubits, 2). The number of states may be unknown.
        unitaries: Unitaries as returned by `real_forms`, (..., 2d, 2d) each, or (..., states, 2d, 2d) if each state has
            another one.
        scales: Factors of the gradients as returned by `gradient_scales`, or None.
        of_states: Whether the result is differentiable in the states, too.
    """
    if not places:
        return states
    shape = states.shape
    outer, whole = shape[:-3], [-1 if size is None else size for size in shape]
    natural = tuple(range(shape[-2].bit_length() - 1))

    def rows(states: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
        size = matrix.shape[-1]
        each_state = [-1, 2 * shape[-2] // size] if matrix.shape.rank == len(outer) + 3 else [-1]
        return tf.reshape(states, [*outer, *each_state, size])

    @tf.custom_gradient
    def run(*operands: tf.Tensor) -> tuple[tf.Tensor, Callable[..., list[tf.Tensor]]]:
        unitaries = operands[: len(places)]
        order, state = natural, states
        for qubits, matrix in zip(places, unitaries, strict=True):
            order, state = _bring_last(state, order, qubits)
            state = tf.matmul(rows(state, matrix), matrix, transpose_b=True)
        final = state

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            gradients: list[tf.Tensor] = []
            zero = tf.zeros([], states.dtype)
            state, adjoint, arranged = final, move_axes(upstream, natural, order), order
            for qubits, matrix in zip(reversed(places), reversed(unitaries), strict=True):
                _, state = _bring_last(state, arranged, qubits)
                arranged, adjoint = _bring_last(adjoint, arranged, qubits)
                inverse = matrix + zero
                state = tf.matmul(rows(state, matrix), inverse)
                adjoint = rows(adjoint, matrix)
                of_group = tf.matmul(adjoint, state, transpose_a=True)
                gradients.insert(0, of_group if scales is None else scales[len(places) - 1 - len(gradients)] * of_group)
                # This dependency forces the order of execution. Otherwise the compiler moves these products to the end
                # and keeps the states of all groups in memory.
                zero = 0 * tf.reshape(of_group, [-1])[0]
                if of_states or len(gradients) < len(places):
                    adjoint = tf.matmul(adjoint, inverse)
            if of_states:
                gradients.append(tf.reshape(move_axes(adjoint, arranged, natural), tf.shape(states)))
            return gradients

        return tf.reshape(move_axes(final, order, natural), whole), gradient

    return run(*unitaries, *([states] if of_states else []))


def real_forms(matrices: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Convert complex matrices to real ones, (..., 2d, 2d), for amplitudes with adjacent parts."""
    real, imaginary = tf.math.real(matrices), tf.math.imag(matrices)
    rows = [tf.stack([real, -imaginary], axis=-1), tf.stack([imaginary, real], axis=-1)]
    size = 2 * matrices.shape[-1]
    leading = [-1 if count is None else count for count in matrices.shape[:-2]]
    return tf.cast(tf.reshape(tf.stack(rows, axis=-3), [*leading, size, size]), dtype)


def gradient_scales(matrices: tf.Tensor, numbers: Sequence[int]) -> list[tf.Tensor] | None:
    """Return the factor of the gradient of each unitary in complex64, or None in complex128.

    A unitary of 32-bit numbers changes the squared norm of a state, on average by |matrix|^2 / size, in both
    directions. The gradient of a unitary is the product of the state and its adjoint, in which all later unitaries were
    undone, and so changed the norms again.

    Args:
        matrices: Distinct unitaries as returned by `real_forms`, (unitaries, 2d, 2d).
        numbers: Number of each unitary among them, in the order in which they act.
    """
    if matrices.dtype == tf.float64:
        return None
    norms = tf.reduce_sum(tf.square(tf.cast(matrices, tf.float64)), axis=[1, 2]) / matrices.shape[-1]
    undone = tf.math.cumprod(tf.gather(tf.stop_gradient(norms), numbers), exclusive=True, reverse=True)
    scales: list[tf.Tensor] = tf.unstack(tf.cast(1 / undone, matrices.dtype))
    return scales


def on_last(matrix: tf.Tensor, qubits: int) -> tf.Tensor:
    """Return the block of a real form that acts on the last qubits, (..., 2d, 2d)."""
    size = 2 * 2**qubits
    return matrix if matrix.shape[-1] == size else matrix[..., :size, :size]


def _bring_last(states: tf.Tensor, order: tuple[int, ...], qubits: Sequence[int]) -> tuple[tuple[int, ...], tf.Tensor]:
    new = (*(qubit for qubit in order if qubit not in qubits), *qubits)
    return new, move_axes(states, order, new)


def move_axes(states: tf.Tensor, old: tuple[int, ...], new: tuple[int, ...]) -> tf.Tensor:
    """Transpose the qubits' axes, with axes that stay adjacent as one.

    Args:
        states: Real and imaginary parts, in any shape whose elements have the order of (states, 2^qubits, 2).
        old: Qubits in the order of their axes.
        new: Order to return.

    Returns:
        The states, (states, ..., 2), with an axis for each common slice of the orders, or unchanged if they are equal.
    """
    if old == new:
        return states
    slices = list(common_slices(old, new))
    before = sorted(slices, key=lambda run: old.index(run[0]))
    view = tf.reshape(states, [-1, *(2 ** len(run) for run in before), 2])
    return tf.transpose(view, [0, *(1 + before.index(run) for run in slices), 1 + len(slices)])


def common_slices(old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the maximal slices of the new order that are also slices of the old order."""
    run = new[:1]
    for qubit, following in itertools.pairwise(new):
        if old.index(following) == old.index(qubit) + 1:
            run += (following,)
        else:
            yield run
            run = (following,)
    yield run
