"""Windows: readouts of shallow circuits from the few qubits that each depends on, exactly.

A readout's light cone is split where its last gates, taken into the observable, leave independent parts
(`structure.cones`). Each kind of part is evolved once a step, as the states that its samples span; a sample then only
picks numbers, and changes no more than the readouts that its qubit can reach. On product states, which no CZ joins,
cones hold less and fall apart more, but each sample is evolved (`windows.products`).
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from qcnn.trainer.simulators import excitations
from qcnn.trainer.simulators.costs.window import check
from qcnn.trainer.simulators.evolution import Unitaries, evolve, real_forms
from qcnn.trainer.simulators.interface import Batch, Inputs, Limits, Table
from qcnn.trainer.simulators.rows import as_input, fixed_rows, rows_at
from qcnn.trainer.simulators.structure.cones import Cone, Split
from qcnn.trainer.simulators.structure.gates import Network
from qcnn.trainer.simulators.structure.readouts import (
    TOGETHER_AMPLITUDES,
    Places,
    absorbed,
    alike_kinds,
    alike_parts,
    find_readouts,
    groups_of,
)
from qcnn.trainer.simulators.windows.alike import observables, sweeps_of, together
from qcnn.trainer.simulators.windows.products import ProductWindow


def create(network: Network, limits: Limits) -> "Window | ProductWindow":
    """Create the simulator.

    Raises:
        ConfigError: samples are states, or the light cones do not fall into parts that fit.
    """
    check(network, limits)
    return Window(network) if network.preparation.kind == "excitation" else ProductWindow(network, limits)


class Window:
    """Evaluates every kind of independent part once, and puts the readouts of samples together from them."""

    name = "window"
    compiles = True
    large = False

    def __init__(self, network: Network) -> None:
        self.network = network
        self._readouts = find_readouts(network)
        kinds = self._readouts.kinds
        self._parts = [_Parts(alike) for alike in alike_parts(kinds)]
        self._kinds = [_Kinds(alike, self._parts) for alike in alike_kinds(kinds)]
        groups = [group for parts in self._parts for every in parts.groups for group in every]
        absorbed = [group for kinds in self._kinds for group in kinds.absorbed]
        self._unitaries = Unitaries([*groups, *absorbed], network.parameters)
        self._places = self._places_of_values()

    def by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: one of each kind of window serves all qubits."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts), of a `Batch`."""
        assert isinstance(batch, Batch)
        table = self.table(parameters)
        most = table.reached.shape[1]
        # One row for each qubit first: each sample then adds up a row instead of single numbers.
        rows = rows_at(tf.concat([table.flipped, table.mixed], axis=1), batch.qubit)
        flip_share, mix_share = excitations.shares(batch.angle)
        change = flip_share[:, None] * rows[:, :most] + mix_share[:, None] * rows[:, most:]
        where = tf.one_hot(tf.gather(table.reached, batch.qubit), len(self._readouts.unexcited), dtype=change.dtype)
        return table.unexcited + tf.reduce_sum(change[:, :, None] * where, axis=1)

    def table(self, parameters: tf.Tensor) -> Table:
        """Return what the readouts of every possible excitation follow from."""
        found = self._readouts
        readouts, (qubits, most) = len(found.unexcited), found.reached.shape
        per_qubit = found.flipped, found.unexcited[found.reached], found.mixed
        places = np.concatenate([found.unexcited, *(part.ravel() for part in per_qubit)])
        every = fixed_rows(self._values(parameters)[:, None], self._places[places])[:, 0]
        unexcited, *parts = tf.split(every, [readouts, *[qubits * most] * 3])
        flipped, before, mixed = (tf.reshape(part, [qubits, most]) for part in parts)
        return Table(unexcited, as_input(found.reached), flipped - before, mixed)

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


class _Parts:
    """Parts of one shape, which are evolved as one batch."""

    def __init__(self, cones: Sequence[Cone]) -> None:
        self.cones = cones
        # One row a cone, one column a group of each.
        self.groups = [groups_of(cone) for cone in cones]
        # Of small parts they are kept: a program that makes them is a third longer.
        self._kept = None if cones[0].amplitudes > TOGETHER_AMPLITUDES else self._states()

    def densities(self, unitaries: Unitaries, forms: Sequence[tf.Tensor]) -> tf.Tensor:
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
            masks = excitations.flip_masks(qubits, cone.edges, range(cone.inner))
            every.append(excitations.spanning_states(qubits, cone.edges, tf.constant(masks), tf.float64))
        return together(every)


class _Kinds:
    """Kinds of readouts of one shape, whose values are put together as one batch."""

    def __init__(self, kinds: Sequence[Split], parts: Sequence[_Parts]) -> None:
        self.kinds = kinds
        self.absorbed = [absorbed(kind) for kind in kinds]
        where = {cone.key: (number, row) for number, alike in enumerate(parts) for row, cone in enumerate(alike.cones)}
        # One row a kind, one column each of its parts: the batch of parts, and the row there.
        self._where = [[where[part.cone.key] for part in kind.parts] for kind in kinds]
        self.rows = max(1 + 2 * part.cone.inner for kind in kinds for part in kind.parts)

    def values(self, unitaries: Unitaries, matrices: Sequence[tf.Tensor], densities: Sequence[tf.Tensor]) -> tf.Tensor:
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
