"""The dataset of one trial of a study."""

from pathlib import Path

import pytest

from qcnn.components.generate_data.step import generate_data
from qcnn.components.trial_data.step import trial_data
from qcnn.trainer.config import from_mapping


def test_a_trial_has_the_dataset_of_its_experiment(tmp_path: Path) -> None:
    words = {"qubits": 4, "rounds": 10, "seed": 3}
    metadata = trial_data(from_mapping(words).to_json(), str(tmp_path / "trial"))
    assert metadata == generate_data(words, str(tmp_path / "dataset"))[1]
    assert (tmp_path / "trial" / "dataset.npz").read_bytes() == (tmp_path / "dataset" / "dataset.npz").read_bytes()


def test_what_is_no_experiment_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        trial_data('{"qubits": 3}', str(tmp_path / "trial"))
    assert capfd.readouterr().err == "error: qubits: must be an integer, at least 4 and at most 32768. Given: 3\n"
    assert not list(tmp_path.iterdir())
