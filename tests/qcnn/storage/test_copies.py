"""Local copies of folders in buckets, as readers and writers see them."""

import contextlib
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import ArtifactError, ConfigError
from qcnn.storage import copies, gcs, s3, sync
from qcnn.storage.copies import local_copy, local_file, new_copy, new_file_copy, working_copy
from qcnn.storage.store import UnreachableError
from tests.qcnn.storage.conftest import opened
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


def _on_write(monkeypatch: pytest.MonkeyPatch, hear: Callable[[str], None]) -> None:
    """Have every name told that was written."""
    for store in (s3.S3Store, gcs.GoogleStore):

        def told(self: Any, path: Path, name: str, write: Callable[..., None] = store.write) -> None:
            write(self, path, name)
            hear(name)

        monkeypatch.setattr(store, "write", told)


def test_a_local_folder_is_its_own_copy(tmp_path: Path) -> None:
    with local_copy(str(tmp_path)) as copy, new_copy(str(tmp_path), "last") as new:
        assert copy == new == tmp_path
    with working_copy(str(tmp_path), filled=True, written=True) as work:
        assert work.folder == tmp_path
        work.flush()
        work.check()


def test_a_local_file_is_its_own_copy(tmp_path: Path) -> None:
    with new_file_copy(f"{tmp_path}/file") as new:
        new.write_text("text")
    with local_file(f"{tmp_path}/file") as copy:
        assert copy == tmp_path / "file"
        assert copy.read_text() == "text"


@pytest.mark.parametrize("folder", ["", "/a/b"])
def test_a_file_in_a_bucket_is_whole_or_not_there(bucket: str, folder: str) -> None:
    address = f"{bucket}{folder}/file.csv"
    with pytest.raises(UnicodeEncodeError), new_file_copy(address) as new:
        new.write_text("half of it \ud800")
    assert _names(bucket) == []
    with new_file_copy(address) as new:
        new.write_text("text")
    with local_file(address) as copy:
        assert (copy.name, copy.read_text()) == ("file.csv", "text")
    assert not copy.exists()
    with pytest.raises(ConfigError, match=rf"^address: must name a file in a bucket\. Given: {bucket}$"):
        local_file(bucket).__enter__()


def test_a_result_is_in_the_bucket_with_its_last_file_or_not_at_all(
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


def test_no_file_leads_out_of_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "open_store", lambda _: _Outside())
    with pytest.raises(ArtifactError, match=r"leads out of its folder. Given: \.\./\.\./outside$"):
        local_copy("gs://bucket/folder").__enter__()


class _Outside:
    """No server at hand keeps such a name; Google's does."""

    def names(self) -> list[str]:
        return ["inside", "../../outside"]

    def read(self, name: str, path: Path) -> None:
        path.write_text(name)

    def close(self) -> None:
        pass


def test_a_bucket_follows_what_is_worked_on(bucket: str, tmp_path: Path) -> None:
    address = f"{bucket}/job/training"
    _put(address, "checkpoints/epoch-1", "one", tmp_path)
    _put(address, "history.csv", "1", tmp_path)
    with working_copy(address, filled=True, written=True) as work:
        assert (work.folder / "checkpoints/epoch-1").read_text() == "one"
        (work.folder / "checkpoints/epoch-2").write_text("two")
        (work.folder / "checkpoints/.unfinished-epoch-3").write_text("thr")
        (work.folder / "history.csv").write_text("1\n2")
        (work.folder / "checkpoints/epoch-1").unlink()
        _put(address, "somebody else's", "here", tmp_path)
        work.flush()
        assert _names(address) == ["checkpoints/epoch-2", "history.csv", "somebody else's"]
        assert _get(address, "history.csv", tmp_path) == "1\n2"
        (work.folder / "history.csv").write_text("1\n2\n3")
    assert _get(address, "history.csv", tmp_path) == "1\n2\n3"
    assert not work.folder.exists()


def test_a_copy_that_is_only_read_changes_nothing(bucket: str, tmp_path: Path) -> None:
    _put(bucket, "history.csv", "1", tmp_path)
    with working_copy(bucket, filled=True) as work:
        (work.folder / "history.csv").write_text("mine")
        work.flush()
    with working_copy(bucket, written=True) as work:
        assert list(work.folder.iterdir()) == []
    assert _get(bucket, "history.csv", tmp_path) == "1"


def test_new_files_reach_the_bucket_while_work_goes_on(
    bucket: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = threading.Event()
    _on_write(monkeypatch, lambda _: arrived.set())
    with working_copy(bucket, written=True) as work:
        (work.folder / "events").write_text("first")
        assert arrived.wait(60)
        assert _get(bucket, "events", tmp_path) == "first"


def test_what_a_bucket_refuses_is_said_while_work_goes_on(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_work_goes_on_without_its_bucket_but_does_not_end_well(
    bucket: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_TRIES", 1)
    monkeypatch.setattr(gcs, "_RETRY", gcs._RETRY.with_timeout(0.1))
    monkeypatch.setattr(sync, "_LAST_SECONDS", 0.0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(UnreachableError, match=r"^bucket: does not answer"))
        work = stack.enter_context(working_copy(bucket, written=True))
        proxy.close()
        (work.folder / "events").write_text("first")
        work.check()


# Google's client leaves the connection of an upload that was refused to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
def test_full_bucket_is_warned_of_and_then_waited_for(
    bucket: str,
    proxy: FaultyProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sync, "_AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(sync, "_LAST_SECONDS", 0.5)
    with working_copy(bucket, written=True, patience=0.0) as work:
        _fill(proxy)
        (work.folder / "checkpoint").write_text("first")
        while "it is tried again, and training waits for it after 0 s" not in caplog.text:
            pass
        with pytest.raises(UnreachableError, match=rf"^bucket: does not answer .*507.* Given: {bucket}$"):
            work.check()
        assert "the bucket has taken no file for 0 s; training waits for it" in caplog.text
        monkeypatch.setattr(sync, "_LAST_SECONDS", 600.0)
        _fill(proxy, 3)
        work.check()
        assert _get(bucket, "checkpoint", tmp_path) == "first"
    with working_copy(bucket, written=True, patience=3600.0) as work:
        _fill(proxy)
        (work.folder / "checkpoint").write_text("second")
        while len(caplog.text.split("it is tried again")) < 3:
            pass
        # Until then the work goes on.
        work.check()
        _fill(proxy, 0)
    gc.collect()


def _fill(proxy: FaultyProxy, count: int = 100_000) -> None:
    """Have a bucket take no file, in so many requests."""
    for method in ("POST", "PUT"):
        proxy.next_faults(method, ["507"] * count)
