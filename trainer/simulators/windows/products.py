"""Windows on product states: parts are evolved at each of their places, for each sample."""

import collections
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from qcnn.trainer.quantum.preparation import Kind
from qcnn.trainer.simulators.costs.window import fitting
from qcnn.trainer.simulators.data_states import product_states
from qcnn.trainer.simulators.evolution import Unitaries, evolve, real_forms
from qcnn.trainer.simulators.interface import Inputs, Limits, Table
from qcnn.trainer.simulators.rows import as_input, wide_rows
from qcnn.trainer.simulators.structure.gates import Network
from qcnn.trainer.simulators.structure.products import PlacedKind, PlacedPart, find_products
from qcnn.trainer.simulators.structure.readouts import absorbed, groups_of
from qcnn.trainer.simulators.turns import in_turns
from qcnn.trainer.simulators.windows.alike import observables, sweeps_of

# Up to so many rows, their products are faster written out.
_SMALL = 4


class ProductWindow:
    """Evaluates every part wherever other features turn its qubits, and puts the readouts together from them."""

    name = "window"
    compiles = True
    large = False

    def __init__(self, network: Network, limits: Limits) -> None:
        self.network = network
        self._samples = fitting(network, limits)
        found, prepared = find_products(network), network.preparation.kind
        self._parts = [_Parts([found.parts[part] for part in alike], prepared) for alike in found.alike_parts]
        # Where a part's densities stand among those of as many targets.
        starts, ends = {}, collections.Counter[int]()
        for number in itertools.chain(*found.alike_parts):
            part = found.parts[number]
            starts[number] = ends[part.cone.targets]
            ends[part.cone.targets] += len(part.places)
        self._kinds = [_Kinds([found.kinds[kind] for kind in alike], starts) for alike in found.alike_kinds]
        kinds = itertools.chain(*found.alike_kinds)
        values = [(kind, place) for kind in kinds for place in range(len(found.kinds[kind].places))]
        where = {value: number for number, value in enumerate(values)}
        self._readouts = np.array([where[readout] for readout in found.readouts], np.int32)
        groups = [group for parts in self._parts for every in parts.groups for group in every]
        taken_in = [group for kinds in self._kinds for group in kinds.absorbed]
        self._unitaries = Unitaries([*groups, *taken_in], network.parameters)

    def by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: it evolves every sample."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts), of `Features`."""
        return in_turns(self._measure, parameters, (batch[0],), self._samples, (len(self._readouts),))

    def table(self, parameters: tf.Tensor) -> Table:
        """Raise: no table holds every product state."""
        raise NotImplementedError

    def _measure(self, parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        matrices = self._unitaries(parameters)
        unitaries, forms = tf.unstack(matrices), tf.unstack(real_forms(matrices, tf.float64))
        # One row a feature, and one for qubits that are turned by nothing.
        angles = tf.pad(tf.transpose(features), [[0, 1], [0, 0]])
        densities: dict[int, list[tf.Tensor]] = {}
        for parts in self._parts:
            densities.setdefault(parts.targets, []).append(parts.densities(self._unitaries, forms, angles))
        every = {targets: tf.concat(own, axis=0) for targets, own in densities.items()}
        values = [kinds.values(self._unitaries, unitaries, every) for kinds in self._kinds]
        return tf.transpose(wide_rows(tf.concat(values, axis=0), self._readouts))


class _Parts:
    """Parts of one shape at as many places each, which are evolved as one batch."""

    def __init__(self, parts: Sequence[PlacedPart], kind: Kind) -> None:
        self.groups = [groups_of(part.cone) for part in parts]
        self.targets, self._qubits = parts[0].cone.targets, parts[0].cone.inner
        self._kind = kind
        self._features = np.array([place for part in parts for place in part.places], np.int32)

    def densities(self, unitaries: Unitaries, forms: Sequence[tf.Tensor], angles: tf.Tensor) -> tf.Tensor:
        """Return the targets' density matrices, complex128 (places of all parts, samples, d^2)."""
        turned = tf.transpose(tf.gather(angles, as_input(self._features)), [0, 2, 1])
        states = product_states(self._kind, tf.reshape(turned, [-1, self._qubits]), tf.float64)
        places, every = sweeps_of(self.groups, unitaries, forms)
        if len(self.groups) > 1:
            states = tf.reshape(states, [len(self.groups), -1, *states.shape[1:]])
        final = tf.reshape(evolve(places, states, every), [-1, 2**self.targets, 2 ** (self._qubits - self.targets), 2])
        rows = tf.complex(final[..., 0], final[..., 1])
        return tf.reshape(_densities(rows), [len(self._features), -1, 4**self.targets])


def _densities(rows: tf.Tensor) -> tf.Tensor:
    """Return the products of rows, complex128 (..., d, m), with their adjoints, (..., d, d)."""
    if rows.shape[-2] > _SMALL:
        return tf.matmul(rows, rows, adjoint_b=True)
    return tf.reduce_sum(rows[..., :, None, :] * tf.math.conj(rows)[..., None, :, :], axis=-1)


class _Kinds:
    """Kinds of readouts of one shape at as many places each, whose values are put together as one batch."""

    def __init__(self, kinds: Sequence[PlacedKind], starts: Mapping[int, int]) -> None:
        self._splits = [kind.split for kind in kinds]
        self.absorbed = [absorbed(split) for split in self._splits]
        self._targets = [len(part.targets) for part in self._splits[0].parts]
        # One row a place of a kind, one column each of its parts: the row of that part's density.
        rows = [
            [starts[part] + at for part, at in zip(kind.parts, place, strict=True)]
            for kind in kinds
            for place in kind.places
        ]
        self._rows = np.array(rows, np.int32)

    def values(
        self, unitaries: Unitaries, matrices: Sequence[tf.Tensor], densities: Mapping[int, tf.Tensor]
    ) -> tf.Tensor:
        """Return the values, float64 (places of all kinds, samples)."""
        first, *others = (
            wide_rows(densities[targets], rows) for targets, rows in zip(self._targets, self._rows.T, strict=True)
        )
        observable = observables(self._splits, self.absorbed, unitaries, matrices)
        kinds, size = observable.shape[:2]
        values = tf.matmul(tf.reshape(first, [kinds, -1, size]), tf.reshape(observable, [kinds, size, -1]))
        for own in others:
            size = own.shape[2]
            left = tf.reshape(values, [len(self._rows), -1, size, values.shape[2] // size])
            values = tf.reduce_sum(own[..., None] * left, axis=2)
        return tf.math.real(tf.reshape(values, [len(self._rows), -1]))
