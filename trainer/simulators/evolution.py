"""State vectors under groups of blocks, with the adjoint gradient: a few sweeps, whatever the number of parameters.

The adjoint method is Jones and Gacon's, arXiv:2009.02823, with a group of blocks where they have a gate: one
matrix a group gathers the gradient of all its parameters. Real and imaginary parts of an amplitude are
neighbours and a group's qubits the last axes, so that every sweep is one real matrix product over long rows.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from trainer.simulators.blocks import Block, Matrices

# Products of up to this many qubits cost no more than reading and writing the states does.
_MOST_QUBITS = 4


@dataclasses.dataclass(frozen=True)
class Group:
    """Blocks, in their order, on the same few qubits, which ascend."""

    qubits: tuple[int, ...]
    blocks: tuple[Block, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for groups of equal matrices at all parameters, wherever they act."""
        axes = {qubit: axis for axis, qubit in enumerate(self.qubits)}
        return len(self.qubits), tuple((block.key, tuple(axes[q] for q in block.qubits)) for block in self.blocks)


def collect(blocks: Sequence[Block]) -> list[Group]:
    """Collect blocks into groups: each goes into the first that comes late enough and has room for its qubits."""
    groups: list[tuple[set[int], list[Block]]] = []
    last: dict[int, int] = {}
    for block in blocks:
        earliest = max((last[qubit] for qubit in block.qubits if qubit in last), default=0)
        for number in range(earliest, len(groups)):
            qubits, inside = groups[number]
            if len(qubits.union(block.qubits)) <= max(_MOST_QUBITS, len(block.qubits)):
                break
        else:
            number = len(groups)
            qubits, inside = set(), []
            groups.append((qubits, inside))
        qubits.update(block.qubits)
        inside.append(block)
        last.update(dict.fromkeys(block.qubits, number))
    return [Group(tuple(sorted(qubits)), tuple(inside)) for qubits, inside in groups]


def evolve(groups: Sequence[Group], states: tf.Tensor, blocks: Matrices, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the states after the groups, real (states, 2^qubits, 2) as they came.

    Differentiable in `matrices`, what `blocks` made of the parameters; the states that come in are constant.
    """
    kinds = list(dict.fromkeys(group.key for group in groups))
    if not kinds:
        return states
    group_of = {group.key: group for group in groups}
    steps = [(group.qubits, kinds.index(group.key)) for group in groups]
    shape = states.shape
    natural = tuple(range(shape[1].bit_length() - 1))

    @tf.custom_gradient
    def run(*unitaries: tf.Tensor) -> tuple[tf.Tensor, Callable[..., list[tf.Tensor]]]:
        order, state = natural, states
        for qubits, kind in steps:
            order, state = _bring_last(state, order, qubits)
            state = tf.matmul(_rows(state, qubits), unitaries[kind], transpose_b=True)
        final = state

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            gradients = [tf.zeros_like(unitary) for unitary in unitaries]
            nothing = tf.zeros([], states.dtype)
            state, adjoint, arranged = final, _moved(upstream, natural, order), order
            for number, (qubits, kind) in enumerate(reversed(steps), start=1):
                _, state = _bring_last(state, arranged, qubits)
                arranged, adjoint = _bring_last(adjoint, arranged, qubits)
                inverse = unitaries[kind] + nothing
                state = tf.matmul(_rows(state, qubits), inverse)
                adjoint = _rows(adjoint, qubits)
                own = tf.matmul(adjoint, state, transpose_a=True)
                gradients[kind] += own
                # Otherwise the compiler leaves these products to the end, and keeps the states of all groups for them.
                nothing = 0 * own[0, 0]
                if number < len(steps):
                    adjoint = tf.matmul(adjoint, inverse)
            return gradients

        return tf.reshape(_moved(final, order, natural), shape), gradient

    return run(*(_real(unitary(group_of[kind], blocks, matrices), states.dtype) for kind in kinds))


def unitary(group: Group, blocks: Matrices, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return a group's matrix, complex (d, d): its blocks act on the columns of the identity."""
    count = len(group.qubits)
    columns = tf.eye(2**count, dtype=tf.complex128)
    for block in group.blocks:
        axes = [group.qubits.index(qubit) for qubit in block.qubits]
        rest = [axis for axis in range(count) if axis not in axes]
        there = [*axes, *rest, count]
        moved = tf.transpose(tf.reshape(columns, [2] * count + [-1]), there)
        product = tf.matmul(matrices[blocks.index(block)], tf.reshape(moved, [2 ** len(axes), -1]))
        back = [there.index(axis) for axis in range(count + 1)]
        columns = tf.transpose(tf.reshape(product, [2] * count + [-1]), back)
    return tf.reshape(columns, [2**count, 2**count])


def _real(matrix: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the real matrix, (2d, 2d), that acts on amplitudes whose two parts are neighbours."""
    real, imaginary = tf.math.real(matrix), tf.math.imag(matrix)
    rows = [tf.stack([real, -imaginary], axis=-1), tf.stack([imaginary, real], axis=-1)]
    return tf.cast(tf.reshape(tf.stack(rows, axis=1), [2 * matrix.shape[0]] * 2), dtype)


def _rows(states: tf.Tensor, qubits: Sequence[int]) -> tf.Tensor:
    return tf.reshape(states, [-1, 2 * 2 ** len(qubits)])


def _bring_last(states: tf.Tensor, order: tuple[int, ...], qubits: Sequence[int]) -> tuple[tuple[int, ...], tf.Tensor]:
    new = (*(qubit for qubit in order if qubit not in qubits), *qubits)
    return new, _moved(states, order, new)


def _moved(states: tf.Tensor, old: tuple[int, ...], new: tuple[int, ...]) -> tf.Tensor:
    """Put the qubits' axes into another order; those that stay neighbours travel as one."""
    if old == new:
        return states
    runs = list(_runs(old, new))
    before = sorted(runs, key=lambda run: old.index(run[0]))
    view = tf.reshape(states, [-1, *(2 ** len(run) for run in before), 2])
    return tf.transpose(view, [0, *(1 + before.index(run) for run in runs), 1 + len(runs)])


def _runs(old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the stretches of the new order that are also stretches of the old."""
    run = new[:1]
    for qubit, following in itertools.pairwise(new):
        if old.index(following) == old.index(qubit) + 1:
            run += (following,)
        else:
            yield run
            run = (following,)
    yield run
