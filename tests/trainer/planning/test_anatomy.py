import cirq
import pytest

from qcnn.trainer.planning.anatomy import anatomy, kind_of
from qcnn.trainer.quantum.ansatz import Ansatz, ring
from qcnn.trainer.simulators.interface import Limits
from qcnn.trainer.simulators.registry import SIMULATORS
from qcnn.trainer.simulators.structure.gates import read_model, read_network

LIMITS = Limits(memory=2**31, batch=32)


def test_counts_what_stands_there_and_what_simulators_fuse() -> None:
    a, b, c, d = ring(4)
    # On the first two qubits three gates follow each other, which are one block.
    circuit = cirq.Circuit(cirq.H(a), cirq.CNOT(a, b), cirq.X(b) ** 0.3, cirq.Y(c), cirq.CNOT(b, c))
    found = anatomy(read_network(Ansatz(circuit, (), (c, d)), ring(4)), LIMITS)
    assert found.gates == {"CX": 2, "H": 1, "XPow": 1, "Y": 1}
    assert (found.depth, found.fused_depth, found.blocks) == (4, 2, 2)
    assert (found.qubits, found.parameters, found.readouts) == (4, (), (2, 3))
    # What the first readout depends on, and the second alone, each with the neighbours that CZ joins to it.
    assert found.cones == ((4,), (3,))


def test_names_the_simulator_that_plan_names() -> None:
    found = anatomy(read_model("hybrid", 64)[1], LIMITS)
    assert found.chosen
    assert found.chosen.simulator == "window"
    assert [estimate.simulator for estimate in found.estimates] == list(SIMULATORS)


def test_says_why_none_takes_it() -> None:
    found = anatomy(read_model("deep", 512)[1], LIMITS)
    assert (found.chosen, found.cones) == (None, None)
    assert found.refusal.startswith("qubits: no simulator can run this circuit in 2 GiB (memory_gib); ")


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (cirq.X(ring(1)[0]), "X"),
        (cirq.S(ring(1)[0]), "ZPow"),
        (cirq.ry(0.3)(ring(1)[0]), "Ry"),
        (cirq.CCX(*ring(3)), "CCX"),
        (cirq.H(ring(2)[0]).controlled_by(ring(2)[1]), "Controlled HPow"),
        (cirq.MatrixGate(cirq.unitary(cirq.T))(ring(1)[0]).with_tags("a"), "Matrix"),
    ],
)
def test_kinds_are_named_whatever_their_numbers(operation: cirq.Operation, kind: str) -> None:
    assert kind_of(operation) == kind
