"""The store for local folders."""

from pathlib import Path

import pytest

from qcnn.errors import ConfigError, WriteError
from qcnn.storage.folder import FolderStore, open_conditional_store
from qcnn.storage.store import MissingFileError
from qcnn.testing.stores import ConditionalStoreContract, contents, put
from tests.plugin_packages import install


class TestFolder(ConditionalStoreContract):
    @pytest.fixture
    def bucket(self, tmp_path: Path) -> str:
        return str(tmp_path / "bucket")


def test_files_are_read_as_written(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "folder")
    assert (store.names(), store.versions()) == ([], {})
    put(store, tmp_path, {"a": b"text", "sub/b": b""})
    versions = store.versions()
    put(store, tmp_path, {"a": b"next"})
    assert contents(store, tmp_path) == {"a": b"next", "sub/b": b""}
    assert {name for name, version in store.versions().items() if versions[name] != version} == {"a"}
    store.delete("a")
    store.delete("a")
    assert store.names() == ["sub/b"]
    for name in ("a", "sub/b/c"):
        with pytest.raises(MissingFileError, match=r"^file: must exist\. Given: "):
            store.read(name, tmp_path / "read")


def test_file_that_is_no_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    store = FolderStore(tmp_path / "file")
    assert store.names() == []
    with pytest.raises(WriteError, match=r"^output: cannot be written \(.*\)\. Given: "):
        store.write_if(tmp_path / "file", "a", None)


def test_store_without_conditional_writes_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "class Plain:\n    def __init__(self, uri):\n        pass\n"
    install(tmp_path, {"qcnn_plain_store.py": content}, {"qcnn.stores": "plain = qcnn_plain_store:Plain"})
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"^uri: must be in a store with the method write_if\. Given: plain://a/b$"):
        open_conditional_store("plain://a/b")
