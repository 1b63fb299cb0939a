"""Versions of a model folder that are loaded, replaced and released."""

import contextlib
import json
import logging
import os
import shutil
import weakref
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.serving.errors import RequestError
from qcnn.serving.repository import ServedModel, open_repository
from qcnn.serving.versions import ModelSource, VersionPolicy
from qcnn.storage.copies import new_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import open_store
from tests.buckets import new_s3_bucket
from tests.qcnn.serving.conftest import EXCITATIONS
from tests.qcnn.serving.label_files import write_labels


class Served:
    """Model of a folder with versions, and the number of its failures."""

    def __init__(self, folder: Path, latest: int = 1, trust: bool = False, policy: VersionPolicy | None = None) -> None:
        self.folder, self.failures = folder, list[str]()
        policy = policy or VersionPolicy(latest)
        self.model = ServedModel("m", str(folder), folder, policy, self.failures.append, trust=trust)

    def add(self, version: int) -> Path:
        """Copy the model as a version: model.json last."""
        folder = self.folder / str(version)
        shutil.copytree(EXCITATIONS, folder, ignore=shutil.ignore_patterns("model.json"))
        shutil.copy(EXCITATIONS / "model.json", folder)
        return folder

    def polled(self) -> list[int]:
        self.model.poll()
        return self.model.versions


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def test_model_folder_and_run_folder_are_version_1() -> None:
    for folder in (EXCITATIONS, EXCITATIONS.parents[1]):
        assert Served(folder).polled() == [1]


def test_highest_version_replaces_others(served: Served) -> None:
    assert served.polled() == []
    served.add(2)
    assert served.polled() == [2]
    served.add(10)
    assert served.polled() == [10]
    shutil.rmtree(served.folder / "10")
    assert served.polled() == [2]
    shutil.rmtree(served.folder / "2")
    # Requests are answered until there is another version.
    assert served.polled() == [2]


def test_incomplete_version_is_reported_once_and_tried_again(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.add(1)
    folder = served.add(2)
    weights = (folder / "qcnn.weights.h5").read_bytes()
    (folder / "qcnn.weights.h5").write_bytes(weights[:100])
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        assert served.polled() == [1]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("model m: version 2 is not loaded: model: qcnn.weights.h5 is damaged or of another model")
    assert served.failures == ["m"]
    (folder / "qcnn.weights.h5").write_bytes(weights)
    assert served.polled() == [2]
    (folder / "saved_model" / "more.txt").write_text("")
    # A loaded version stays if its files are damaged.
    assert served.polled() == [2]
    assert served.failures == ["m", "m"]


def test_version_without_description_is_not_read(served: Served) -> None:
    folder = served.add(3)
    (folder / "model.json").unlink()
    assert served.polled() == []
    assert not served.failures


def test_labels_keep_versions_and_roll_back(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.add(1)
    served.polled()
    served.add(2)
    write_labels(served.folder, {"stable": 1, "canary": 2, "next": 3})
    assert served.polled() == [1, 2]
    assert served.model.labels == {"stable": 1, "canary": 2}
    assert "label next of model m is not moved: version 3 is not loaded" in caplog.text
    assert served.model.resolve(label="stable").number == 1
    write_labels(served.folder, {"stable": 2})
    assert served.polled() == [2]
    write_labels(served.folder, {"stable": 1})
    assert served.polled() == [1, 2]
    assert served.model.resolve(label="stable").number == 1
    (served.folder / "labels.json").write_text("{")
    served.polled()
    assert served.model.labels == {"stable": 1}
    (served.folder / "labels.json").unlink()
    served.polled()
    with pytest.raises(RequestError, match=r"^label: model m must have it: none\. Given: 'stable'$"):
        served.model.resolve(label="stable")


def test_all_versions_are_loaded(tmp_path: Path) -> None:
    served = Served(tmp_path, latest=0)
    for version in (1, 2, 3):
        served.add(version)
    assert served.polled() == [1, 2, 3]


def test_released_version_is_freed_after_its_last_request(served: Served) -> None:
    served.add(1)
    served.polled()
    held = served.model.resolve()
    freed = weakref.ref(held)
    served.add(2)
    assert served.polled() == [2]
    assert held.number == 1
    del held
    assert freed() is None


def test_replaced_files_of_version_are_loaded_again(served: Served) -> None:
    served.add(1)
    served.polled()
    first = served.model.resolve()
    served.polled()
    assert served.model.resolve() is first
    os.utime(served.folder / "1" / "model.json", (1, 1))
    served.polled()
    assert served.model.resolve() is not first


def _of_function(folder: Path) -> None:
    """Turn the model into one of a Python function."""
    from qcnn.artifact_io import load_description, save_description

    description: dict[str, Any] = load_description("model", folder / "model.json")
    files = description.pop("files")
    description["experiment"]["model"] = "no_such_module:circuit"
    save_description(description, folder / "model.json", files)
    assert json.loads((folder / "model.json").read_text())["experiment"]["model"] == "no_such_module:circuit"


@pytest.mark.parametrize("trust", [False, True])
def test_python_function_requires_trust(tmp_path: Path, trust: bool, caplog: pytest.LogCaptureFixture) -> None:
    served = Served(tmp_path, trust=trust)
    _of_function(served.add(1))
    assert served.polled() == []
    reason = (
        "no_such_module" if trust else "must not be a Python function without --trust. Given: no_such_module:circuit"
    )
    assert reason in caplog.text


def test_only_version_of_a_label_is_served(tmp_path: Path) -> None:
    """The label moves forward and back."""
    served = Served(tmp_path, policy=VersionPolicy(label="champion"))
    assert served.polled() == []
    for version in (1, 2, 3):
        served.add(version)
    write_labels(tmp_path, {"champion": 1, "canary": 3})
    assert served.polled() == [1]
    for version in (2, 1):
        write_labels(tmp_path, {"champion": version, "canary": 3})
        assert served.polled() == [version]
        assert served.model.resolve().number == version
        assert served.model.labels == {"champion": version}
    # It does not move to a damaged version, nor away if it is deleted.
    (tmp_path / "3" / "predictor.json").write_text("{}")
    for labels in ({"champion": 3}, {}):
        write_labels(tmp_path, labels)
        assert served.polled() == [1]
    with pytest.raises(RequestError):
        served.model.resolve("3")


def test_missing_folder_raises(tmp_path: Path) -> None:
    sources = {"m": ModelSource(str(tmp_path / "nowhere"))}
    with (
        pytest.raises(ConfigError, match=r"^model: must be an existing folder, or a bucket\. Given: "),
        open_repository(sources, 1, lambda name: None, trust=False),
    ):
        pass


def test_versions_in_bucket_are_mirrored(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "ENDPOINT_URL": s3_server}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    uri = f"s3://{new_s3_bucket(s3_server)}/digits"

    def add(version: int) -> None:
        with new_copy(f"{uri}/{version}", "model.json") as folder:
            shutil.copytree(EXCITATIONS, folder)

    add(1)
    with open_repository({"m": ModelSource(uri)}, 3600, lambda name: None, trust=False) as repository:
        assert repository.models["m"].versions == [1]
        add(2)
        repository.poll()
        assert repository.models["m"].versions == [2]
        assert repository.is_ready
        # A version is withdrawn by its deletion.
        bucket = parse_bucket_uri(uri)
        assert bucket
        with contextlib.closing(open_store(bucket)) as store:
            for name in store.names():
                if name.startswith("2/"):
                    store.delete(name)
        repository.poll()
        assert repository.models["m"].versions == [1]


def test_missing_version_of_policy_is_reported_once(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.add(1)
    served.add(2)
    policy = VersionPolicy(only=frozenset({1, 3}))
    model = ServedModel("m", "models", served.folder, policy, served.failures.append, trust=False)
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        model.poll()
    assert model.versions == [1]
    assert caplog.messages == ["model m: version 3 does not exist, of 1, 2"]
    served.add(3)
    model.poll()
    assert model.versions == [1, 3]
