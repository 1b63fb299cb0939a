"""Names of registered models."""

import contextlib
import pickle
import shutil
from pathlib import Path

import pytest

import qcnn
from qcnn.errors import ArtifactError, ConfigError
from qcnn.registry.address import open_registry
from qcnn.registry.references import ModelReference, model_copy, parse_reference
from qcnn.registry.registration import register
from tests.qcnn.registry.models import write_run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("digits@champion", ModelReference("digits", label="champion")),
        ("digits@2", ModelReference("digits", version=2)),
        ("digits@v2", ModelReference("digits", label="v2")),
        ("digits@0", ModelReference("digits", label="0")),
        ("digits", None),
        ("runs/digits@2", None),
        ("gs://bucket/digits@2", None),
        ("existing@2", None),
    ],
)
def test_parse_reference(
    text: str, expected: ModelReference | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "existing@2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert parse_reference(text) == expected


@pytest.mark.parametrize("text", ["@champion", "digits@", "a b@1", "digits@a@b", "digits@a b"])
def test_invalid_reference_raises(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^(name|label): must be at most 100 letters"):
        parse_reference(text)


def test_model_of_registry_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, factor in {"a": 0.5, "b": 0.25}.items():
        # The default registry is the folder models.
        with contextlib.closing(open_registry()) as registry:
            register(registry, str(write_run(tmp_path / name, factor).folder), "ring")
    model = qcnn.load("ring@1")
    assert model.predict(qubit=[0], angle=[0.0]).tolist() == [0.5]
    with model_copy("ring@2", str(tmp_path / "models")) as folder:
        assert qcnn.load(folder).predict(qubit=[0], angle=[0.0]).tolist() == [0.25]
    shutil.rmtree(tmp_path / "models" / "ring" / "1")
    with pytest.raises(ArtifactError, match=r"^version: must be a complete one of ring: 2\. Given: 1$"):
        qcnn.load("ring@1")
    # Files of a loaded model are independent of the registry.
    assert pickle.loads(pickle.dumps(model)).predict(qubit=[0], angle=[0.0]).tolist() == [0.5]
