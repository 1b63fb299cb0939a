from pathlib import Path

import pytest

from qcnn import atomic_files
from qcnn.errors import ArtifactError
from qcnn.tracking.identity import identity_of


def test_identity_of_folder_is_kept(tmp_path: Path) -> None:
    with identity_of(tmp_path / "a") as first:
        pass
    with identity_of(tmp_path / "a") as second, identity_of(tmp_path / "b") as other:
        assert second == first
        assert other.key != first.key


def test_run_has_one_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_files, "_LOCK_TIMEOUT_SECONDS", 0.0)
    message = r"^tracker: the folder must not be in use by another tracker\."
    with identity_of(tmp_path), pytest.raises(ArtifactError, match=message), identity_of(tmp_path):
        pass


def test_damaged_identity_is_an_error(tmp_path: Path) -> None:
    with identity_of(tmp_path):
        pass
    (path,) = tmp_path.rglob("*.json")
    path.write_text(path.read_text().replace('"started": 1', '"started": 2'))
    with pytest.raises(ArtifactError, match="is damaged"), identity_of(tmp_path):
        pass
