import functools

import cirq
import pytest
import sympy

from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.drawing import MAX_QUBITS, draw
from tests.calls import count_calls


def test_small_circuit_is_drawn_completely() -> None:
    ansatz = circuits.build("hybrid", 5)
    drawing = draw(ansatz)
    assert drawing.title == "5 qubits, 21 parameters, 3 readouts"
    assert all(f"^{symbol}" in drawing.text or f"-{symbol}" in drawing.text for symbol in ansatz.symbols)
    # Five two-qubit convolutions, each with one ZZ.
    assert drawing.text.count("ZZ^s6") == 5
    assert drawing.image.shape[2] == 3
    assert drawing.image.min() < 100 < drawing.image.max()
    # Drawing takes as long as a short trial, and the trials of a study have the same image.
    assert drawing.image is drawing.image
    assert not drawing.image.flags.writeable


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


def in_layers(count: int) -> Ansatz:
    """Return layers of a power of Y on each of 3 qubits, and CNOT gates around the ring."""
    qubits, symbols = ring(3), sympy.symbols(f"t0:{3 * count}")
    circuit = cirq.Circuit()
    for layer in range(count):
        circuit += [cirq.Y(qubit) ** symbols[3 * layer + number] for number, qubit in enumerate(qubits)]
        circuit += [cirq.CNOT(qubits[number], qubits[(number + 1) % 3]) for number in range(3)]
    return Ansatz(circuit, symbols, tuple(qubits))


def test_drawing_of_deep_circuit_ends_and_names_the_rest() -> None:
    drawing = draw(in_layers(400))
    assert drawing.title.endswith("; text: the first 256 columns; image: the first 64 columns")
    assert not drawing.is_complete
    assert "Y^t0" in drawing.text
    assert "Y^t1199" not in drawing.text
    assert drawing.image.shape[1] < 4000
    whole = draw(in_layers(20))
    assert whole.is_complete
    assert "Y^t59" in whole.text
    assert whole.title.endswith("; image: the first 64 of 139 columns")


def test_drawing_calls_grow_linearly_with_gates() -> None:
    small, large = (count_calls(functools.partial(draw, in_layers(layers))) for layers in (100, 400))
    assert large < 4.4 * small
