"""What a folder in a bucket does, whoever keeps it."""

import gc
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.storage import gcs, s3
from qcnn.storage.copies import local_copy
from qcnn.storage.store import SCHEMES, BucketUri, Store, UnreachableError
from qcnn.storage.sync import FolderDownloader
from tests.qcnn.storage.faults import FaultyProxy

# Sent in one request, and in several.
SMALL, LARGE = (bytes(range(256)) * 1024 * count for count in (8, 48))


class FolderStore:
    """A store that somebody else brings: its buckets are local folders."""

    def __init__(self, address: BucketUri) -> None:
        self._folder = Path("/", address.bucket, address.folder)

    def names(self) -> list[str]:
        return sorted(path.name for path in self._folder.iterdir())

    def versions(self) -> dict[str, str]:
        return {name: str((self._folder / name).stat().st_mtime_ns) for name in self.names()}

    def read(self, name: str, path: Path) -> None:
        shutil.copy(self._folder / name, path)

    def write(self, path: Path, name: str) -> None:
        shutil.copy(path, self._folder / name)

    def delete(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        pass


def test_a_store_is_added_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEMES, "folder", f"{__name__}:FolderStore")
    (tmp_path / "file").write_bytes(b"text")
    with local_copy(f"folder:/{tmp_path}") as copy:
        assert (copy / "file").read_bytes() == b"text"
        assert copy != tmp_path
    with pytest.raises(ConfigError, match=r"folder://BUCKET/FOLDER\. Given: nowhere://a$"), local_copy("nowhere://a"):
        pass


@pytest.mark.parametrize("folder", ["", "/", "/a", "/a/b/"])
def test_files_come_back_as_they_were_written(
    opens: Callable[[str], Store], bucket: str, folder: str, tmp_path: Path
) -> None:
    store = opens(bucket + folder)
    assert store.names() == []
    contents = {"empty": b"", "a file.txt": b"text", "sub/sub/large.bin": LARGE}
    for name, content in contents.items():
        path = tmp_path / "written"
        path.write_bytes(content)
        store.write(path, name)
    assert sorted(store.names()) == sorted(contents)
    for name, content in contents.items():
        store.read(name, tmp_path / "read")
        assert (tmp_path / "read").read_bytes() == content
    store.delete("empty")
    store.delete("never there")
    assert "empty" not in store.names()


def test_the_store_of_kubeflow_is_one_more_that_speaks_like_s3(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not bucket.startswith("s3:"):
        pytest.skip("is for S3 alone")
    (tmp_path / "file").write_bytes(b"text")
    opens(f"{bucket}/folder").write(tmp_path / "file", "file")
    same = bucket.replace("s3:", "minio:")
    assert opens(f"{same}/folder").names() == ["file"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setattr(s3, "_TRIES", 1)
    with pytest.raises(UnreachableError, match=r"http://minio-service\.kubeflow:9000"):
        opens(same).names()


def test_folders_whose_names_begin_alike_are_apart(opens: Callable[[str], Store], bucket: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    opens(f"{bucket}/run-10").write(tmp_path / "file", "file")
    assert opens(f"{bucket}/run-1").names() == []


# Google's client leaves the connection of an upload that was refused or broke to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("fault", "content"),
    [
        ("503", LARGE),
        ("slow", SMALL),
        ("cut-request", LARGE),
        # The server at hand forgets an upload of several requests with its last answer; Google's own does not.
        ("cut-answer", SMALL),
    ],
)
def test_passing_faults_are_outlived(
    opens: Callable[[str], Store], bucket: str, proxy: FaultyProxy, fault: str, content: bytes, tmp_path: Path
) -> None:
    store = opens(f"{bucket}/folder")
    (tmp_path / "written").write_bytes(content)
    for method in ("GET", "POST", "PUT", "DELETE"):
        proxy.next_faults(method, [fault])
    store.write(tmp_path / "written", "large.bin")
    assert store.names() == ["large.bin"]
    proxy.next_faults("GET", [fault])
    store.read("large.bin", tmp_path / "read")
    assert (tmp_path / "read").read_bytes() == content
    store.delete("large.bin")
    assert store.names() == []
    assert proxy.suffered.count(fault) >= 3
    # Here, where its warning is expected, and not in whichever test comes next.
    gc.collect()


def test_a_bucket_that_is_not_there_is_one_line(opens: Callable[[str], Store], bucket: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    store = opens(f"{bucket}-other/folder")
    for action in (store.names, lambda: store.write(tmp_path / "file", "file")):
        with pytest.raises(ConfigError, match=rf"^bucket: [^\n]* does not exist[^\n]* Given: {bucket}-other/folder$"):
            action()


def test_a_server_that_is_gone_is_one_line(
    opens: Callable[[str], Store], bucket: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_TRIES", 1)
    monkeypatch.setattr(gcs, "_RETRY", gcs._RETRY.with_timeout(0.1))
    store = opens(bucket)
    (tmp_path / "file").write_bytes(b"text")
    proxy.close()
    for action in (store.names, lambda: store.write(tmp_path / "file", "file")):
        with pytest.raises(UnreachableError) as raised:
            action()
        assert re.fullmatch(rf"bucket: does not answer as it should \(.*\)\. Given: {bucket}", str(raised.value))


def test_unreachable_server_names_the_proxy_variables(
    opens: Callable[[str], Store], bucket: str, proxy: FaultyProxy, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_TRIES", 1)
    monkeypatch.setattr(gcs, "_RETRY", gcs._RETRY.with_timeout(0.1))
    # Only here: the bucket is deleted at the test's end by the same server, without the proxy.
    with monkeypatch.context() as proxied:
        for variable in ("no_proxy", "NO_PROXY"):
            proxied.delenv(variable, raising=False)
        proxied.setenv("http_proxy", f"http://127.0.0.1:{unused_port}")
        with pytest.raises(UnreachableError) as raised:
            opens(bucket).names()
    note = "http_proxy may lead to a proxy that cannot reach it, see no_proxy"
    assert re.fullmatch(rf"bucket: .* \(.*; {note}\)\. Given: {bucket}", str(raised.value))


def test_missing_credentials_are_one_line(
    opens: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for address in ("s3://bucket/folder", "gs://bucket/folder"):
        with pytest.raises(ConfigError, match=rf"^bucket: no .*credentials are found; .* Given: {address}$"):
            opens(address).names()


def _put(store: Store, folder: Path, name: str, content: bytes) -> None:
    (folder / "content").write_bytes(content)
    store.write(folder / "content", name)


def test_what_grows_gets_the_rest_what_is_another_is_replaced(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path
) -> None:
    store = opens(f"{bucket}/logs")
    follower = FolderDownloader(store, tmp_path / "here")
    follower.update()
    _put(store, tmp_path, "train/events", b"one")
    _put(store, tmp_path, "other", b"one")
    follower.update()
    path = tmp_path / "here" / "train" / "events"
    assert path.read_bytes() == b"one"
    with path.open("rb") as reader:
        assert reader.read() == b"one"
        _put(store, tmp_path, "train/events", b"one, two")
        _put(store, tmp_path, "other", b"two")
        follower.update()
        # Whoever has the file open goes on in it.
        assert reader.read() == b", two"
    assert (tmp_path / "here" / "other").read_bytes() == b"two"
    store.delete("other")
    follower.update()
    assert (tmp_path / "here" / "other").read_bytes() == b"two"


def test_files_lie_where_they_are_placed_and_never_outside(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path
) -> None:
    store = opens(bucket)
    for name in ("a/logs/x", "b/y", "logs/", "../../out"):
        _put(store, tmp_path, name, b"text")
    FolderDownloader(store, tmp_path / "here").update()
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found - {"content"} == {"here/a/logs/x", "here/b/y"}
    FolderDownloader(store, tmp_path / "there", lambda name: f"run/{name}" if "/logs/" in name else None).update()
    assert [path.name for path in (tmp_path / "there").rglob("*") if path.is_file()] == ["x"]


def test_only_what_has_changed_is_read_again(opens: Callable[[str], Store], bucket: str, tmp_path: Path) -> None:
    store = opens(bucket)
    _put(store, tmp_path, "same", b"text")
    follower = FolderDownloader(store, tmp_path / "here")
    follower.update()
    (tmp_path / "here" / "same").unlink()
    follower.update()
    assert not (tmp_path / "here" / "same").exists()


class _Racing:
    """A store one of whose files is deleted between every listing and the reading."""

    def __init__(self, store: Store, deleted: str) -> None:
        self._store, self._deleted = store, deleted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def versions(self) -> dict[str, str]:
        found = self._store.versions()
        self._store.delete(self._deleted)
        return found


def test_folder_downloader_file_deleted_after_listing_is_left_out(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path
) -> None:
    store = opens(bucket)
    for name in ("checkpoints/1", "checkpoints/2", "history.csv"):
        _put(store, tmp_path, name, b"text")
    downloader = FolderDownloader(_Racing(store, "checkpoints/1"), tmp_path / "here")
    downloader.update()
    found = {
        path.relative_to(tmp_path / "here").as_posix() for path in (tmp_path / "here").rglob("*") if path.is_file()
    }
    assert found == {"checkpoints/2", "history.csv"}
