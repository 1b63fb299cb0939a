"""Descriptions next to data files are kept if they are of the file."""

import json
from pathlib import Path

import pytest

from qcnn.data.dataset import describe
from qcnn.data.samples import EXCITATIONS, Source
from qcnn.data.sidecar import read_sidecar, sidecar_of, to_text


def test_description_is_read_back(tmp_path: Path) -> None:
    uri = str(tmp_path / "rows.csv")
    Path(sidecar_of(uri)).write_text(to_text({"dataset": "mnist", "options": {"pca": 8}}, "abc"))
    warnings: list[str] = []
    assert read_sidecar(uri, "abc", warnings.append) == {"dataset": "mnist", "options": {"pca": 8}}
    assert not warnings


def test_description_of_other_content_is_ignored_with_warning(tmp_path: Path) -> None:
    uri = str(tmp_path / "rows.csv")
    Path(sidecar_of(uri)).write_text(to_text({"dataset": "mnist"}, "abc"))
    warnings: list[str] = []
    assert read_sidecar(uri, "other", warnings.append) == {}
    assert warnings == [f"data: {uri}.json describes other content than that of {uri}, so it is ignored"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"dataset": NaN}',
        b'{"sha256": "abc"}',
        b'{"dataset": 3, "sha256": "abc"}',
        b"[" * 10**5,
        b'{"dataset": "mnist", "sha256": "abc", "more": "' + b"x" * 2**16 + b'"}',
    ],
)
def test_other_files_are_no_descriptions(tmp_path: Path, content: bytes) -> None:
    uri = str(tmp_path / "rows.csv")
    Path(sidecar_of(uri)).write_bytes(content)
    warnings: list[str] = []
    assert read_sidecar(uri, "abc", warnings.append) == {}
    assert not warnings


def test_file_without_description_is_described_as_before() -> None:
    assert describe(EXCITATIONS, Source("rows.csv", "abc")) == {"source": {"data": "rows.csv", "sha256": "abc"}}
    described = describe(EXCITATIONS, Source("rows.csv", "abc", {"dataset": "mnist", "options": {}}))
    assert json.loads(json.dumps(described["source"]))["description"] == {"dataset": "mnist", "options": {}}
