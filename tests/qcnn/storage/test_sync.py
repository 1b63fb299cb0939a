"""Stores and downloads of folders in buckets, with each scheme."""

import contextlib
import gc
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.storage import gcs, s3, sync
from qcnn.storage.copies import local_copy
from qcnn.storage.store import SCHEMES, BucketUri, Store, UnreachableError
from qcnn.storage.sync import FolderDownloader, FolderUploader
from qcnn.testing.stores import ConditionalStoreContract, StoreContract, put
from tests.qcnn.storage.faults import FaultyProxy

# Uploaded in one request and in several.
SMALL, LARGE = (bytes(range(256)) * 1024 * count for count in (8, 48))


class FolderStore:
    """Custom store whose buckets are local folders."""

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


def test_schemes_with_custom_store_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEMES, "folder", f"{__name__}:FolderStore")
    (tmp_path / "file").write_bytes(b"text")
    with local_copy(f"folder:/{tmp_path}") as copy:
        assert (copy / "file").read_bytes() == b"text"
        assert copy != tmp_path
    with (
        pytest.raises(ConfigError, match=r"folder://BUCKET/FOLDER, or .* Given: nowhere://a$"),
        local_copy("nowhere://a"),
    ):
        pass


class TestStores(StoreContract, ConditionalStoreContract):
    @pytest.fixture
    def bucket(self, bucket: str) -> str:
        return bucket


def test_store_of_minio_scheme_uses_s3_protocol(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not bucket.startswith("s3:"):
        pytest.skip("only for S3")
    (tmp_path / "file").write_bytes(b"text")
    opens(f"{bucket}/folder").write(tmp_path / "file", "file")
    same = bucket.replace("s3:", "minio:")
    assert opens(f"{same}/folder").names() == ["file"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setattr(s3, "_TRIES", 1)
    with pytest.raises(UnreachableError, match=r"http://minio-service\.kubeflow:9000"):
        opens(same).names()


# Google's client leaves the connection of a rejected or broken upload to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("fault", "content"),
    [
        ("503", LARGE),
        ("slow", SMALL),
        ("cut-request", LARGE),
        # The test server drops an upload of several requests with its last response; Google's server does not.
        ("cut-answer", SMALL),
    ],
)
def test_store_retries_transient_faults(
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
    # The warning is expected in this test, not in the next one.
    gc.collect()


def test_store_missing_bucket_raises_config_error(opens: Callable[[str], Store], bucket: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    store = opens(f"{bucket}-other/folder")
    for action in (store.names, lambda: store.write(tmp_path / "file", "file")):
        with pytest.raises(ConfigError, match=rf"^bucket: [^\n]* does not exist[^\n]* Given: {bucket}-other/folder$"):
            action()


def test_store_stopped_server_raises_unreachable_error(
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
        assert re.fullmatch(rf"bucket: request failed \(.*\)\. Given: {bucket}", str(raised.value))


def test_store_unreachable_server_names_proxy_variables(
    opens: Callable[[str], Store], bucket: str, proxy: FaultyProxy, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_TRIES", 1)
    monkeypatch.setattr(gcs, "_RETRY", gcs._RETRY.with_timeout(0.1))
    # Limited to this block: the bucket is deleted after the test, without the proxy.
    with monkeypatch.context() as proxied:
        for variable in ("no_proxy", "NO_PROXY"):
            proxied.delenv(variable, raising=False)
        proxied.setenv("http_proxy", f"http://127.0.0.1:{unused_port}")
        with pytest.raises(UnreachableError) as raised:
            opens(bucket).names()
    note = "http_proxy may lead to a proxy that cannot reach it, see no_proxy"
    assert re.fullmatch(rf"bucket: .* \(.*; {note}\)\. Given: {bucket}", str(raised.value))


def test_store_missing_credentials_raises_config_error(
    opens: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for address in ("s3://bucket/folder", "gs://bucket/folder"):
        with pytest.raises(ConfigError, match=rf"^bucket: no .*credentials found; .* Given: {address}$"):
            opens(address).names()


def test_folder_downloader_appends_to_grown_replaces_changed(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path
) -> None:
    store = opens(f"{bucket}/logs")
    downloader = FolderDownloader(store, tmp_path / "here")
    downloader.update()
    put(store, tmp_path, {"train/events": b"one"})
    put(store, tmp_path, {"other": b"one"})
    downloader.update()
    path = tmp_path / "here" / "train" / "events"
    assert path.read_bytes() == b"one"
    with path.open("rb") as reader:
        assert reader.read() == b"one"
        put(store, tmp_path, {"train/events": b"one, two"})
        put(store, tmp_path, {"other": b"two"})
        downloader.update()
        # A reader of the open file gets the new end.
        assert reader.read() == b", two"
    assert (tmp_path / "here" / "other").read_bytes() == b"two"
    store.delete("other")
    downloader.update()
    assert (tmp_path / "here" / "other").read_bytes() == b"two"


def test_folder_downloader_local_names_stay_in_folder(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path
) -> None:
    store = opens(bucket)
    for name in ("a/logs/x", "b/y", "logs/", "../../out"):
        put(store, tmp_path, {name: b"text"})
    FolderDownloader(store, tmp_path / "here").update()
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found - {"content-to-write"} == {"here/a/logs/x", "here/b/y"}
    FolderDownloader(store, tmp_path / "there", lambda name: f"run/{name}" if "/logs/" in name else None).update()
    assert [path.name for path in (tmp_path / "there").rglob("*") if path.is_file()] == ["x"]


def test_folder_downloader_skips_unchanged_files(opens: Callable[[str], Store], bucket: str, tmp_path: Path) -> None:
    store = opens(bucket)
    put(store, tmp_path, {"same": b"text"})
    downloader = FolderDownloader(store, tmp_path / "here")
    downloader.update()
    (tmp_path / "here" / "same").unlink()
    downloader.update()
    assert not (tmp_path / "here" / "same").exists()


class _Racing:
    """Store in which a file is deleted between each listing and the download."""

    def __init__(self, store: Store, deleted: str) -> None:
        self._store, self._deleted = store, deleted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def versions(self) -> dict[str, str]:
        found = self._store.versions()
        self._store.delete(self._deleted)
        return found


def test_folder_downloader_file_deleted_after_listing_is_skipped(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path
) -> None:
    store = opens(bucket)
    for name in ("checkpoints/1", "checkpoints/2", "history.csv"):
        put(store, tmp_path, {name: b"text"})
    downloader = FolderDownloader(_Racing(store, "checkpoints/1"), tmp_path / "here")
    downloader.update()
    found = {
        path.relative_to(tmp_path / "here").as_posix() for path in (tmp_path / "here").rglob("*") if path.is_file()
    }
    assert found == {"checkpoints/2", "history.csv"}


class _TrainingStore(FolderStore):
    """Store that checks after each change whether training can resume, while the chief saves during each request.

    A row of the history is one byte. A checkpoint refers to as many rows as its number.
    """

    def __init__(self, bucket: Path, training: Path, saves: int) -> None:
        super().__init__(BucketUri("folder", "", str(bucket)))
        self._bucket, self._training, self._saves = bucket, training, saves
        self.written: list[str] = []

    def save(self) -> None:
        """Append a row and write a checkpoint, of which two are kept."""
        with (self._training / "history.csv").open("a") as file:
            file.write("x")
        rows = (self._training / "history.csv").stat().st_size
        (self._training / f"epoch-{rows:03d}").write_text("")
        (self._training / f"epoch-{rows - 2:03d}").unlink(missing_ok=True)

    def write(self, path: Path, name: str) -> None:
        self.written.append(name)
        for _ in range(self._saves):
            self.save()
        super().write(path, name)
        self._check()

    def delete(self, name: str) -> None:
        super().delete(name)
        self._check()
        assert self.checkpoints

    @property
    def checkpoints(self) -> list[int]:
        return [int(name.removeprefix("epoch-")) for name in self.names() if name.startswith("epoch-")]

    def _check(self) -> None:
        rows = (self._bucket / "history.csv").stat().st_size
        assert max(self.checkpoints, default=0) <= rows


@pytest.mark.parametrize("saves", [0, 1, 5])
def test_folder_uploader_bucket_can_always_be_resumed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: int
) -> None:
    monkeypatch.setattr(sync, "_SCAN_SECONDS", 3600.0)
    monkeypatch.setattr(sync, "_MIN_INTERVAL_RATIO", 0.0)
    bucket, training = tmp_path / "bucket", tmp_path / "training"
    for folder in (bucket, training):
        folder.mkdir()
    store = _TrainingStore(bucket, training, saves)
    with contextlib.closing(FolderUploader(training, store, 60.0, lambda name: name == "history.csv")) as uploader:
        for interval in (0.0, 3600.0):
            monkeypatch.setattr(sync, "_MIN_FIRST_INTERVAL_SECONDS", interval)
            for _ in range(2):
                store.save()
                uploads = len(store.written)
                uploader._copy(everything=False)
                assert store.checkpoints
        # The history waits for its interval, and the checkpoints wait for the history.
        assert len(store.written) == uploads
        uploader.flush()
    assert len(store.written) > uploads
