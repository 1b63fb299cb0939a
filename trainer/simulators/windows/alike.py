"""Parts of one shape as one batch, and kinds of readouts of one shape as another, on whatever data states."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from qcnn.trainer.simulators.evolution import Unitaries, on_last
from qcnn.trainer.simulators.structure.cones import Split
from qcnn.trainer.simulators.structure.groups import Group


def together(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return a batch of tensors, or the only one as it is, whose products the compiler makes faster."""
    return tensors[0] if len(tensors) == 1 else tf.stack(tensors)


def sweeps_of(
    groups: Sequence[Sequence[Group]], unitaries: Unitaries, forms: Sequence[tf.Tensor]
) -> tuple[list[tuple[int, ...]], list[tf.Tensor]]:
    """Return the qubits and the matrices of each sweep over parts, whose groups are a row each.

    Matrices are taken of `forms`, real (16 * 2, 16 * 2) each, in the order of `unitaries`.
    """
    places = [group.qubits for group in groups[0]]
    columns = zip(*groups, strict=True)
    return places, [
        on_last(together([forms[unitaries.index(group)] for group in column]), len(column[0].qubits))
        for column in columns
    ]


def observables(
    kinds: Sequence[Split], absorbed: Sequence[Group], unitaries: Unitaries, matrices: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Return the kinds' observables, complex128 (kinds, d^2 of each part ...), d^2 those of the part's density."""
    first = kinds[0]
    size = 2**first.targets
    taken_in = tf.stack([matrices[unitaries.index(group)] for group in absorbed])[:, :size, :size]
    z = np.repeat([1.0 + 0j, -1.0], size // 2)[:, None]
    observable = tf.matmul(taken_in, z * taken_in, adjoint_a=True)
    # The two axes of each target, part by part: rows of its density's transpose.
    sides = [side + np.array(part.targets) for part in first.parts for side in (1 + first.targets, 1)]
    bits = tf.reshape(observable, [-1, *[2] * (2 * first.targets)])
    sizes = [4 ** len(part.targets) for part in first.parts]
    return tf.reshape(tf.transpose(bits, np.concatenate([[0], *sides])), [-1, *sizes])
