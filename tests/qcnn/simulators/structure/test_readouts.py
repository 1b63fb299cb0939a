"""Distinct readouts of a network, and places of their parts."""

from typing import Any

import pytest

from qcnn.circuits.preparation import Preparation
from qcnn.simulators.structure import light_cones
from qcnn.simulators.structure.gates import read_model
from qcnn.simulators.structure.readouts import find_products, find_readouts


@pytest.mark.parametrize(("qubits", "kinds"), [(24, 2), (64, 2), (1024, 2), (23, 5), (203, 5)])
def test_find_readouts_kinds_are_independent_of_ring_length(qubits: int, kinds: int) -> None:
    readouts = find_readouts(read_model("hybrid", qubits)[1])
    assert len(readouts.kinds) == kinds
    # A sample changes only a few readouts.
    assert readouts.reached.shape == (qubits, 4 if kinds == 2 else 5)


@pytest.mark.parametrize(("even", "odd"), [(64, 63), (1024, 1023)])
def test_find_readouts_relabels_few_cones(even: int, odd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    canonical = light_cones._canonical

    def count_calls(*arguments: Any) -> Any:
        calls.append(arguments)
        return canonical(*arguments)

    monkeypatch.setattr(light_cones, "_canonical", count_calls)
    for qubits, maximum in ((even, 60), (odd, 100)):
        calls.clear()
        find_readouts(read_model("hybrid", qubits)[1])
        assert len(calls) < maximum


@pytest.mark.parametrize(
    ("qubits", "features", "places"),
    [
        # Each readout has one part in each half of the ring, of four qubits each.
        (24, 24, [12, 12]),
        (1024, 1024, [512, 512]),
        # Parts that no feature reaches are equal.
        (1024, 8, [6, 6]),
        (1024, 1, [3, 3]),
    ],
)
def test_find_products_places_parts_once_per_feature_assignment(qubits: int, features: int, places: list[int]) -> None:
    _, network = read_model("hybrid", qubits, Preparation("ry", features))
    found = find_products(network)
    assert [len(part.places) for part in found.parts] == places
    assert {(part.cone.inner, part.cone.outer) for part in found.parts} == {(4, 0)}
    assert len(found.readouts) == qubits // 2


def test_find_products_places_contain_feature_indices() -> None:
    _, network = read_model("hybrid", 16, Preparation("ry", 6))
    places = {place for part in find_products(network).parts for place in part.places}
    # The places of four adjacent qubits in any order. Qubits from index 6 on have no feature.
    rings = [{min((first + step) % 16, 6) for step in range(4)} for first in range(16)]
    assert {frozenset(place) for place in places} <= {frozenset(ring) for ring in rings}
    assert {feature for place in places for feature in place} == set(range(7))


def test_find_products_merges_equal_readouts() -> None:
    _, network = read_model("hybrid", 64, Preparation("rz", 4))
    found = find_products(network)
    values = sum(len(kind.places) for kind in found.kinds)
    assert values < len(network.readouts) / 2
    assert len(set(found.readouts)) == values
