"""Automatic values of fields, and training with them."""

from pathlib import Path

import pytest

from qcnn import data
from qcnn.circuits.error_bound import error_bound
from qcnn.experiment import defaults
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.trainer.loop import train


@pytest.mark.parametrize(
    ("qubits", "rounds", "batch_size", "epochs"),
    [(4, 515, 64, 28), (8, 279, 128, 50), (23, 127, 128, 40), (64, 73, 256, 50), (1024, 45, 256, 6)],
)
def test_automatic_values_depend_on_qubits(qubits: int, rounds: int, batch_size: int, epochs: int) -> None:
    config = from_mapping({"qubits": qubits})
    assert (config.rounds, config.batch_size, config.epochs) == (rounds, batch_size, epochs)
    # 60 samples per parameter: 21 circuit parameters, one weight per readout and a bias.
    minimum = 60 * (21 + (qubits + 1) // 2 + 1)
    assert minimum <= config.split_counts.train < minimum + qubits


def test_given_values_determine_other_automatic_values() -> None:
    config = from_mapping({"rounds": 20, "batch_size": 16, "epochs": 0})
    assert (config.rounds, config.batch_size, config.epochs) == (20, 16, 92)
    assert from_mapping({"rounds": 20}).batch_size == 32
    assert from_mapping({"workers": 300}).batch_size == 300
    assert from_mapping({"qubits": 32768, "options": {"train_fraction": 1e-5}}).rounds == 305
    assert from_mapping({"model": "deep"}).options.num_initializations == defaults.num_initializations("deep") == 12
    assert from_mapping({"model": "deep", "options": {"num_initializations": 2}}).options.num_initializations == 2


@pytest.mark.parametrize("qubits", [8, 64])
def test_training_with_defaults_reaches_error_bound(qubits: int, tmp_path: Path) -> None:
    config = from_mapping({"qubits": qubits, "workers": 1, "strategy": "none", "options": {"checkpoint_seconds": 60}})
    train(config, data.generate(config), tmp_path)
    checkpoint = checkpoints.load_latest(tmp_path / checkpoints.FOLDER)
    bound = error_bound(config.model, config.hidden_activation)
    assert checkpoint
    assert checkpoint.fresh_mse is not None
    assert bound
    assert abs(checkpoint.fresh_mse - bound.mse) < 0.01
