"""Windows: readouts of shallow circuits from the few qubits that each depends on, exactly.

A readout's light cone is split where its last gates, taken into the observable, leave independent parts
(`cones`). Each kind of part is evolved once a step, as the states that its samples span; a sample then only
picks numbers, and changes no more than the readouts that its qubit can reach.
"""

import dataclasses
import functools
import itertools
import math
import string
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer.errors import ConfigError
from trainer.simulators import cones, excitations
from trainer.simulators.blocks import Matrices, fuse
from trainer.simulators.cones import Cone, Split
from trainer.simulators.cost import Cost, evolution, in_words
from trainer.simulators.evolution import Group, collect, evolve, unitary
from trainer.simulators.gates import Network
from trainer.simulators.interface import Batch, Limits, Table
from trainer.simulators.rows import rows_at

# Parts are small: they are evolved in complex128, whatever state vectors are.
_REAL_BYTES = 8
# States that the sweeps hold at a time, and their density matrices. Measured.
_COPIES = 8
# Kernels of its observable and of putting its parts together, forward and back. Counted in a compiled program.
_KERNELS_OF_A_KIND = 40
_Z = np.diag([1.0 + 0j, -1.0])


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
        self._parts: dict[tuple[object, ...], Cone] = {}
        for kind in self._readouts.kinds:
            for part in kind.parts:
                self._parts.setdefault(part.cone.key, part.cone)
        blocks = {key: fuse(reversed(cone.gates)) for key, cone in self._parts.items()}
        self._absorbed = [
            Group(tuple(range(kind.targets)), tuple(fuse(kind.absorbed))) for kind in self._readouts.kinds
        ]
        absorbed = (block for group in self._absorbed for block in group.blocks)
        self._matrices = Matrices([*itertools.chain(*blocks.values()), *absorbed], network.parameters)
        self._groups = {key: collect(evolved) for key, evolved in blocks.items()}

    def by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: one of each kind of window serves all qubits."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Return Z on the readouts, float32 (batch, readouts)."""
        table = self.table(parameters)
        most = table.reached.shape[1]
        # One row for each qubit first: each sample then adds up a row instead of single numbers.
        rows = rows_at(tf.concat([table.flipped, table.mixed], axis=1), batch.qubit)
        flip_share, mix_share = excitations.shares(batch.angle)
        change = flip_share[:, None] * rows[:, :most] + mix_share[:, None] * rows[:, most:]
        where = tf.one_hot(tf.gather(table.reached, batch.qubit), len(self._readouts.unexcited), dtype=change.dtype)
        return tf.cast(table.unexcited + tf.reduce_sum(change[:, :, None] * where, axis=1), tf.float32)

    def table(self, parameters: tf.Tensor) -> Table:
        """Return what the readouts of every possible sample follow from."""
        found = self._readouts
        readouts, (qubits, most) = len(found.unexcited), found.reached.shape
        per_qubit = found.flipped, found.unexcited[found.reached], found.mixed
        places = np.concatenate([found.unexcited, *(part.ravel() for part in per_qubit)])
        every = rows_at(self._values(parameters)[:, None], places)[:, 0]
        unexcited, *parts = tf.split(every, [readouts, *[qubits * most] * 3])
        flipped, before, mixed = (tf.reshape(part, [qubits, most]) for part in parts)
        return Table(unexcited, tf.constant(found.reached), flipped - before, mixed)

    def _values(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return the values of all kinds, float64, as `Readouts` orders them."""
        matrices = self._matrices(parameters)
        densities = {
            key: _densities(cone, self._groups[key], self._matrices, matrices) for key, cone in self._parts.items()
        }
        rows = [
            _kind_values(kind, unitary(absorbed, self._matrices, matrices), [densities[p.cone.key] for p in kind.parts])
            for kind, absorbed in zip(self._readouts.kinds, self._absorbed, strict=True)
        ]
        return tf.concat([*rows, tf.zeros([1], tf.float64)], axis=0)


def _densities(cone: Cone, groups: Sequence[Group], blocks: Matrices, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the targets' density matrices, complex128 (rows, d, d): unexcited, flipped and mixed for each qubit."""
    qubits = cone.inner + cone.outer
    masks = excitations.flip_masks(qubits, cone.edges, range(cone.inner))
    states = excitations.spanning_states(qubits, cone.edges, tf.constant(masks), tf.float64)
    final = evolve(groups, states, blocks, matrices)
    rows = tf.reshape(tf.complex(final[..., 0], final[..., 1]), [1 + cone.inner, 2**cone.targets, -1])
    own = tf.matmul(rows, rows, adjoint_b=True)
    across = 1j * tf.matmul(rows[:1], rows[1:], adjoint_b=True)
    return tf.concat([own, across + tf.linalg.adjoint(across)], axis=0)


def _kind_values(kind: Split, absorbed: tf.Tensor, densities: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return a kind's row of values, float64, from the densities of its parts."""
    z = np.kron(_Z, np.eye(2 ** (kind.targets - 1)))
    observable = tf.linalg.adjoint(absorbed) @ tf.constant(z) @ absorbed
    # The parts' targets together, part by part.
    order = [target for part in kind.parts for target in part.targets]
    axes = [*order, *(kind.targets + target for target in order)]
    sizes = [2 ** len(part.targets) for part in kind.parts]
    parted = tf.reshape(tf.transpose(tf.reshape(observable, [2] * (2 * kind.targets)), axes), sizes * 2)
    flipped, mixed = [], []
    for number, (part, density) in enumerate(zip(kind.parts, densities, strict=True)):
        values = _expectation(parted, number, [other[0] for other in densities], density)
        unexcited = values[:1]
        flipped.append(values[1 : 1 + part.cone.inner])
        mixed.append(values[1 + part.cone.inner :])
    return tf.concat([unexcited, *flipped, *mixed], axis=0)


def _expectation(observable: tf.Tensor, number: int, unexcited: Sequence[tf.Tensor], density: tf.Tensor) -> tf.Tensor:
    """Return the expectation, float64 (rows,), with part `number` in each of the rows and the others unexcited."""
    count = len(unexcited)
    rows, columns = string.ascii_lowercase[:count], string.ascii_uppercase[:count]
    inputs = [columns[part] + rows[part] for part in range(count)]
    inputs[number] = "z" + inputs[number]
    factors = [density if part == number else unexcited[part] for part in range(count)]
    return tf.math.real(tf.einsum(f"{rows}{columns},{','.join(inputs)}->z", observable, *factors))
