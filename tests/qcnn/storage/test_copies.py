"""Local copies of files and folders in buckets."""

import contextlib
import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import ArtifactError, ConfigError
from qcnn.storage import copies, gcs, s3, sync
from qcnn.storage.copies import local_copy, local_file, new_copy, new_file_copy, working_copy
from qcnn.storage.store import UnreachableError
from qcnn.testing.stores import opened
from tests.qcnn.storage.faults import FaultyProxy


def _put(address: str, name: str, content: str, folder: Path) -> None:
    (folder / "put").write_text(content)
    with opened(address) as store:
        store.write(folder / "put", name)


def _get(address: str, name: str, folder: Path) -> str:
    with opened(address) as store:
        store.read(name, folder / "got")
    return (folder / "got").read_text()


def _names(address: str) -> list[str]:
    with opened(address) as store:
        return sorted(store.names())


def _on_write(monkeypatch: pytest.MonkeyPatch, report: Callable[[str], None]) -> None:
    """Report the name of each file after its upload."""
    for store in (s3.S3Store, gcs.GoogleStore):

        def write_and_report(self: Any, path: Path, name: str, write: Callable[..., None] = store.write) -> None:
            write(self, path, name)
            report(name)

        monkeypatch.setattr(store, "write", write_and_report)


def test_copies_of_local_folder_are_the_folder(tmp_path: Path) -> None:
    with local_copy(str(tmp_path)) as copy, new_copy(str(tmp_path), "last") as new:
        assert copy == new == tmp_path
    with working_copy(str(tmp_path), filled=True, written=True) as work:
        assert work.folder == tmp_path
        work.flush()
        work.check()


def test_local_copy_omits_file_that_is_deleted_after_listing(
    bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("checkpoints/1", "checkpoints/2", "history.csv"):
        _put(bucket, name, name, tmp_path)
    for store in (s3.S3Store, gcs.GoogleStore):

        def list_and_delete(self: Any, names: Callable[..., list[str]] = store.names) -> list[str]:
            found = names(self)
            self.delete("checkpoints/1")
            return found

        monkeypatch.setattr(store, "names", list_and_delete)
    with local_copy(bucket) as folder:
        found = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert found == {name: name for name in ("checkpoints/2", "history.csv")}


def test_local_file_of_local_path_is_the_file(tmp_path: Path) -> None:
    with new_file_copy(f"{tmp_path}/file") as new:
        new.write_text("text")
    with local_file(f"{tmp_path}/file") as copy:
        assert copy == tmp_path / "file"
        assert copy.read_text() == "text"


@pytest.mark.parametrize("folder", ["", "/a/b"])
def test_new_file_copy_in_bucket_is_atomic(bucket: str, folder: str) -> None:
    address = f"{bucket}{folder}/file.csv"
    with pytest.raises(UnicodeEncodeError), new_file_copy(address) as new:
        new.write_text("half of it \ud800")
    assert _names(bucket) == []
    with new_file_copy(address) as new:
        new.write_text("text")
    with local_file(address) as copy:
        assert (copy.name, copy.read_text()) == ("file.csv", "text")
    assert not copy.exists()
    with pytest.raises(ConfigError, match=rf"^uri: must name a file in a bucket\. Given: {bucket}$"):
        local_file(bucket).__enter__()


def test_new_copy_uploads_last_file_last_and_nothing_on_error(
    bucket: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{bucket}/runs/model"
    written: list[str] = []
    _on_write(monkeypatch, written.append)
    with new_copy(address, "model.json") as folder:
        assert not folder.exists()
        (folder / "saved_model").mkdir(parents=True)
        for name in ("model.json", "weights.h5", "saved_model/saved_model.pb", "a", "z"):
            (folder / name).write_text(name)
    assert written[-1] == "model.json"
    with local_copy(address) as copy:
        found = {path.relative_to(copy).as_posix(): path.read_text() for path in copy.rglob("*") if path.is_file()}
    assert found == {name: name for name in written}
    assert not copy.exists()
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(KeyError))
        folder = stack.enter_context(new_copy(f"{bucket}/other", "model.json"))
        folder.mkdir()
        (folder / "weights.h5").write_text("half")
        raise KeyError
    assert _names(f"{bucket}/other") == []


def test_local_copy_name_outside_of_folder_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "open_store", lambda _: _Outside())
    with pytest.raises(ArtifactError, match=r"leads out of its folder. Given: \.\./\.\./outside$"):
        local_copy("gs://bucket/folder").__enter__()


class _Outside:
    """Store with a name outside of its folder. Google's server accepts it, the servers of the tests do not."""

    def names(self) -> list[str]:
        return ["inside", "../../outside"]

    def read(self, name: str, path: Path) -> None:
        path.write_text(name)

    def close(self) -> None:
        pass


def test_working_copy_uploads_changes_and_deletions(bucket: str, tmp_path: Path) -> None:
    address = f"{bucket}/job/training"
    _put(address, "checkpoints/epoch-1", "one", tmp_path)
    _put(address, "history.csv", "1", tmp_path)
    with working_copy(address, filled=True, written=True) as work:
        assert (work.folder / "checkpoints/epoch-1").read_text() == "one"
        (work.folder / "checkpoints/epoch-2").write_text("two")
        (work.folder / "checkpoints/.unfinished-epoch-3").write_text("thr")
        (work.folder / "history.csv").write_text("1\n2")
        (work.folder / "checkpoints/epoch-1").unlink()
        _put(address, "of another process", "here", tmp_path)
        work.flush()
        assert _names(address) == ["checkpoints/epoch-2", "history.csv", "of another process"]
        assert _get(address, "history.csv", tmp_path) == "1\n2"
        (work.folder / "history.csv").write_text("1\n2\n3")
    assert _get(address, "history.csv", tmp_path) == "1\n2\n3"
    assert not work.folder.exists()


def test_working_copy_not_written_uploads_nothing(bucket: str, tmp_path: Path) -> None:
    _put(bucket, "history.csv", "1", tmp_path)
    with working_copy(bucket, filled=True) as work:
        (work.folder / "history.csv").write_text("mine")
        work.flush()
    with working_copy(bucket, written=True) as work:
        assert list(work.folder.iterdir()) == []
    assert _get(bucket, "history.csv", tmp_path) == "1"


def test_working_copy_uploads_new_files_within_the_block(
    bucket: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = threading.Event()
    _on_write(monkeypatch, lambda _: arrived.set())
    with working_copy(bucket, written=True) as work:
        (work.folder / "events").write_text("first")
        assert arrived.wait(60)
        assert _get(bucket, "events", tmp_path) == "first"


def test_working_copy_check_raises_error_of_rejected_upload(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    follow = sync.FolderUploader._follow

    def followed(self: sync.FolderUploader) -> None:
        follow(self)
        ended.set()

    monkeypatch.setattr(sync.FolderUploader, "_follow", followed)
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(working_copy(f"{bucket}-none", written=True))
        (work.folder / "events").write_text("first")
        assert ended.wait(60)
        with pytest.raises(ConfigError, match=r"^bucket: "):
            work.check()
        (work.folder / "events").unlink()


def test_working_copy_unreachable_bucket_fails_at_the_end(
    bucket: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_TRIES", 1)
    monkeypatch.setattr(gcs, "_RETRY", gcs._RETRY.with_timeout(0.1))
    monkeypatch.setattr(sync, "_RETRY_TIMEOUT_SECONDS", 0.0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(UnreachableError, match=r"^bucket: request failed"))
        work = stack.enter_context(working_copy(bucket, written=True))
        proxy.close()
        (work.folder / "events").write_text("first")
        work.check()


# Google's client leaves the connection of a rejected upload to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
def test_working_copy_full_bucket_logs_warning_and_waits(
    bucket: str,
    proxy: FaultyProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sync, "_RETRY_SECONDS", 0.1)
    monkeypatch.setattr(sync, "_RETRY_TIMEOUT_SECONDS", 0.5)
    with working_copy(bucket, written=True, patience=0.0) as work:
        _fill(proxy)
        (work.folder / "checkpoint").write_text("first")
        while "retrying, training pauses after 0 s" not in caplog.text:
            time.sleep(0.01)
        with pytest.raises(UnreachableError, match=rf"^bucket: request failed .*507.* Given: {bucket}$"):
            work.check()
        assert "the bucket has accepted no file for 0 s; training pauses until it does" in caplog.text
        monkeypatch.setattr(sync, "_RETRY_TIMEOUT_SECONDS", 600.0)
        _fill(proxy, 3)
        work.check()
        assert _get(bucket, "checkpoint", tmp_path) == "first"
    with working_copy(bucket, written=True, patience=3600.0) as work:
        _fill(proxy)
        (work.folder / "checkpoint").write_text("second")
        while len(caplog.text.split("retrying")) < 3:
            time.sleep(0.01)
        # `check` returns immediately before `patience` has passed.
        work.check()
        _fill(proxy, 0)
    gc.collect()


def _fill(proxy: FaultyProxy, count: int = 100_000) -> None:
    """Let the next `count` uploads fail with the status of a full bucket."""
    for method in ("POST", "PUT"):
        proxy.next_faults(method, ["507"] * count)
