"""Readouts of a network: few kinds on a ring of any length."""

from typing import Any

import pytest

from qcnn.trainer.simulators.structure import cones
from qcnn.trainer.simulators.structure.gates import read_model
from qcnn.trainer.simulators.structure.readouts import find_readouts


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
    canonical = cones._canonical

    def counted(*arguments: Any) -> Any:
        looked_into.append(arguments)
        return canonical(*arguments)

    monkeypatch.setattr(cones, "_canonical", counted)
    for qubits, most in ((even, 60), (odd, 100)):
        looked_into.clear()
        find_readouts(read_model("hybrid", qubits)[1])
        assert len(looked_into) < most
