"""Resuming from checkpoints, which must match model and circuit."""

import dataclasses
import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.results import export
from qcnn.trainer.loop import train
from qcnn.trainer.state import TrainingState, load_saved


def test_training_state_with_weights_of_other_shapes_raises(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    for weights in (checkpoint.line.weights[:-1], (np.zeros(20), *checkpoint.line.weights[1:])):
        folder = tmp_path / str(len(weights))
        line = dataclasses.replace(checkpoint.line, weights=weights, history=checkpoint.history[:1])
        checkpoints.save(dataclasses.replace(checkpoint, line=line), folder / checkpoints.FOLDER)
        saved = load_saved(small_config, small_dataset, folder / checkpoints.FOLDER)
        with pytest.raises(ArtifactError, match=r"^checkpoint: its weights must have shapes \[\(21,\), .*Given: \["):
            TrainingState(small_config, small_dataset, folder, tf.distribute.get_strategy(), saved)


def test_load_saved_recognizes_circuit_of_custom_gates(
    small_config: ExperimentConfig, small_dataset: data.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gates_of_mine.py").write_text("""
import cirq, numpy, sympy
from qcnn.circuits.circuits import Ansatz
class Turn(cirq.Gate):
    def num_qubits(self): return 1
    def _unitary_(self): return cirq.unitary(cirq.Y ** 0.3)
def circuit(qubits):
    s = sympy.Symbol("s")
    before, qubit, after = qubits[:3]
    undone = cirq.CZ(before, qubit), cirq.CZ(qubit, after), cirq.H(qubit)
    return Ansatz(cirq.Circuit(undone, Turn()(qubit), cirq.X(qubit) ** s), (s,), (qubit,))
""")
    monkeypatch.syspath_prepend(tmp_path)
    config = small_config.model_copy(update={"model": "gates_of_mine:circuit", "epochs": 1})
    train(config, small_dataset, tmp_path / "training")
    longer = config.model_copy(update={"epochs": 2})
    saved = load_saved(longer, small_dataset, tmp_path / "training" / checkpoints.FOLDER)
    assert saved
    assert (len(saved.history), len(saved.circuit)) == (1, 64)


def test_resume_and_load_other_circuit_of_same_name_raise(
    small_config: ExperimentConfig, small_dataset: data.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "circuit_of_mine.py"
    program = """
import cirq, sympy
from qcnn.circuits.circuits import Ansatz
def circuit(qubits):
    s = sympy.symbols("s0:4")
    undone = cirq.CZ(qubits[1], qubits[2]), cirq.CZ(qubits[2], qubits[3]), cirq.H(qubits[2])
    rotated = [cirq.{gate}(q) ** x for q, x in zip(qubits, s)]
    return Ansatz(cirq.Circuit(undone, rotated), s, tuple(qubits[2:]))
"""
    module.write_text(program.format(gate="Y"))
    monkeypatch.syspath_prepend(tmp_path)
    config = small_config.model_copy(update={"model": "circuit_of_mine:circuit", "epochs": 1})
    train(config, small_dataset, tmp_path / "training")
    export.export(tmp_path / "training", tmp_path / "model")
    export.load(tmp_path / "model")
    module.write_text(program.format(gate="X"))
    # Python may consider a file with equal size and modification second unchanged.
    monkeypatch.delitem(sys.modules, "circuit_of_mine")
    importlib.invalidate_caches()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    with pytest.raises(ArtifactError, match=r"^model: the folder's checkpoint was trained with another circuit"):
        train(config, small_dataset, tmp_path / "training")
    with pytest.raises(ArtifactError, match=r"^model: was trained with another circuit"):
        export.load(tmp_path / "model")
