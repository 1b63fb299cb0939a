"""The check of an output folder on real object stores."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qcnn.errors import ArtifactError, ConfigError
from qcnn.storage.store import Store
from qcnn.targets.output_check import check_folder, check_output


@pytest.mark.parametrize("read_only", [False, True])
def test_folder_is_left_as_it_was(bucket: str, opens: Callable[[str], Store], read_only: bool) -> None:
    folder = f"{bucket}/runs"
    found = check_output(folder, read_only=read_only)
    assert found.startswith(f"{folder}: 0 files")
    assert ("wrote" in found) != read_only
    assert not opens(folder).names()


def test_missing_bucket_fails(bucket: str) -> None:
    with pytest.raises(ConfigError, match=r"does not exist\)?\. Given: .*-missing/runs"):
        check_output(f"{bucket}-missing/runs", read_only=False)


def test_folder_must_be_writable(tmp_path: Path) -> None:
    assert "GiB free" in check_folder("runs", tmp_path / "new" / "runs")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ArtifactError, match=r"^runs: must be a folder to write to \(Not a directory\)\. Given: .*file$"
    ):
        check_folder("runs", tmp_path / "file")
    with pytest.raises(ConfigError, match="must be a local folder or gs://"):
        check_output("ftp://a/b", read_only=True)
