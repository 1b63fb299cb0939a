"""Simulator lightcone: readouts of shallow circuits from independent parts, at a cost that hardly grows with qubits."""

import collections
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from qcnn.circuits.preparation import Kind
from qcnn.simulators import data_states
from qcnn.simulators.costs.lightcone import DECLARATION, fitting
from qcnn.simulators.data_states import product_states
from qcnn.simulators.evolution import GroupUnitaries, evolve, on_last, real_forms
from qcnn.simulators.interface import ExcitationBatch, Inputs, ReadoutCoefficients, SimulatorLimits
from qcnn.simulators.structure.gate_fusion import GateGroup
from qcnn.simulators.structure.gates import CircuitIR
from qcnn.simulators.structure.light_cones import Factorization, LightCone
from qcnn.simulators.structure.readouts import (
    TOGETHER_AMPLITUDES,
    PlacedFactor,
    PlacedReadout,
    Places,
    absorbed_gates,
    alike_kinds,
    alike_parts,
    find_products,
    find_readouts,
    groups_of,
)
from qcnn.simulators.tensor_ops import as_input, fixed_rows, gather_rows, gather_wide, map_in_chunks


def stack(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return a batch of tensors, or the only one as it is, whose products the compiler makes faster."""
    return tensors[0] if len(tensors) == 1 else tf.stack(tensors)


def sweeps_of(
    groups: Sequence[Sequence[GateGroup]], unitaries: GroupUnitaries, forms: Sequence[tf.Tensor]
) -> tuple[list[tuple[int, ...]], list[tf.Tensor]]:
    """Return the qubits and the matrices of each sweep over parts, whose groups are a row each.

    Matrices are taken of `forms`, real (16 * 2, 16 * 2) each, in the order of `unitaries`.
    """
    places = [group.qubits for group in groups[0]]
    columns = zip(*groups, strict=True)
    return places, [
        on_last(stack([forms[unitaries.index(group)] for group in column]), len(column[0].qubits)) for column in columns
    ]


def observables(
    kinds: Sequence[Factorization],
    absorbed: Sequence[GateGroup],
    unitaries: GroupUnitaries,
    matrices: Sequence[tf.Tensor],
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


# Up to so many rows, their products are faster written out.
_SMALL = 4


class ProductLightconeSimulator:
    """Evaluates every part wherever other features turn its qubits, and puts the readouts together from them."""

    name = "lightcone"
    compiles = DECLARATION.own_operations
    large = False

    def __init__(self, network: CircuitIR, limits: SimulatorLimits) -> None:
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
        self._unitaries = GroupUnitaries([*groups, *taken_in], network.parameters)

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: it evolves every sample."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts), of `Features`."""
        return map_in_chunks(self._measure, parameters, (batch[0],), self._samples, (len(self._readouts),))

    def table(self, parameters: tf.Tensor) -> ReadoutCoefficients:
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
        return tf.transpose(gather_wide(tf.concat(values, axis=0), self._readouts))


class _Parts:
    """Parts of one shape at as many places each, which are evolved as one batch."""

    def __init__(self, parts: Sequence[PlacedFactor], kind: Kind) -> None:
        self.groups = [groups_of(part.cone) for part in parts]
        self.targets, self._qubits = parts[0].cone.targets, parts[0].cone.inner
        self._kind = kind
        self._features = np.array([place for part in parts for place in part.places], np.int32)

    def densities(self, unitaries: GroupUnitaries, forms: Sequence[tf.Tensor], angles: tf.Tensor) -> tf.Tensor:
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

    def __init__(self, kinds: Sequence[PlacedReadout], starts: Mapping[int, int]) -> None:
        self._splits = [kind.split for kind in kinds]
        self.absorbed = [absorbed_gates(split) for split in self._splits]
        self._targets = [len(part.targets) for part in self._splits[0].parts]
        # One row a place of a kind, one column each of its parts: the row of that part's density.
        rows = [
            [starts[part] + at for part, at in zip(kind.parts, place, strict=True)]
            for kind in kinds
            for place in kind.places
        ]
        self._rows = np.array(rows, np.int32)

    def values(
        self, unitaries: GroupUnitaries, matrices: Sequence[tf.Tensor], densities: Mapping[int, tf.Tensor]
    ) -> tf.Tensor:
        """Return the values, float64 (places of all kinds, samples)."""
        first, *others = (
            gather_wide(densities[targets], rows) for targets, rows in zip(self._targets, self._rows.T, strict=True)
        )
        observable = observables(self._splits, self.absorbed, unitaries, matrices)
        kinds, size = observable.shape[:2]
        values = tf.matmul(tf.reshape(first, [kinds, -1, size]), tf.reshape(observable, [kinds, size, -1]))
        for own in others:
            size = own.shape[2]
            left = tf.reshape(values, [len(self._rows), -1, size, values.shape[2] // size])
            values = tf.reduce_sum(own[..., None] * left, axis=2)
        return tf.math.real(tf.reshape(values, [len(self._rows), -1]))


def create(network: CircuitIR, limits: SimulatorLimits) -> "LightconeSimulator | ProductLightconeSimulator":
    """Create the simulator of a network that has been checked."""
    return (
        LightconeSimulator(network)
        if network.preparation.kind == "excitation"
        else ProductLightconeSimulator(network, limits)
    )


class LightconeSimulator:
    """Evaluates every kind of independent part once, and puts the readouts of samples together from them."""

    name = "lightcone"
    compiles = DECLARATION.own_operations
    large = False

    def __init__(self, network: CircuitIR) -> None:
        self.network = network
        self._readouts = find_readouts(network)
        kinds = self._readouts.kinds
        self._parts = [_ReadoutParts(alike) for alike in alike_parts(kinds)]
        self._kinds = [_ReadoutKinds(alike, self._parts) for alike in alike_kinds(kinds)]
        groups = [group for parts in self._parts for every in parts.groups for group in every]
        absorbed = [group for kinds in self._kinds for group in kinds.absorbed]
        self._unitaries = GroupUnitaries([*groups, *absorbed], network.parameters)
        self._places = self._places_of_values()

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: one of each kind of window serves all qubits."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts), of a `ExcitationBatch`."""
        assert isinstance(batch, ExcitationBatch)
        table = self.table(parameters)
        most = table.reached.shape[1]
        # One row for each qubit first: each sample then adds up a row instead of single numbers.
        rows = gather_rows(tf.concat([table.flipped, table.mixed], axis=1), batch.qubit)
        flip_share, mix_share = data_states.shares(batch.angle)
        change = flip_share[:, None] * rows[:, :most] + mix_share[:, None] * rows[:, most:]
        where = tf.one_hot(tf.gather(table.reached, batch.qubit), len(self._readouts.unexcited), dtype=change.dtype)
        return table.unexcited + tf.reduce_sum(change[:, :, None] * where, axis=1)

    def table(self, parameters: tf.Tensor) -> ReadoutCoefficients:
        """Return what the readouts of every possible excitation follow from."""
        found = self._readouts
        readouts, (qubits, most) = len(found.unexcited), found.reached.shape
        per_qubit = found.flipped, found.unexcited[found.reached], found.mixed
        places = np.concatenate([found.unexcited, *(part.ravel() for part in per_qubit)])
        every = fixed_rows(self._values(parameters)[:, None], self._places[places])[:, 0]
        unexcited, *parts = tf.split(every, [readouts, *[qubits * most] * 3])
        flipped, before, mixed = (tf.reshape(part, [qubits, most]) for part in parts)
        return ReadoutCoefficients(unexcited, as_input(found.reached), flipped - before, mixed)

    def _values(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return the values of all kinds, float64, at their `_places`, and last a zero."""
        matrices = self._unitaries(parameters)
        unitaries, forms = tf.unstack(matrices), tf.unstack(real_forms(matrices, tf.float64))
        densities = [parts.densities(self._unitaries, forms) for parts in self._parts]
        values = [tf.reshape(kinds.values(self._unitaries, unitaries, densities), [-1]) for kinds in self._kinds]
        return tf.concat([*values, tf.zeros([1], tf.float64)], axis=0)

    def _places_of_values(self) -> Places:
        """Return where `_values` has each of the values as `Readouts` orders them."""
        places, end = {}, 0
        for kinds in self._kinds:
            for kind in kinds.kinds:
                starts = [(end + number * kinds.rows, part.cone.inner) for number, part in enumerate(kind.parts)]
                flipped = [start + 1 + qubit for start, inner in starts for qubit in range(inner)]
                mixed = [start + 1 + inner + qubit for start, inner in starts for qubit in range(inner)]
                places[id(kind)] = [end, *flipped, *mixed]
                end += len(kind.parts) * kinds.rows
        return np.array([*(place for kind in self._readouts.kinds for place in places[id(kind)]), end], np.int32)


class _ReadoutParts:
    """Parts of one shape, which are evolved as one batch."""

    def __init__(self, cones: Sequence[LightCone]) -> None:
        self.cones = cones
        # One row a cone, one column a group of each.
        self.groups = [groups_of(cone) for cone in cones]
        # Of small parts they are kept: a program that makes them is a third longer.
        self._kept = None if cones[0].amplitudes > TOGETHER_AMPLITUDES else self._states()

    def densities(self, unitaries: GroupUnitaries, forms: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the targets' matrices, complex128 (parts, rows, d, d): unexcited, flipped and mixed for each qubit.

        A mixed one is twice the product, whose Hermitian part is the density: an observable's value is the real part.
        """
        first = self.cones[0]
        qubits = first.inner + first.outer
        states = self._states() if self._kept is None else self._kept
        places, every = sweeps_of(self.groups, unitaries, forms)
        final = evolve(places, states, every)
        shape = [len(self.cones), 1 + first.inner, 2**first.targets, 2 ** (qubits - first.targets)]
        rows = tf.reshape(tf.complex(final[..., 0], final[..., 1]), shape)
        own = tf.matmul(rows, rows, adjoint_b=True)
        return tf.concat([own, 2j * tf.matmul(rows[:, :1], rows[:, 1:], adjoint_b=True)], axis=1)

    def _states(self) -> tf.Tensor:
        qubits = self.cones[0].inner + self.cones[0].outer
        every = []
        for cone in self.cones:
            masks = data_states.flip_masks(qubits, cone.edges, range(cone.inner))
            every.append(data_states.spanning_states(qubits, cone.edges, tf.constant(masks), tf.float64))
        return stack(every)


class _ReadoutKinds:
    """Kinds of readouts of one shape, whose values are put together as one batch."""

    def __init__(self, kinds: Sequence[Factorization], parts: Sequence[_ReadoutParts]) -> None:
        self.kinds = kinds
        self.absorbed = [absorbed_gates(kind) for kind in kinds]
        where = {cone.key: (number, row) for number, alike in enumerate(parts) for row, cone in enumerate(alike.cones)}
        # One row a kind, one column each of its parts: the batch of parts, and the row there.
        self._where = [[where[part.cone.key] for part in kind.parts] for kind in kinds]
        self.rows = max(1 + 2 * part.cone.inner for kind in kinds for part in kind.parts)

    def values(
        self, unitaries: GroupUnitaries, matrices: Sequence[tf.Tensor], densities: Sequence[tf.Tensor]
    ) -> tf.Tensor:
        """Return the values, float64 (kinds, parts, rows), with each part in each of its rows and others unexcited."""
        parted = observables(self.kinds, self.absorbed, unitaries, matrices)
        rows = [self._rows(densities, number) for number in range(len(self._where[0]))]
        return tf.stack([_with_one_excited(parted, rows, number) for number in range(len(rows))], axis=1)

    def _rows(self, densities: Sequence[tf.Tensor], number: int) -> tf.Tensor:
        """Return every kind's densities of its part of that number, (kinds, rows, d^2), filled up with zeros."""
        flat = {}
        for batch in dict.fromkeys(where[number][0] for where in self._where):
            own = densities[batch]
            rows = tf.reshape(own, [*own.shape[:2], -1])
            flat[batch] = tf.unstack(tf.pad(rows, [[0, 0], [0, self.rows - own.shape[1]], [0, 0]]))
        return tf.stack([flat[batch][row] for batch, row in (where[number] for where in self._where)])


def _with_one_excited(observable: tf.Tensor, rows: Sequence[tf.Tensor], number: int) -> tf.Tensor:
    """Return the expectation, float64 (kinds, rows), with part `number` in each of its rows, the others unexcited."""
    kinds = observable.shape[0]
    for part in reversed(range(number + 1, len(rows))):
        flat = tf.reshape(observable, [kinds, -1, rows[part].shape[2]])
        observable = tf.linalg.matvec(flat, rows[part][:, 0])
    for part in range(number):
        flat = tf.reshape(observable, [kinds, rows[part].shape[2], -1])
        observable = tf.linalg.matvec(flat, rows[part][:, 0], transpose_a=True)
    return tf.math.real(tf.linalg.matvec(rows[number], tf.reshape(observable, [kinds, -1])))
