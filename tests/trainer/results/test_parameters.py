import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from qcnn.trainer.errors import ArtifactError
from qcnn.trainer.results import export
from qcnn.trainer.results.parameters import load_trained


def test_they_are_those_that_the_model_predicts_with(model_folder: Path) -> None:
    trained, (model, _) = load_trained(model_folder), export.load(model_folder)
    np.testing.assert_array_equal(trained.values, model.get_layer("quantum").parameters.numpy())
    assert trained.network.ansatz == model.get_layer("quantum").ansatz


def test_a_folder_that_is_damaged_or_none_is_refused(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^model: .*model.json"):
        load_trained(tmp_path)
    copied = tmp_path / "model"
    shutil.copytree(model_folder, copied)
    weights = copied / "qcnn.weights.h5"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=r"model.json names other weights"):
        load_trained(copied)
    assert json.loads((copied / "model.json").read_text())
