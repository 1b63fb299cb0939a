"""Export of models as versions for TensorFlow Serving and qcnn serve."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import qcnn
from qcnn.artifact_io import load_description
from qcnn.errors import ArtifactError, ConfigError
from qcnn.results.model_folder import check_files, describe
from qcnn.serving.version_export import ExportedVersion, export_version
from qcnn.storage.copies import local_copy
from tests.buckets import new_s3_bucket
from tests.qcnn.serving.conftest import EXCITATIONS
from tests.qcnn.serving.test_repository import Served
from tests.qcnn.serving.versions import write_other_model

RUN = EXCITATIONS.parents[1]


def test_version_has_files_for_tensorflow_serving_and_qcnn_serve(tmp_path: Path) -> None:
    output = tmp_path / "models" / "digits"
    assert export_version(str(RUN), str(output)) == ExportedVersion(1, str(output / "1"), is_new=True)
    assert [path.name for path in output.iterdir()] == ["1"]
    names = {path.relative_to(output / "1").as_posix() for path in (output / "1").rglob("*") if path.is_file()}
    assert names >= {"saved_model.pb", "variables/variables.index", "model.json", "qcnn.weights.h5", "predictor.json"}
    description, _ = describe(output / "1")
    assert description["files"].keys() == names - {"model.json"}
    for part in description["files"]:
        check_files(output / "1", description, part)
    expected = load_description("model", EXCITATIONS / "model.json")
    assert {**description, "files": 0} == {**expected, "files": 0}
    # The files are those that the server loads.
    assert Served(output).polled() == [1]


def test_version_predicts_in_tensorflow_as_in_python(tmp_path: Path) -> None:
    import tensorflow as tf

    folder = export_version(str(RUN), str(tmp_path)).uri
    qubit, angle = np.array([0, 3, 1], np.int32), np.array([0.1, -2, 1], np.float32)
    # TensorFlow Serving loads the metagraph of this tag.
    served = tf.saved_model.load(folder, tags=["serve"]).signatures["serving_default"]
    found = served(qubit=tf.constant(qubit), angle=tf.constant(angle))["prediction"].numpy()
    expected = qcnn.load(EXCITATIONS).predict(qubit=qubit, angle=angle)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    assert np.array_equal(qcnn.load(folder).predict(qubit=qubit, angle=angle), expected)


def test_versions_are_numbered_and_a_repeated_export_creates_none(tmp_path: Path) -> None:
    other, output = write_other_model(tmp_path / "other"), str(tmp_path / "models")
    sources = [RUN, RUN, other, EXCITATIONS]
    exported = [export_version(str(source), output) for source in sources]
    assert [(each.number, each.is_new) for each in exported] == [(1, True), (1, False), (2, True), (3, True)]
    (tmp_path / "models" / "labels.json").write_text('{"stable": 1}')
    assert export_version(str(other), output, 7).number == 7
    assert export_version(str(RUN), output).number == 8


@pytest.mark.parametrize(("version", "source"), [(1, "other"), (1, "damaged")])
def test_existing_version_is_not_replaced(tmp_path: Path, version: int, source: str) -> None:
    write_other_model(tmp_path / "other")
    output = tmp_path / "models"
    folder = Path(export_version(str(RUN), str(output)).uri)
    if source == "damaged":
        (folder / "model.json").write_text("{")
    with pytest.raises(ConfigError, match=rf"^version: must be new in {output}\. Given: {version}$"):
        export_version(str(tmp_path / "other" if source == "other" else RUN), str(output), version)
    # Without a number, a damaged version is passed over.
    assert export_version(str(tmp_path / "other"), str(output)).number == 2


def test_damaged_model_and_model_without_saved_model_are_errors(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(EXCITATIONS, tmp_path / "copied"))
    (copied / "saved_model" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"^model: saved_model/saved_model.pb is damaged"):
        export_version(str(copied), str(tmp_path / "models"))
    rows = EXCITATIONS.parents[2] / "rows" / "export-weights" / "model"
    without = Path(shutil.copytree(rows, tmp_path / "without", ignore=shutil.ignore_patterns("saved_model")))
    description = load_description("model", without / "model.json")
    assert any(name.startswith("saved_model/") for name in description["files"])
    with pytest.raises(ArtifactError, match=r"^model: saved_model is missing\. Given: "):
        export_version(str(without), str(tmp_path / "models"))
    assert not list((tmp_path / "models").glob("*"))


def test_folder_of_a_model_is_no_folder_of_versions(tmp_path: Path) -> None:
    copied = shutil.copytree(EXCITATIONS, tmp_path / "copied")
    with pytest.raises(ConfigError, match=r"^output: must be a folder of versions, not of a model\. Given: "):
        export_version(str(RUN), str(copied))


def test_exports_at_the_same_time_have_different_numbers(tmp_path: Path) -> None:
    others = [write_other_model(tmp_path / str(factor), factor) for factor in (0.1, 0.2, 0.3, 0.4)]
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda other=other: found.append(export_version(str(other), f"{tmp_path}/m").number))
        for other in others
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [1, 2, 3, 4]


def test_versions_in_bucket_are_numbered(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "ENDPOINT_URL": s3_server}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    bucket = f"s3://{new_s3_bucket(s3_server)}"
    assert export_version(str(RUN), f"{bucket}/digits/") == ExportedVersion(1, f"{bucket}/digits/1", is_new=True)
    assert not export_version(str(RUN), f"{bucket}/digits").is_new
    assert export_version(f"{bucket}/digits/1", f"{bucket}/copy", 4).uri == f"{bucket}/copy/4"
    with local_copy(f"{bucket}/copy") as folder:
        assert Served(folder).polled() == [4]
