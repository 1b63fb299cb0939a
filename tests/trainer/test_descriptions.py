"""What describes an artifact is read as it was written, or refused."""

import json
from pathlib import Path

import pytest

from qcnn.trainer.descriptions import load_description, save_description
from qcnn.trainer.errors import ArtifactError


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save_description({"qubits": 4, "loss": 1 / 3}, path)
    assert load_description("model", path) == {"schema_version": 2, "qubits": 4, "loss": 1 / 3}


def test_the_first_version_had_no_digest_and_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"schema_version": 1, "qubits": 4}')
    assert load_description("model", path)["qubits"] == 4


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"schema_version": 2, "qubits": 4}, r"model.json is damaged \(sha256 is not that of the content\)"),
        ({"schema_version": 1, "sha256": "0" * 64}, r"model.json is damaged \(sha256 is not that of the content\)"),
        ({"schema_version": 3}, r"schema_version must be one of \(1, 2\). Given: 3 in "),
        ({"schema_version": True}, r"schema_version must be one of \(1, 2\). Given: True in "),
        ({"qubits": 4}, "model.json is damaged"),
        ([], "model.json is damaged"),
    ],
)
def test_what_was_changed_or_is_of_another_version_is_refused(content: object, line: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match=f"^model: {line}"):
        load_description("model", tmp_path / "model.json")
