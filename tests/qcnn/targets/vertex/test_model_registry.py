"""Exported models that are copied or uploaded."""

import shutil
from pathlib import Path

import pytest

from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import complete_files
from qcnn.errors import ArtifactError
from qcnn.serving.version_export import export_version
from qcnn.targets.vertex.model_registry import find_exported
from tests.golden.make import GOLDEN

_STAGING = "gs://bucket/models"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Model folder with digests of all files."""
    model = GOLDEN / "0.1.0" / "excitations" / "export-weights" / "model"
    folder = tmp_path / "model"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("model.json"))
    save_description(load_description("model", model / "model.json"), folder / "model.json", complete_files(folder))
    return folder


def test_find_exported_names_folder_by_weights(folder: Path) -> None:
    exported = find_exported(str(folder), _STAGING)
    assert exported.source == folder
    assert exported.address == f"{_STAGING}/{exported.labels['qcnn_weights']}"


@pytest.mark.parametrize("name", ["qcnn.weights.h5", "saved_model/saved_model.pb", "saved_model/fingerprint.pb"])
def test_find_exported_damaged_model_raises(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(
        ArtifactError, match=rf"^model: {name} is damaged or of another model: .* Given: {folder}/{name}$"
    ):
        find_exported(str(folder), _STAGING)


def test_find_exported_version_is_its_saved_model(folder: Path, tmp_path: Path) -> None:
    version = Path(export_version(str(folder), str(tmp_path / "versions")).uri)
    model, exported = find_exported(str(folder), _STAGING), find_exported(str(version), _STAGING)
    assert exported.labels == model.labels
    assert (model.artifacts, exported.artifacts) == (f"{model.address}/saved_model", exported.address)
    (version / "variables" / "variables.index").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"^model: variables/variables.index is damaged"):
        find_exported(str(version), _STAGING)
