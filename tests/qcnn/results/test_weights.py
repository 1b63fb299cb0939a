"""A file of weights holds numbers, no more of them than the model has, and no way to other files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from qcnn.errors import ArtifactError
from qcnn.results import export
from qcnn.results.weights import check_weights, load_trained

_MOST = 2**16


def _soft(file: h5py.File, folder: Path) -> None:
    file["vars/0"] = h5py.SoftLink("/other")


def _other_file(file: h5py.File, folder: Path) -> None:
    file["vars/0"] = h5py.ExternalLink(str(folder / "secret"), "/vars/0")


def _outside(file: h5py.File, folder: Path) -> None:
    file.create_dataset("vars/0", (6,), np.uint8, external=[(str(folder / "secret"), 0, 6)])


def _virtual(file: h5py.File, folder: Path) -> None:
    layout = h5py.VirtualLayout((6,), np.uint8)
    layout[:] = h5py.VirtualSource(str(folder / "secret"), "0", (6,))
    file.create_virtual_dataset("vars/0", layout)


def _bomb(file: h5py.File, folder: Path) -> None:
    # Of what was never written nothing is kept.
    file.create_dataset("vars/0", (10**12,), np.float64, chunks=(1000,), compression="gzip")


def _text(file: h5py.File, folder: Path) -> None:
    file.create_dataset("vars/0", data=["a"], dtype=h5py.string_dtype())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (_soft, "vars/0 is a link to elsewhere"),
        (_other_file, "vars/0 is a link to elsewhere"),
        (_outside, "the content of vars/0 is in another file"),
        (_virtual, "the content of vars/0 is in another file"),
        (_bomb, f"its weights have 8000000000000 bytes, more than {_MOST}"),
        (_text, "vars/0 holds no numbers"),
    ],
)
def test_what_is_no_weight_is_refused(tmp_path: Path, write: Callable[[h5py.File, Path], None], message: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    with h5py.File(tmp_path / "weights.h5", "w") as file:
        write(file, tmp_path)
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_weights(tmp_path / "weights.h5", _MOST)


def test_weights_are_taken(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "weights.h5", "w") as file:
        file["vars/0"] = np.zeros(_MOST // 8)
    check_weights(tmp_path / "weights.h5", _MOST)


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
