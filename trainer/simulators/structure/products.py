"""Every readout of a network on product states: parts and readouts that equal features prepare, once."""

import dataclasses
import functools

from qcnn.trainer.simulators.structure.cones import Cone, Split
from qcnn.trainer.simulators.structure.gates import Network
from qcnn.trainer.simulators.structure.readouts import alike, find_kinds, shape_of_kind, shape_of_part


@dataclasses.dataclass(frozen=True)
class PlacedPart:
    """A part, and for each of its places which feature turns each qubit; the number of features stands for none."""

    cone: Cone
    places: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class PlacedKind:
    """A kind of readout, the numbers of its parts, and for each of its places at which of theirs its parts are."""

    split: Split
    parts: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class Products:
    """What readouts are put together from, and for each readout the numbers of its kind and of that one's place."""

    parts: tuple[PlacedPart, ...]
    kinds: tuple[PlacedKind, ...]
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
def find_products(network: Network) -> Products:
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
    return Products(
        parts=tuple(map(PlacedPart, cones.values(), map(tuple, of_parts))),
        kinds=tuple(map(PlacedKind, found.kinds, parts, map(tuple, of_kinds))),
        readouts=tuple(values),
    )
