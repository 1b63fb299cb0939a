"""Windows: readouts of shallow circuits from the few qubits that each depends on, exactly.

A readout's light cone is split where its last gates, taken into the observable, leave independent parts
(`cones`). Each kind of part is evolved once a step, as the states that its samples span; a sample then only
picks numbers, and changes no more than the readouts that its qubit can reach.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer.errors import ConfigError
from trainer.simulators import cones, excitations
from trainer.simulators.blocks import fuse
from trainer.simulators.cones import Cone, Split
from trainer.simulators.cost import Cost, evolution, in_words
from trainer.simulators.evolution import Group, Unitaries, collect, evolve, on_last, real_forms
from trainer.simulators.gates import Network
from trainer.simulators.interface import Batch, Limits, Table
from trainer.simulators.rows import as_input, fixed_rows, rows_at

# Parts are small: they are evolved in complex128, whatever state vectors are.
_REAL_BYTES = 8
# States that the sweeps hold at a time, and their density matrices. Measured.
_COPIES = 8
# Kernels of its observable and of putting its parts together, forward and back. Counted in a compiled program.
_KERNELS_OF_A_KIND = 40
# Parts of up to so many amplitudes are evolved as one batch. Measured.
_FEW_AMPLITUDES = 2**10


Places: TypeAlias = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True)
class Readouts:
    """Every readout's kind, and what a sample on a qubit changes.

    Values of all kinds stand in one row: kind k's, from `start[k]` on, are its unexcited value, then those with
    each qubit of its parts flipped, then the mixed ones (`excitations`); last of all a zero.
    """

    kinds: tuple[Split, ...]
    unexcited: Places  # int32 (readouts,): the value's place
    reached: Places  # int32 (qubits, most): readouts that the qubit reaches, filled up with 0
    flipped: Places  # int32 (qubits, most): the place of the flipped value; the unexcited where filled up
    mixed: Places  # int32 (qubits, most): the place of the mixed value; that of zero where filled up


# Estimates for several batches, and the simulator itself, ask for the same.
@functools.lru_cache(maxsize=1)
def find_readouts(network: Network) -> Readouts:
    """Split every readout of a network; equal ones once.

    Raises:
        TooWideError: a light cone holds more qubits than could ever be evolved.
    """
    lattice = cones.Lattice(network.gates, excitations.ring_edges(network.qubits))
    kinds: dict[tuple[object, ...], _Kind] = {}
    # Most cones were seen before, and are recognised by identity.
    kind_of: dict[int, _Kind] = {}
    places: list[list[tuple[int, int, int]]] = [[] for _ in range(network.qubits)]
    unexcited, end = [], 0
    for number, readout in enumerate(network.readouts):
        cone, where = lattice.cone(readout)
        if id(cone) not in kind_of:
            if cone.key not in kinds:
                kinds[cone.key] = _Kind(cone, end)
                end = kinds[cone.key].end
            kind_of[id(cone)] = kinds[cone.key]
        kind = kind_of[id(cone)]
        unexcited.append(kind.start)
        for slot, label in enumerate(kind.reached, start=kind.start + 1):
            places[where[label]].append((number, slot, slot + len(kind.reached)))
    most = max(map(len, places))
    filled = [[*place, *[(0, unexcited[0], end)] * (most - len(place))] for place in places]
    table = np.array(filled, np.int32)
    splits = tuple(kind.split for kind in kinds.values())
    return Readouts(splits, np.array(unexcited, np.int32), table[..., 0], table[..., 1], table[..., 2])


class _Kind:
    """A kind of readout: its split, the labels of the qubits that reach it, and where its values start and end."""

    def __init__(self, cone: Cone, start: int) -> None:
        self.split = cones.split(cone)
        self.reached = [label for part in self.split.parts for label in part.labels[: part.cone.inner]]
        self.start, self.end = start, start + 1 + 2 * len(self.reached)


def estimate(network: Network, limits: Limits) -> Cost:
    """Return the cost of a training step, one sample a reached readout included."""
    try:
        readouts = find_readouts(network)
    except cones.TooWideError:
        return Cost(memory=math.inf)
    parts = {part.cone.key: part.cone for kind in readouts.kinds for part in kind.parts}.values()
    total = Cost(kernels=_KERNELS_OF_A_KIND * len(readouts.kinds))
    for cone in parts:
        total += evolution(collect(fuse(reversed(cone.gates))), cone.amplitudes, _REAL_BYTES)
    # Putting together: every sample reads what it reaches and writes all readouts, and the gradient does so again.
    reached, written = readouts.reached.shape[1], len(network.readouts)
    total += Cost(flops=4.0 * limits.share * reached * written, traffic=2.0 * 8 * limits.share * (reached + written))
    # The gradient adds up over all qubits what one value of a kind did: a product with a matrix of ones and zeros.
    ones = float(readouts.mixed.max()) * readouts.mixed.size
    total += Cost(flops=3 * 2 * ones, traffic=3 * 8 * ones)
    memory = sum(cone.amplitudes * 2.0 * _REAL_BYTES * _COPIES for cone in parts)
    return dataclasses.replace(total, memory=memory)


def create(network: Network, limits: Limits) -> "Window":
    """Create the simulator.

    Raises:
        ConfigError: the light cones do not fall into parts that fit.
    """
    need = estimate(network, limits).memory
    if need > limits.memory:
        raise ConfigError(
            f"qubits: the light cones of this circuit are too wide for simulator window, which needs "
            f"{in_words(need)}; memory_gib gives it {in_words(limits.memory)}. Given: {network.qubits}"
        )
    return Window(network)


class Window:
    """Evaluates every kind of independent part once, and puts the readouts of samples together from them."""

    name = "window"
    compiles = True
    large = False

    def __init__(self, network: Network) -> None:
        self.network = network
        self._readouts = find_readouts(network)
        kinds = self._readouts.kinds
        parts = {part.cone.key: part.cone for kind in kinds for part in kind.parts}
        self._parts = [_Parts(alike) for alike in _alike(parts.values(), _shape_of_part)]
        self._kinds = [_Kinds(alike, self._parts) for alike in _alike(kinds, _shape_of_kind)]
        groups = [group for parts in self._parts for every in parts.groups for group in every]
        absorbed = [group for kinds in self._kinds for group in kinds.absorbed]
        self._unitaries = Unitaries([*groups, *absorbed], network.parameters)
        self._places = self._places_of_values()

    def by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: one of each kind of window serves all qubits."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts)."""
        table = self.table(parameters)
        most = table.reached.shape[1]
        # One row for each qubit first: each sample then adds up a row instead of single numbers.
        rows = rows_at(tf.concat([table.flipped, table.mixed], axis=1), batch.qubit)
        flip_share, mix_share = excitations.shares(batch.angle)
        change = flip_share[:, None] * rows[:, :most] + mix_share[:, None] * rows[:, most:]
        where = tf.one_hot(tf.gather(table.reached, batch.qubit), len(self._readouts.unexcited), dtype=change.dtype)
        return table.unexcited + tf.reduce_sum(change[:, :, None] * where, axis=1)

    def table(self, parameters: tf.Tensor) -> Table:
        """Return what the readouts of every possible sample follow from."""
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


_Item = TypeVar("_Item")


def _alike(items: Iterable[_Item], shape: Callable[[_Item], object]) -> list[list[_Item]]:
    """Return the items of each shape together."""
    found: dict[object, list[_Item]] = {}
    for item in items:
        found.setdefault(shape(item), []).append(item)
    return list(found.values())


def _groups(cone: Cone) -> list[Group]:
    return collect(fuse(reversed(cone.gates)))


def _shape_of_part(cone: Cone) -> object:
    # Of large parts, each by itself takes less time.
    return cone.key if cone.amplitudes > _FEW_AMPLITUDES else _shape(cone)


def _together(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return a batch of tensors, or the only one as it is, whose products the compiler makes faster."""
    return tensors[0] if len(tensors) == 1 else tf.stack(tensors)


def _shape(cone: Cone) -> object:
    return cone.targets, cone.inner, cone.outer, tuple(group.qubits for group in _groups(cone))


def _shape_of_kind(kind: Split) -> object:
    return kind.targets, tuple(part.targets for part in kind.parts)


class _Parts:
    """Parts of one shape, which are evolved as one batch."""

    def __init__(self, cones: Sequence[Cone]) -> None:
        self.cones = cones
        # One row a cone, one column a group of each.
        self.groups = [_groups(cone) for cone in cones]
        # Of small parts they are kept: a program that makes them is a third longer.
        self._kept = None if cones[0].amplitudes > _FEW_AMPLITUDES else self._states()

    def densities(self, unitaries: Unitaries, forms: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the targets' matrices, complex128 (parts, rows, d, d): unexcited, flipped and mixed for each qubit.

        A mixed one is twice the product, whose Hermitian part is the density: an observable's value is the real part.
        """
        first = self.cones[0]
        qubits = first.inner + first.outer
        states = self._states() if self._kept is None else self._kept
        places = [group.qubits for group in self.groups[0]]
        columns = zip(*self.groups, strict=True)
        every = [
            on_last(_together([forms[unitaries.index(group)] for group in column]), len(column[0].qubits))
            for column in columns
        ]
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
        return _together(every)


class _Kinds:
    """Kinds of readouts of one shape, whose values are put together as one batch."""

    def __init__(self, kinds: Sequence[Split], parts: Sequence[_Parts]) -> None:
        self.kinds = kinds
        self.absorbed = [Group(tuple(range(kind.targets)), tuple(fuse(kind.absorbed))) for kind in kinds]
        where = {cone.key: (number, row) for number, alike in enumerate(parts) for row, cone in enumerate(alike.cones)}
        # One row a kind, one column each of its parts: the batch of parts, and the row there.
        self._where = [[where[part.cone.key] for part in kind.parts] for kind in kinds]
        self.rows = max(1 + 2 * part.cone.inner for kind in kinds for part in kind.parts)

    def values(self, unitaries: Unitaries, matrices: Sequence[tf.Tensor], densities: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the values, float64 (kinds, parts, rows), with each part in each of its rows and others unexcited."""
        first = self.kinds[0]
        size = 2**first.targets
        absorbed = tf.stack([matrices[unitaries.index(group)] for group in self.absorbed])[:, :size, :size]
        z = np.repeat([1.0 + 0j, -1.0], size // 2)[:, None]
        observable = tf.matmul(absorbed, z * absorbed, adjoint_a=True)
        # The two axes of each target, part by part: rows of its density's transpose.
        sides = [side + np.array(part.targets) for part in first.parts for side in (1 + first.targets, 1)]
        bits = tf.reshape(observable, [-1, *[2] * (2 * first.targets)])
        sizes = [4 ** len(part.targets) for part in first.parts]
        parted = tf.reshape(tf.transpose(bits, np.concatenate([[0], *sides])), [-1, *sizes])
        rows = [self._rows(densities, number) for number in range(len(sizes))]
        return tf.stack([_with_one_excited(parted, rows, number) for number in range(len(sizes))], axis=1)

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
