"""Data re-uploading for ten digits: the circuit as in the paper, and training."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import qcnn
from examples import reuploading_digits
from examples.reuploading_digits import classifier
from qcnn.circuits.ansatz import ring
from tests.docs.documents import ROOT, blocks

_Complex = npt.NDArray[np.complex128]


def _rotation(theta: float, axis: str) -> _Complex:
    half = theta / 2
    if axis == "y":
        return np.array([[np.cos(half), -np.sin(half)], [np.sin(half), np.cos(half)]], np.complex128)
    return np.diag([np.exp(-1j * half), np.exp(1j * half)])


def _on(matrix: _Complex, qubit: int, qubits: int) -> _Complex:
    return np.kron(np.kron(np.eye(2**qubit), matrix), np.eye(2 ** (qubits - 1 - qubit))).astype(np.complex128)


def test_readouts_equal_those_of_the_published_layers() -> None:
    """Three layers of U(theta + w x) on each of two qubits, three features in each U, and CZ between layers."""
    ansatz, random = classifier(ring(2)), np.random.default_rng(0)
    values = dict(zip(map(str, ansatz.symbols), random.uniform(-2, 2, len(ansatz.symbols)), strict=True))
    row = random.uniform(-1, 1, 8)
    state = np.eye(4)[0].astype(np.complex128)
    for layer in range(3):
        for qubit in range(2):
            for place in range(9):
                angle = values[f"theta_{layer}_{qubit}_{place}"]
                angle += values[f"w_{layer}_{qubit}_{place}"] * row[place] if place < 8 else 0
                state = _on(_rotation(angle, "zyz"[place % 3]), qubit, 2) @ state
        if layer < 2:
            state = np.diag([1, 1, 1, -1]) @ state
    weights = np.abs(state) ** 2
    found = qcnn.expectations(classifier(ring(2)), list(values.values()), [row], simulator="statevector")
    np.testing.assert_allclose(found, [[weights @ [1, 1, -1, -1], weights @ [1, -1, 1, -1]]], atol=1e-12)


@pytest.mark.parametrize("name", ["reuploading_digits.py", "keras_circuits.py"])
def test_page_shows_lines_of_the_example(name: str) -> None:
    lines = [line.strip() for line in (ROOT / "examples" / name).read_text().splitlines()]
    shown = [block.text.splitlines() for block in blocks(ROOT / "docs" / "papers.md", "python")]
    (own,) = [each for each in shown if each[-1] in lines]
    assert set(own) <= {*lines, "..."}


@pytest.mark.long
def test_training_reaches_the_accuracy_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    reuploading_digits.main()
    accuracy = float(capsys.readouterr().out.split("accuracy: ")[1].split()[0])
    assert accuracy > 0.88
