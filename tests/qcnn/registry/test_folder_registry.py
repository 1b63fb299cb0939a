"""Registries in folders and buckets: versions that are complete or interrupted, and processes at the same time."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qcnn.errors import ArtifactError
from qcnn.registry.address import open_registry
from qcnn.registry.folder_registry import FolderRegistry
from qcnn.registry.gate import promote
from qcnn.registry.registration import register
from qcnn.serving.repository import open_repository
from qcnn.serving.versions import ModelSource, VersionPolicy
from qcnn.storage.copies import local_copy
from tests.buckets import new_bucket, new_s3_bucket
from tests.qcnn.registry.models import BEST, Run, write_run
from tests.qcnn.registry.simultaneous import assert_one_promotion_wins, register_at_once

# Process that ends in the middle of a registration.
_KILLED = """
import os, signal, sys
from qcnn.registry.address import open_registry
from qcnn.registry.registration import register
registry = open_registry(sys.argv[1])
store = registry._store("cluster")
write = store.write
def write_or_die(path, file):
    if file.endswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, file)
store.write = write_or_die
register(registry, sys.argv[2], "cluster")
"""


@pytest.fixture(params=["folder", "s3", "gs"])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Path or URI of an empty registry."""
    if request.param == "folder":
        yield str(tmp_path / "models")
    elif request.param == "s3":
        server = str(request.getfixturevalue("s3_server"))
        for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "ENDPOINT_URL": server}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        yield f"s3://{new_s3_bucket(server)}/models"
    elif not (server := os.environ.get("STORAGE_EMULATOR_HOST", "")):
        pytest.skip("STORAGE_EMULATOR_HOST is not set: no Cloud Storage server")
    else:
        with new_bucket(server) as name:
            yield f"gs://{name}/models"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return write_run(tmp_path / "run", BEST)


@contextlib.contextmanager
def _opened(address: str) -> Iterator[FolderRegistry]:
    with contextlib.closing(open_registry(address)) as registry:
        assert isinstance(registry, FolderRegistry)
        yield registry


def test_versions_are_stored_with_records_and_labels(address: str, run: Run, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0.5, metrics={"loss": 0.25})
    with _opened(address) as registry:
        assert (registry.names(), registry.versions("cluster")) == ([], [])
        for folder in (run.folder, other.folder, run.folder):
            register(registry, str(folder), "cluster")
        register(registry, str(run.model), "model.only")
        promote(registry, "cluster", "stable", 1)
        promote(registry, "cluster", "canary", 2)
        assert registry.names() == ["cluster", "model.only"]
        first, second = registry.versions("cluster")
        assert first.record
        assert second.record
        assert (first.number, second.number, first.problem, second.problem) == (1, 2, "", "")
        assert first.record.source == str(run.folder.absolute())
        assert first.record.provenance == {"commit": "0" * 40, "seed": "0"}
        assert second.record.metrics == {"epochs": 1, "val_loss": 0.625, "loss": 0.25, "accuracy": 0.75}
        assert registry.labels("cluster").versions == {"stable": 1, "canary": 2}
        assert [(each.label, each.version) for each in registry.promotions("cluster")] == [("stable", 1), ("canary", 2)]
        with registry.open("cluster", 2) as folder:
            assert (folder / "model.json").read_bytes() == (other.model / "model.json").read_bytes()
    # The layout is that of the server.
    sources = {
        "all": ModelSource(f"{address}/cluster", VersionPolicy(0)),
        "one": ModelSource(f"{address}/cluster", VersionPolicy(label="stable")),
    }
    with open_repository(sources, 3600, lambda name: None, trust=False) as repository:
        assert repository.models["all"].versions == [1, 2]
        assert repository.models["all"].labels == {"stable": 1, "canary": 2}
        assert (repository.models["one"].versions, repository.models["one"].labels) == ([1], {"stable": 1})


@pytest.mark.parametrize("file", ["1/model.json", "1/rows.npz"])
def test_killed_registration_is_completed_by_the_next(address: str, run: Run, file: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _KILLED, address, str(run.folder), file]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with _opened(address) as registry:
        assert [each.problem for each in registry.versions("cluster")] == ["incomplete"]
        with pytest.raises(
            ArtifactError, match=r"^version: must be a complete one of cluster: none\. Given: 1 \(incom"
        ):
            promote(registry, "cluster")
        sources = {"model": ModelSource(f"{address}/cluster")}
        # A server creates no folder, and may start before the first registration is complete.
        with open_repository(sources, 3600, lambda name: None, trust=False) as repository:
            assert repository.models["model"].versions == []
        assert register(registry, str(write_run(tmp_path / "other", 0.5).folder), "cluster").version == 2
        result = register(registry, str(run.folder), "cluster")
        assert (result.version, result.is_new) == (1, True)
        assert [each.problem for each in registry.versions("cluster")] == ["", ""]
        assert promote(registry, "cluster", version=1).outcome == "first"


def test_registrations_at_the_same_time_give_one_version_each(address: str, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, factor) for name, factor in {"a": 0.5, "b": 1.0}.items()]
    found = register_at_once(lambda: _opened(address), runs * 3, "cluster")
    # Each of the runs has one version, which all of its registrations return.
    assert len(found) == 6
    assert {number for _, number in found} == {1, 2}
    assert len(set(found)) == 2
    with _opened(address) as registry:
        assert [each.problem for each in registry.versions("cluster")] == ["", ""]
        for number in (1, 2):
            with registry.open("cluster", number) as folder:
                assert register(registry, str(folder), "cluster").version == number


def test_promotions_at_the_same_time_have_one_winner(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_one_promotion_wins(lambda: _opened(address), "cluster", tmp_path, monkeypatch)


def test_promotion_whose_answer_was_lost_has_its_record(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends a write again that was successful."""
    with _opened(str(tmp_path / "models")) as registry:
        register(registry, str(run.folder), "cluster")
        store = registry._store("cluster")
        original = store.write_if

        def twice(path: Path, name: str, version: str | None) -> bool:
            assert original(path, name, version)
            return original(path, name, version)

        monkeypatch.setattr(store, "write_if", twice)
        assert promote(registry, "cluster").outcome == "first"
        assert len(registry.promotions("cluster")) == 1


def test_version_without_a_file_is_completed(address: str, run: Run) -> None:
    with _opened(address) as registry:
        register(registry, str(run.folder), "cluster")
        registry._store("cluster").delete("1/predictor.json")
        result = register(registry, str(run.folder), "cluster")
        assert (result.version, result.is_new) == (1, True)
        with local_copy(f"{address}/cluster/1") as folder:
            assert (folder / "predictor.json").exists()


def test_copied_version_has_no_record(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "cluster" / "3"
    shutil.copytree(run.model, folder)
    with _opened(str(tmp_path / "models")) as registry:
        (version,) = registry.versions("cluster")
        assert (version.number, version.record, version.problem) == (3, None, "")
        assert register(registry, str(run.folder), "cluster").version == 3
        assert promote(registry, "cluster").version == 3


@pytest.mark.parametrize("content", ["", "{}", "[" * 10**5, '{"champion": 1.5}', '{"champion": "1"}', '{"a b": 1}'])
def test_damaged_labels_are_one_line(run: Run, tmp_path: Path, content: str) -> None:
    with _opened(str(tmp_path / "models")) as registry:
        register(registry, str(run.folder), "cluster")
        (tmp_path / "models" / "cluster" / "labels.json").write_text(content)
        if content == "{}":
            assert promote(registry, "cluster").outcome == "first"
            return
        with pytest.raises(ArtifactError, match=r"^labels: .* Given: [^\n]*/models/cluster/labels\.json$"):
            promote(registry, "cluster")


@pytest.mark.parametrize("content", ["", "{}", "[" * 10**5, '{"schema_version": 9}'])
def test_damaged_record_is_one_version(run: Run, tmp_path: Path, content: str) -> None:
    with _opened(str(tmp_path / "models")) as registry:
        register(registry, str(run.folder), "cluster")
        (tmp_path / "models" / "cluster" / "1" / "version.json").write_text(content)
        (version,) = registry.versions("cluster")
        assert version.problem.startswith("damaged: version.json: ")
        assert "\n" not in version.problem
        register(registry, str(write_run(tmp_path / "other", 0.5).folder), "cluster")
        assert promote(registry, "cluster").version == 2
