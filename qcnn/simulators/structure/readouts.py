"""Every readout of a network split into independent parts, equal ones once, and which samples change it."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from qcnn.circuits.preparation import ring_edges
from qcnn.simulators.structure import light_cones
from qcnn.simulators.structure.gate_fusion import GateGroup, fuse, group_blocks
from qcnn.simulators.structure.gates import CircuitIR
from qcnn.simulators.structure.light_cones import Factorization, LightCone

# Parts of up to so many amplitudes are evolved as one batch. Measured.
TOGETHER_AMPLITUDES = 2**10

Places: TypeAlias = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True)
class ReadoutPlan:
    """Every readout's kind, and what a sample on a qubit changes.

    Values of all kinds stand in one row: kind k's, from `start[k]` on, are its unexcited value, then those with
    each qubit of its parts flipped, then the mixed ones (`qcnn.simulators.data_states`); last of all a zero.
    """

    kinds: tuple[Factorization, ...]
    unexcited: Places  # int32 (readouts,): the value's place
    reached: Places  # int32 (qubits, most): readouts that the qubit reaches, filled up with 0
    flipped: Places  # int32 (qubits, most): the place of the flipped value; the unexcited where filled up
    mixed: Places  # int32 (qubits, most): the place of the mixed value; that of zero where filled up


@dataclasses.dataclass(frozen=True)
class ReadoutClasses:
    """The kinds of a network's readouts, and for each readout the number of its kind and the qubits of its cone."""

    kinds: tuple[Factorization, ...]
    readouts: tuple[tuple[int, tuple[int, ...]], ...]


# Estimates for several batches, and the simulator itself, ask for the same.
@functools.lru_cache(maxsize=1)
def find_kinds(network: CircuitIR) -> ReadoutClasses:
    """Split every readout of a network; equal ones once. Only excitations are on states whose qubits CZ joins.

    Raises:
        TooWideError: a light cone holds more qubits than could ever be evolved.
    """
    edges = ring_edges(network.qubits) if network.preparation.kind == "excitation" else []
    lattice = light_cones.CircuitIndex(network.gates, edges)
    splits: list[Factorization] = []
    numbers: dict[tuple[object, ...], int] = {}
    # Most cones were seen before, and are recognised by identity.
    kind_of: dict[int, int] = {}
    readouts = []
    for readout in network.readouts:
        cone, where = lattice.cone(readout)
        if id(cone) not in kind_of:
            if cone.key not in numbers:
                numbers[cone.key] = len(splits)
                splits.append(light_cones.split(cone))
            kind_of[id(cone)] = numbers[cone.key]
        readouts.append((kind_of[id(cone)], where))
    return ReadoutClasses(tuple(splits), tuple(readouts))


@functools.lru_cache(maxsize=1)
def find_readouts(network: CircuitIR) -> ReadoutPlan:
    """Split every readout of a network of excitations, and number the values that samples change.

    Raises:
        TooWideError: a light cone holds more qubits than could ever be evolved.
    """
    found = find_kinds(network)
    kinds: list[_Kind] = []
    for split in found.kinds:
        kinds.append(_Kind(split, kinds[-1].end if kinds else 0))
    places: list[list[tuple[int, int, int]]] = [[] for _ in range(network.qubits)]
    unexcited, end = [], kinds[-1].end
    for number, (kind_number, where) in enumerate(found.readouts):
        kind = kinds[kind_number]
        unexcited.append(kind.start)
        for slot, label in enumerate(kind.reached, start=kind.start + 1):
            places[where[label]].append((number, slot, slot + len(kind.reached)))
    most = max(map(len, places))
    filled = [[*place, *[(0, unexcited[0], end)] * (most - len(place))] for place in places]
    table = np.array(filled, np.int32)
    return ReadoutPlan(found.kinds, np.array(unexcited, np.int32), table[..., 0], table[..., 1], table[..., 2])


class _Kind:
    """Of a kind of readout, the labels of the qubits that reach it, and where its values start and end."""

    def __init__(self, split: Factorization, start: int) -> None:
        self.reached = [label for part in split.parts for label in part.labels[: part.cone.inner]]
        self.start, self.end = start, start + 1 + 2 * len(self.reached)


def groups_of(cone: LightCone) -> list[GateGroup]:
    """Return a cone's gates in groups, first the one that acts first."""
    return group_blocks(fuse(reversed(cone.gates)))


def absorbed_gates(kind: Factorization) -> GateGroup:
    """Return the gates that a kind's observable takes in, as one group on all of its targets."""
    return GateGroup(tuple(range(kind.targets)), tuple(fuse(kind.absorbed)))


def alike_parts(kinds: Iterable[Factorization]) -> list[list[LightCone]]:
    """Return the parts of all kinds, equal ones once, those together that are evolved as one batch."""
    parts = {part.cone.key: part.cone for kind in kinds for part in kind.parts}
    return alike(parts.values(), shape_of_part)


def alike_kinds(kinds: Iterable[Factorization]) -> list[list[Factorization]]:
    """Return the kinds, those together whose values are put together as one batch."""
    return alike(kinds, shape_of_kind)


_Item = TypeVar("_Item")


def alike(items: Iterable[_Item], shape: Callable[[_Item], object]) -> list[list[_Item]]:
    """Return the items of each shape together."""
    found: dict[object, list[_Item]] = {}
    for item in items:
        found.setdefault(shape(item), []).append(item)
    return list(found.values())


def shape_of_kind(kind: Factorization) -> object:
    """Return what kinds share whose values are put together as one batch."""
    return kind.targets, tuple(part.targets for part in kind.parts)


def shape_of_part(cone: LightCone) -> object:
    """Return what parts share that are evolved as one batch."""
    # Of large parts, each by itself takes less time.
    if cone.amplitudes > TOGETHER_AMPLITUDES:
        return cone.key
    return cone.targets, cone.inner, cone.outer, tuple(group.qubits for group in groups_of(cone))


@dataclasses.dataclass(frozen=True)
class PlacedFactor:
    """A part, and for each of its places which feature turns each qubit; the number of features stands for none."""

    cone: LightCone
    places: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class PlacedReadout:
    """A kind of readout, the numbers of its parts, and for each of its places at which of theirs its parts are."""

    split: Factorization
    parts: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class ProductReadoutPlan:
    """What readouts are put together from, and for each readout the numbers of its kind and of that one's place."""

    parts: tuple[PlacedFactor, ...]
    kinds: tuple[PlacedReadout, ...]
    readouts: tuple[tuple[int, int], ...]

    @property
    def alike_parts(self) -> list[list[int]]:
        """The numbers of the parts, those together that are evolved as one batch."""
        shapes = [(shape_of_part(part.cone), len(part.places)) for part in self.parts]
        return alike(range(len(shapes)), shapes.__getitem__)

    @property
    def alike_kinds(self) -> list[list[int]]:
        """The numbers of the kinds, those together whose values are put together as one batch."""
        shapes = [(shape_of_kind(kind.split), len(kind.places)) for kind in self.kinds]
        return alike(range(len(shapes)), shapes.__getitem__)


# Estimates for several batches, and the simulator itself, ask for the same.
@functools.lru_cache(maxsize=1)
def find_products(network: CircuitIR) -> ProductReadoutPlan:
    """Place the readouts of a network whose features turn its first qubits.

    Raises:
        TooWideError: a light cone holds more qubits than could ever be evolved.
    """
    found, features = find_kinds(network), network.preparation.features
    cones = {part.cone.key: part.cone for split in found.kinds for part in split.parts}
    numbers = {key: number for number, key in enumerate(cones)}
    parts = [tuple(numbers[part.cone.key] for part in split.parts) for split in found.kinds]
    of_parts: list[dict[tuple[int, ...], int]] = [{} for _ in cones]
    of_kinds: list[dict[tuple[int, ...], int]] = [{} for _ in found.kinds]
    values = []
    for kind, where in found.readouts:
        place = []
        for number, part in zip(parts[kind], found.kinds[kind].parts, strict=True):
            turned = tuple(min(where[label], features) for label in part.labels[: part.cone.inner])
            place.append(of_parts[number].setdefault(turned, len(of_parts[number])))
        values.append((kind, of_kinds[kind].setdefault(tuple(place), len(of_kinds[kind]))))
    return ProductReadoutPlan(
        parts=tuple(map(PlacedFactor, cones.values(), map(tuple, of_parts))),
        kinds=tuple(map(PlacedReadout, found.kinds, parts, map(tuple, of_kinds))),
        readouts=tuple(values),
    )
