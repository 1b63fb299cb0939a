import cirq
import pytest

from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.drawing import MAX_QUBITS, draw


def test_small_circuit_is_drawn_completely() -> None:
    ansatz = circuits.build("hybrid", 5)
    drawing = draw(ansatz)
    assert drawing.title == "5 qubits, 21 parameters, 3 readouts"
    assert all(f"^{symbol}" in drawing.text or f"-{symbol}" in drawing.text for symbol in ansatz.symbols)
    # Five two-qubit convolutions, each with one ZZ.
    assert drawing.text.count("ZZ^s6") == 5
    assert drawing.image.shape[2] == 3
    assert drawing.image.min() < 100 < drawing.image.max()


@pytest.mark.parametrize("qubits", [3, MAX_QUBITS + 1])
def test_readout_qubits_without_gates_are_counted(qubits: int) -> None:
    first, *others = ring(qubits)
    drawing = draw(Ansatz(cirq.Circuit(cirq.X.on_each(*others)), (), (first,)))
    assert drawing.title.startswith(f"{qubits} qubits, 0 parameters, 1 readouts")
    assert drawing.image.shape[2] == 3


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_large_circuit_is_drawn_as_light_cone(model: str) -> None:
    ansatz = circuits.build(model, 1024)
    drawing = draw(ansatz)
    assert drawing.title.startswith("1024 qubits, ")
    assert f"drawn: what readout {ansatz.readouts[0]} depends on" in drawing.title
    height, width, _ = drawing.image.shape
    assert height < 1000
    assert width < 4000
    wires = [line.split(":")[0] for line in drawing.text.splitlines() if line.startswith("(")]
    assert 2 <= len(wires) <= MAX_QUBITS
    assert str(ansatz.readouts[0]).removeprefix("q") in wires
    assert len(drawing.text) < 100_000
