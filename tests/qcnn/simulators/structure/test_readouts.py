"""Readouts of a network: few kinds on a ring of any length."""

from typing import Any

import pytest

from qcnn.circuits.preparation import Preparation
from qcnn.simulators.structure import light_cones
from qcnn.simulators.structure.gates import read_model
from qcnn.simulators.structure.readouts import find_products, find_readouts


@pytest.mark.parametrize(("qubits", "kinds"), [(24, 2), (64, 2), (1024, 2), (23, 5), (203, 5)])
def test_kinds_of_readouts_do_not_grow_with_the_ring(qubits: int, kinds: int) -> None:
    readouts = find_readouts(read_model("hybrid", qubits)[1])
    assert len(readouts.kinds) == kinds
    # Of a sample, a few readouts change.
    assert readouts.reached.shape == (qubits, 4 if kinds == 2 else 5)


@pytest.mark.parametrize(("even", "odd"), [(64, 63), (1024, 1023)])
def test_a_cone_is_looked_into_once_a_kind_and_at_the_seam(
    even: int, odd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_into = []
    canonical = light_cones._canonical

    def counted(*arguments: Any) -> Any:
        looked_into.append(arguments)
        return canonical(*arguments)

    monkeypatch.setattr(light_cones, "_canonical", counted)
    for qubits, most in ((even, 60), (odd, 100)):
        looked_into.clear()
        find_readouts(read_model("hybrid", qubits)[1])
        assert len(looked_into) < most


@pytest.mark.parametrize(
    ("qubits", "features", "places"),
    [
        # Of each readout one part of the first half of the ring and one of the second, four qubits each.
        (24, 24, [12, 12]),
        (1024, 1024, [512, 512]),
        # A part that no feature reaches is one wherever it stands.
        (1024, 8, [6, 6]),
        (1024, 1, [3, 3]),
    ],
)
def test_parts_are_evolved_once_for_each_way_in_which_features_turn_their_qubits(
    qubits: int, features: int, places: list[int]
) -> None:
    _, network = read_model("hybrid", qubits, Preparation("ry", features))
    found = find_products(network)
    assert [len(part.places) for part in found.parts] == places
    assert {(part.cone.inner, part.cone.outer) for part in found.parts} == {(4, 0)}
    assert len(found.readouts) == qubits // 2


def test_places_name_the_features_of_a_parts_qubits() -> None:
    _, network = read_model("hybrid", 16, Preparation("ry", 6))
    places = {place for part in find_products(network).parts for place in part.places}
    # The places of four neighbours on the ring in some order, of which qubits from the sixth on have no feature.
    rings = [{min((first + step) % 16, 6) for step in range(4)} for first in range(16)]
    assert {frozenset(place) for place in places} <= {frozenset(ring) for ring in rings}
    assert {feature for place in places for feature in place} == set(range(7))


def test_readouts_that_equal_features_prepare_are_one_value() -> None:
    _, network = read_model("hybrid", 64, Preparation("rz", 4))
    found = find_products(network)
    values = sum(len(kind.places) for kind in found.kinds)
    assert values < len(network.readouts) / 2
    assert len(set(found.readouts)) == values
