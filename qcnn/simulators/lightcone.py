"""Simulator lightcone: readouts of shallow circuits from independent parts of their light cones.

The cost of a step is almost independent of the number of qubits.
"""

import collections
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from qcnn.simulators import data_states
from qcnn.simulators.costs.lightcone import DECLARATION, fitting
from qcnn.simulators.data_states import product_states
from qcnn.simulators.evolution import GroupUnitaries, evolve, on_last, real_forms
from qcnn.simulators.interface import ROUNDING, ExcitationBatch, Inputs, SimulatorLimits, StringCoefficients
from qcnn.simulators.structure.gate_fusion import GateGroup
from qcnn.simulators.structure.light_cones import Factorization, LightCone
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.structure.readouts import (
    BATCHED_AMPLITUDES,
    PlacedFactor,
    PlacedReadout,
    Places,
    absorbed_gates,
    find_products,
    find_readouts,
    groups_of,
    parts_by_shape,
    readouts_by_shape,
)
from qcnn.simulators.tensor_ops import as_input, fixed_rows, gather_rows, gather_wide, map_in_chunks


def stack(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Stack tensors, or return a single tensor unchanged, because XLA runs unbatched products faster."""
    return tensors[0] if len(tensors) == 1 else tf.stack(tensors)


def sweeps_of(
    groups: Sequence[Sequence[GateGroup]], unitaries: GroupUnitaries, forms: Sequence[tf.Tensor]
) -> tuple[list[tuple[int, ...]], list[tf.Tensor]]:
    """Return the qubits and the matrices of each sweep over a batch of parts.

    Args:
        groups: Groups of each part, of equal shapes.
        unitaries: Index of the groups' matrices.
        forms: Real forms of the matrices, (32, 32) each, in the order of `unitaries`.
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
    """Return the observables of distinct readouts, complex128 (kinds, d^2 of each part ...).

    The d^2 values of a part correspond to the elements of its density matrix.

    Args:
        kinds: Factorizations of equal shapes.
        absorbed: Gates that each observable absorbs, see `absorbed_gates`.
        unitaries: Index of the groups' matrices.
        matrices: Complex matrices, (16, 16) each, in the order of `unitaries`.
    """
    first = kinds[0]
    size = 2**first.targets
    evolution = tf.stack([matrices[unitaries.index(group)] for group in absorbed])[:, :size, :size]
    z = np.repeat([1.0 + 0j, -1.0], size // 2)[:, None]
    observable = tf.matmul(evolution, z * evolution, adjoint_a=True)
    # The column and row axes of each part's targets, in the order of its transposed density matrix.
    sides = [side + np.array(part.targets) for part in first.parts for side in (1 + first.targets, 1)]
    bits = tf.reshape(observable, [-1, *[2] * (2 * first.targets)])
    sizes = [4 ** len(part.targets) for part in first.parts]
    return tf.reshape(tf.transpose(bits, np.concatenate([[0], *sides])), [-1, *sizes])


# Maximum number of rows whose products are faster as elementwise products and sums.
_SMALL = 4


class ProductLightconeSimulator:
    """Simulator of product states, which combines density matrices of light cone parts.

    A part is evaluated once per sample and assignment of features to its qubits.
    """

    name = "lightcone"
    compiles = DECLARATION.builtin_operations
    large = False
    rounding = ROUNDING[8]

    def __init__(self, network: CircuitIR, limits: SimulatorLimits) -> None:
        self.network = network
        self._samples = fitting(network, limits)
        found = find_products(network)
        self._parts = [_Parts([found.parts[part] for part in batch], network) for batch in found.parts_by_shape]
        # Index of a part's first density matrix among those with the same number of targets.
        starts, ends = {}, collections.Counter[int]()
        for number in itertools.chain(*found.parts_by_shape):
            part = found.parts[number]
            starts[number] = ends[part.cone.targets]
            ends[part.cone.targets] += len(part.places)
        self._kinds = [_Kinds([found.kinds[kind] for kind in batch], starts) for batch in found.kinds_by_shape]
        kinds = itertools.chain(*found.kinds_by_shape)
        values = [(kind, place) for kind in kinds for place in range(len(found.kinds[kind].places))]
        where = {value: number for number, value in enumerate(values)}
        self._readouts = np.array([where[readout] for readout in found.readouts], np.int32)
        groups = [group for parts in self._parts for every in parts.groups for group in every]
        absorbed = [group for kinds in self._kinds for group in kinds.absorbed]
        self._unitaries = GroupUnitaries([*groups, *absorbed], network.parameters)

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False, because every sample is evolved."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of the Pauli strings, float64 (batch, strings)."""
        return map_in_chunks(self._measure, parameters, (batch[0],), self._samples, (len(self._readouts),))

    def table(self, parameters: tf.Tensor) -> StringCoefficients:
        """Raise NotImplementedError, because product states have no finite set of coefficients."""
        raise NotImplementedError

    def _measure(self, parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        matrices = self._unitaries(parameters)
        unitaries, forms = tf.unstack(matrices), tf.unstack(real_forms(matrices, tf.float64))
        # One row per feature, and a zero row for qubits without a feature.
        angles = tf.pad(tf.transpose(features), [[0, 1], [0, 0]])
        densities: dict[int, list[tf.Tensor]] = {}
        for parts in self._parts:
            densities.setdefault(parts.targets, []).append(parts.densities(self._unitaries, forms, angles))
        every = {targets: tf.concat(batches, axis=0) for targets, batches in densities.items()}
        values = [kinds.values(self._unitaries, unitaries, every) for kinds in self._kinds]
        return tf.transpose(gather_wide(tf.concat(values, axis=0), self._readouts))


class _Parts:
    """Parts of the same shape and number of places, which are evolved as one batch."""

    def __init__(self, parts: Sequence[PlacedFactor], network: CircuitIR) -> None:
        self.groups = [groups_of(part.cone) for part in parts]
        self.targets, self._qubits = parts[0].cone.targets, parts[0].cone.inner
        self._kind, features = network.preparation.kind, network.preparation.features
        self._features = np.array([place for part in parts for place in part.places], np.int32)
        if self._kind == "dense":
            # The second rotation of a qubit is by a feature of a later column.
            self._features = np.hstack([self._features, np.minimum(self._features + network.qubits, features)])

    def densities(self, unitaries: GroupUnitaries, forms: Sequence[tf.Tensor], angles: tf.Tensor) -> tf.Tensor:
        """Return the targets' density matrices, complex128 (places of all parts, samples, d^2)."""
        rotations = tf.transpose(tf.gather(angles, as_input(self._features)), [0, 2, 1])
        states = product_states(self._kind, tf.reshape(rotations, [-1, rotations.shape[2]]), tf.float64)
        places, every = sweeps_of(self.groups, unitaries, forms)
        if len(self.groups) > 1:
            states = tf.reshape(states, [len(self.groups), -1, *states.shape[1:]])
        final = tf.reshape(evolve(places, states, every), [-1, 2**self.targets, 2 ** (self._qubits - self.targets), 2])
        rows = tf.complex(final[..., 0], final[..., 1])
        return tf.reshape(_densities(rows), [len(self._features), -1, 4**self.targets])


def _densities(rows: tf.Tensor) -> tf.Tensor:
    """Return the products of matrices, complex128 (..., d, m), with their adjoints, (..., d, d)."""
    if rows.shape[-2] > _SMALL:
        return tf.matmul(rows, rows, adjoint_b=True)
    return tf.reduce_sum(rows[..., :, None, :] * tf.math.conj(rows)[..., None, :, :], axis=-1)


class _Kinds:
    """Distinct readouts of the same shape and number of places, which are combined as one batch."""

    def __init__(self, kinds: Sequence[PlacedReadout], starts: Mapping[int, int]) -> None:
        self._splits = [kind.split for kind in kinds]
        self.absorbed = [absorbed_gates(split) for split in self._splits]
        self._targets = [len(part.targets) for part in self._splits[0].parts]
        # The row of each part's density matrix: one row per readout and place, one column per part.
        rows = [
            [starts[part] + at for part, at in zip(kind.parts, place, strict=True)]
            for kind in kinds
            for place in kind.places
        ]
        self._rows = np.array(rows, np.int32)

    def values(
        self, unitaries: GroupUnitaries, matrices: Sequence[tf.Tensor], densities: Mapping[int, tf.Tensor]
    ) -> tf.Tensor:
        """Return the expectation values, float64 (places of all kinds, samples)."""
        first, *others = (
            gather_wide(densities[targets], rows) for targets, rows in zip(self._targets, self._rows.T, strict=True)
        )
        observable = observables(self._splits, self.absorbed, unitaries, matrices)
        kinds, size = observable.shape[:2]
        values = tf.matmul(tf.reshape(first, [kinds, -1, size]), tf.reshape(observable, [kinds, size, -1]))
        for density in others:
            size = density.shape[2]
            remaining = tf.reshape(values, [len(self._rows), -1, size, values.shape[2] // size])
            values = tf.reduce_sum(density[..., None] * remaining, axis=2)
        return tf.math.real(tf.reshape(values, [len(self._rows), -1]))


def create(network: CircuitIR, limits: SimulatorLimits) -> "LightconeSimulator | ProductLightconeSimulator":
    """Create the simulator of a checked network."""
    return (
        LightconeSimulator(network)
        if network.preparation.kind == "excitation"
        else ProductLightconeSimulator(network, limits)
    )


class LightconeSimulator:
    """Simulator of excitations, which evaluates each distinct light cone part once."""

    name = "lightcone"
    compiles = DECLARATION.builtin_operations
    large = False
    rounding = ROUNDING[8]

    def __init__(self, network: CircuitIR) -> None:
        self.network = network
        self._readouts = find_readouts(network)
        kinds = self._readouts.kinds
        self._parts = [_ReadoutParts(batch) for batch in parts_by_shape(kinds)]
        self._kinds = [_ReadoutKinds(batch, self._parts) for batch in readouts_by_shape(kinds)]
        groups = [group for parts in self._parts for every in parts.groups for group in every]
        absorbed = [group for kinds in self._kinds for group in kinds.absorbed]
        self._unitaries = GroupUnitaries([*groups, *absorbed], network.parameters)
        self._places = self._places_of_values()

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False, because the cost does not depend on the excited qubits."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of the Pauli strings, float64 (batch, strings)."""
        assert isinstance(batch, ExcitationBatch)
        table = self.table(parameters)
        width = table.reached.shape[1]
        # Concatenated to one row per qubit: the gradient then sums rows instead of single numbers.
        rows = gather_rows(tf.concat([table.flipped, table.mixed], axis=1), batch.qubit)
        flip_share, mix_share = data_states.shares(batch.angle)
        change = flip_share[:, None] * rows[:, :width] + mix_share[:, None] * rows[:, width:]
        where = tf.one_hot(tf.gather(table.reached, batch.qubit), len(self._readouts.unexcited), dtype=change.dtype)
        return table.unexcited + tf.reduce_sum(change[:, :, None] * where, axis=1)

    def table(self, parameters: tf.Tensor) -> StringCoefficients:
        """Return the coefficients of every possible excitation."""
        found = self._readouts
        readouts, (qubits, width) = len(found.unexcited), found.reached.shape
        per_qubit = found.flipped, found.unexcited[found.reached], found.mixed
        places = np.concatenate([found.unexcited, *(part.ravel() for part in per_qubit)])
        every = fixed_rows(self._values(parameters)[:, None], self._places[places])[:, 0]
        unexcited, *parts = tf.split(every, [readouts, *[qubits * width] * 3])
        flipped, before, mixed = (tf.reshape(part, [qubits, width]) for part in parts)
        return StringCoefficients(unexcited, as_input(found.reached), flipped - before, mixed)

    def _values(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return the values of all distinct readouts, float64, followed by a zero."""
        matrices = self._unitaries(parameters)
        unitaries, forms = tf.unstack(matrices), tf.unstack(real_forms(matrices, tf.float64))
        densities = [parts.densities(self._unitaries, forms) for parts in self._parts]
        values = [tf.reshape(kinds.values(self._unitaries, unitaries, densities), [-1]) for kinds in self._kinds]
        return tf.concat([*values, tf.zeros([1], tf.float64)], axis=0)

    def _places_of_values(self) -> Places:
        """Return the index in `_values` of each value, in the order of `ReadoutPlan`."""
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
    """Parts of the same shape, which are evolved as one batch."""

    def __init__(self, cones: Sequence[LightCone]) -> None:
        self.cones = cones
        # One row per cone, one column per group.
        self.groups = [groups_of(cone) for cone in cones]
        # Initial states of small parts are constants. Computing them makes the program a third longer.
        self._constant_states = None if cones[0].amplitudes > BATCHED_AMPLITUDES else self._states()

    def densities(self, unitaries: GroupUnitaries, forms: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the targets' density matrices, complex128 (parts, rows, d, d).

        The rows are unexcited, flipped for each qubit, and mixed for each qubit. A mixed row is not Hermitian: twice
        the product of which the density matrix is the Hermitian part. The real part of an expectation value is exact.
        """
        first = self.cones[0]
        qubits = first.inner + first.outer
        states = self._states() if self._constant_states is None else self._constant_states
        places, every = sweeps_of(self.groups, unitaries, forms)
        final = evolve(places, states, every)
        shape = [len(self.cones), 1 + first.inner, 2**first.targets, 2 ** (qubits - first.targets)]
        rows = tf.reshape(tf.complex(final[..., 0], final[..., 1]), shape)
        densities = tf.matmul(rows, rows, adjoint_b=True)
        return tf.concat([densities, 2j * tf.matmul(rows[:, :1], rows[:, 1:], adjoint_b=True)], axis=1)

    def _states(self) -> tf.Tensor:
        qubits = self.cones[0].inner + self.cones[0].outer
        every = []
        for cone in self.cones:
            masks = data_states.flip_masks(qubits, cone.edges, range(cone.inner))
            every.append(data_states.spanning_states(qubits, cone.edges, tf.constant(masks), tf.float64))
        return stack(every)


class _ReadoutKinds:
    """Distinct readouts of the same shape, which are combined as one batch."""

    def __init__(self, kinds: Sequence[Factorization], parts: Sequence[_ReadoutParts]) -> None:
        self.kinds = kinds
        self.absorbed = [absorbed_gates(kind) for kind in kinds]
        where = {cone.key: (number, row) for number, batch in enumerate(parts) for row, cone in enumerate(batch.cones)}
        # The batch of each part and its row in the batch: one row per readout, one column per part.
        self._where = [[where[part.cone.key] for part in kind.parts] for kind in kinds]
        self.rows = max(1 + 2 * part.cone.inner for kind in kinds for part in kind.parts)

    def values(
        self, unitaries: GroupUnitaries, matrices: Sequence[tf.Tensor], densities: Sequence[tf.Tensor]
    ) -> tf.Tensor:
        """Return the expectation values, float64 (kinds, parts, rows).

        Each value has one part in one of its rows and all other parts unexcited.
        """
        observable = observables(self.kinds, self.absorbed, unitaries, matrices)
        rows = [self._rows(densities, number) for number in range(len(self._where[0]))]
        return tf.stack([_with_one_excited(observable, rows, number) for number in range(len(rows))], axis=1)

    def _rows(self, densities: Sequence[tf.Tensor], number: int) -> tf.Tensor:
        """Return the density matrices of one part of each readout, (kinds, rows, d^2), padded with zeros."""
        flat = {}
        for batch in dict.fromkeys(where[number][0] for where in self._where):
            of_batch = densities[batch]
            rows = tf.reshape(of_batch, [*of_batch.shape[:2], -1])
            flat[batch] = tf.unstack(tf.pad(rows, [[0, 0], [0, self.rows - of_batch.shape[1]], [0, 0]]))
        return tf.stack([flat[batch][row] for batch, row in (where[number] for where in self._where)])


def _with_one_excited(observable: tf.Tensor, rows: Sequence[tf.Tensor], number: int) -> tf.Tensor:
    """Return the expectation values, float64 (kinds, rows), for each row of part `number`."""
    kinds = observable.shape[0]
    for part in reversed(range(number + 1, len(rows))):
        flat = tf.reshape(observable, [kinds, -1, rows[part].shape[2]])
        observable = tf.linalg.matvec(flat, rows[part][:, 0])
    for part in range(number):
        flat = tf.reshape(observable, [kinds, rows[part].shape[2], -1])
        observable = tf.linalg.matvec(flat, rows[part][:, 0], transpose_a=True)
    return tf.math.real(tf.linalg.matvec(rows[number], tf.reshape(observable, [kinds, -1])))
