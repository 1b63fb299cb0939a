"""Validation of weight files, which must contain only numbers of a limited size and no links."""

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

_MAX_BYTES = 2**16


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
    # Chunks that are never written take no space in the file.
    file.create_dataset("vars/0", (10**12,), np.float64, chunks=(1000,), compression="gzip")


def _text(file: h5py.File, folder: Path) -> None:
    file.create_dataset("vars/0", data=["a"], dtype=h5py.string_dtype())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (_soft, "vars/0 is a soft or external link"),
        (_other_file, "vars/0 is a soft or external link"),
        (_outside, "the content of vars/0 is in another file"),
        (_virtual, "the content of vars/0 is in another file"),
        (_bomb, f"its weights have 8000000000000 bytes, more than {_MAX_BYTES}"),
        (_text, "vars/0 does not contain numbers"),
    ],
)
def test_check_weights_invalid_file_raises(
    tmp_path: Path, write: Callable[[h5py.File, Path], None], message: str
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    with h5py.File(tmp_path / "weights.h5", "w") as file:
        write(file, tmp_path)
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_weights(tmp_path / "weights.h5", _MAX_BYTES)


def test_check_weights_valid_file_passes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "weights.h5", "w") as file:
        file["vars/0"] = np.zeros(_MAX_BYTES // 8)
    check_weights(tmp_path / "weights.h5", _MAX_BYTES)


def test_load_trained_returns_model_parameters(model_folder: Path) -> None:
    trained, (model, _) = load_trained(model_folder), export.load(model_folder)
    np.testing.assert_array_equal(trained.values, model.get_layer("quantum").parameters.numpy())
    assert trained.network.ansatz == model.get_layer("quantum").ansatz


def test_load_trained_damaged_folder_raises(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^model: .*model.json"):
        load_trained(tmp_path)
    copied = tmp_path / "model"
    shutil.copytree(model_folder, copied)
    weights = copied / "qcnn.weights.h5"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=r"sha256 is not that of model.json"):
        load_trained(copied)
    assert json.loads((copied / "model.json").read_text())
