"""Factorization of the distinct readouts of a network, and the readouts that each sample changes."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from qcnn.circuits.preparation import ring_edges
from qcnn.simulators.structure import light_cones
from qcnn.simulators.structure.gate_fusion import GateGroup, fuse, group_blocks
from qcnn.simulators.structure.light_cones import Factorization, LightCone
from qcnn.simulators.structure.measurement_gates import measurement_gates, target_of
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.structure.pauli_strings import PauliString

# Maximum number of amplitudes of parts that are evolved as one batch. Measured.
BATCHED_AMPLITUDES = 2**10

Places: TypeAlias = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True)
class ReadoutPlan:
    """Distinct readouts of a network of excitations, and indices of the values that each qubit changes.

    The values of all distinct readouts (`kinds`) form one array. Each has its unexcited value, one flipped value per
    qubit of its parts, and one mixed value per qubit (`qcnn.simulators.data_states`). The array ends with a zero.

    Attributes:
        kinds: Distinct readouts.
        unexcited: int32 (readouts,), index of the unexcited value.
        reached: int32 (qubits, columns), readouts that the qubit reaches, padded with 0.
        flipped: int32 (qubits, columns), index of the flipped value, padded with that of the unexcited value.
        mixed: int32 (qubits, columns), index of the mixed value, padded with that of the zero.
    """

    kinds: tuple[Factorization, ...]
    unexcited: Places
    reached: Places
    flipped: Places
    mixed: Places


@dataclasses.dataclass(frozen=True)
class ReadoutClasses:
    """Distinct readouts of a network.

    Attributes:
        kinds: Factorizations of the distinct readouts.
        readouts: For each readout the index of its kind and the qubits of its light cone.
    """

    kinds: tuple[Factorization, ...]
    readouts: tuple[tuple[int, tuple[int, ...]], ...]


# Cached, because the estimates for several batches and the simulator use the same result.
@functools.lru_cache(maxsize=1)
def find_kinds(network: CircuitIR) -> ReadoutClasses:
    """Factorize the distinct readouts of a network.

    Excitations are prepared on a graph state, whose CZ gates join qubits. Other preparations join no qubits.

    Raises:
        LightConeTooWideError: If a light cone has too many qubits for any memory.
    """
    edges = ring_edges(network.qubits) if network.preparation.kind == "excitation" else []
    index = light_cones.CircuitIndex(network.gates, edges)

    def cone_of(string: PauliString) -> tuple[LightCone, tuple[int, ...]]:
        if string.is_single_z:
            return index.cone(target_of(string))
        gates = (*network.gates, *measurement_gates(string))
        return light_cones.CircuitIndex(gates, edges).cone(target_of(string))

    splits: list[Factorization] = []
    numbers: dict[tuple[object, ...], int] = {}
    # Most cones are cached, and are compared by identity.
    kind_of: dict[int, tuple[LightCone, int]] = {}
    readouts = []
    for string in network.strings:
        cone, where = cone_of(string)
        if id(cone) not in kind_of:
            if cone.key not in numbers:
                numbers[cone.key] = len(splits)
                splits.append(light_cones.split(cone))
            kind_of[id(cone)] = cone, numbers[cone.key]
        readouts.append((kind_of[id(cone)][1], where))
    return ReadoutClasses(tuple(splits), tuple(readouts))


@functools.lru_cache(maxsize=1)
def find_readouts(network: CircuitIR) -> ReadoutPlan:
    """Factorize the readouts of a network of excitations, and index the values that samples change.

    Raises:
        LightConeTooWideError: If a light cone has too many qubits for any memory.
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
    width = max(map(len, places))
    filled = [[*place, *[(0, unexcited[0], end)] * (width - len(place))] for place in places]
    table = np.array(filled, np.int32)
    return ReadoutPlan(found.kinds, np.array(unexcited, np.int32), table[..., 0], table[..., 1], table[..., 2])


class _Kind:
    """Labels of the qubits that reach a distinct readout, and the index range of its values."""

    def __init__(self, split: Factorization, start: int) -> None:
        self.reached = [label for part in split.parts for label in part.labels[: part.cone.inner]]
        self.start, self.end = start, start + 1 + 2 * len(self.reached)


def groups_of(cone: LightCone) -> list[GateGroup]:
    """Return the groups of a cone's gates, in the order in which they act."""
    return group_blocks(fuse(reversed(cone.gates)))


def absorbed_gates(kind: Factorization) -> GateGroup:
    """Return the gates that an observable absorbs, as one group on all of its targets."""
    return GateGroup(tuple(range(kind.targets)), tuple(fuse(kind.absorbed)))


def parts_by_shape(kinds: Iterable[Factorization]) -> list[list[LightCone]]:
    """Return the distinct parts of readouts, grouped into batches that are evolved together."""
    parts = {part.cone.key: part.cone for kind in kinds for part in kind.parts}
    return group_by_shape(parts.values(), shape_of_part)


def readouts_by_shape(kinds: Iterable[Factorization]) -> list[list[Factorization]]:
    """Return distinct readouts, grouped into batches whose values are combined together."""
    return group_by_shape(kinds, shape_of_kind)


_Item = TypeVar("_Item")


def group_by_shape(items: Iterable[_Item], shape: Callable[[_Item], object]) -> list[list[_Item]]:
    """Group items by shape, in the order of first appearance."""
    groups: dict[object, list[_Item]] = {}
    for item in items:
        groups.setdefault(shape(item), []).append(item)
    return list(groups.values())


def shape_of_kind(kind: Factorization) -> object:
    """Return the shape of a readout, which is equal for readouts that are combined as one batch."""
    return kind.targets, tuple(part.targets for part in kind.parts)


def shape_of_part(cone: LightCone) -> object:
    """Return the shape of a part, which is equal for parts that are evolved as one batch."""
    # Large parts are faster without batching.
    if cone.amplitudes > BATCHED_AMPLITUDES:
        return cone.key
    return cone.targets, cone.inner, cone.outer, tuple(group.qubits for group in groups_of(cone))


@dataclasses.dataclass(frozen=True)
class PlacedFactor:
    """A part with the features that rotate its qubits.

    Attributes:
        cone: Light cone of the part.
        places: For each place the feature index of each qubit. The number of features means no feature.
    """

    cone: LightCone
    places: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class PlacedReadout:
    """A distinct readout with the places of its parts.

    Attributes:
        split: Factorization of the readout.
        parts: Indices of its parts.
        places: For each place of the readout the place of each part.
    """

    split: Factorization
    parts: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class ProductReadoutPlan:
    """Parts and distinct readouts of a network on product states.

    Attributes:
        parts: Distinct parts.
        kinds: Distinct readouts.
        readouts: For each readout the index of its kind and its place.
    """

    parts: tuple[PlacedFactor, ...]
    kinds: tuple[PlacedReadout, ...]
    readouts: tuple[tuple[int, int], ...]

    @property
    def parts_by_shape(self) -> list[list[int]]:
        """Indices of the parts, grouped into batches that are evolved together."""
        shapes = [(shape_of_part(part.cone), len(part.places)) for part in self.parts]
        return group_by_shape(range(len(shapes)), shapes.__getitem__)

    @property
    def kinds_by_shape(self) -> list[list[int]]:
        """Indices of the distinct readouts, grouped into batches whose values are combined together."""
        shapes = [(shape_of_kind(kind.split), len(kind.places)) for kind in self.kinds]
        return group_by_shape(range(len(shapes)), shapes.__getitem__)


# Cached, because the estimates for several batches and the simulator use the same result.
@functools.lru_cache(maxsize=1)
def find_products(network: CircuitIR) -> ProductReadoutPlan:
    """Factorize the readouts of a network whose features rotate its first qubits.

    Raises:
        LightConeTooWideError: If a light cone has too many qubits for any memory.
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
            rotations = tuple(min(where[label], features) for label in part.labels[: part.cone.inner])
            place.append(of_parts[number].setdefault(rotations, len(of_parts[number])))
        values.append((kind, of_kinds[kind].setdefault(tuple(place), len(of_kinds[kind]))))
    return ProductReadoutPlan(
        parts=tuple(map(PlacedFactor, cones.values(), map(tuple, of_parts))),
        kinds=tuple(map(PlacedReadout, found.kinds, parts, map(tuple, of_kinds))),
        readouts=tuple(values),
    )
