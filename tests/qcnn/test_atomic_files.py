"""Atomic creation of files and folders."""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qcnn.atomic_files import (
    complete_files,
    exclusive_lock,
    folder_lock,
    is_locked,
    new_file,
    new_folder,
    readable,
)
from qcnn.errors import ArtifactError


def test_new_folder_appears_only_when_complete(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"
    with new_folder(folder) as unfinished:
        (unfinished / "file").write_text("content")
        assert not folder.exists()
    assert (folder / "file").read_text() == "content"
    with pytest.raises(ArtifactError, match=r"^output: the folder must be new or empty. Given: "), new_folder(folder):
        pass
    with pytest.raises(KeyError), new_folder(tmp_path / "other"):
        raise KeyError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep"]


def test_new_folder_without_rename_moves_files_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gcsfuse mounts of buckets rename files only."""
    renamed: list[str] = []
    rename = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if path.is_dir():
            raise OSError(errno.EMFILE, "Too many open files")
        renamed.append(path.name)
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with new_folder(tmp_path / "model") as unfinished:
        (unfinished / "variables").mkdir()
        for name in ("variables/z", "b", "a"):
            (unfinished / name).write_text(name)
    assert renamed == ["z", "b", "a"]
    assert (tmp_path / "model" / "variables" / "z").read_text() == "variables/z"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_new_file_replaces_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("old")
    with contextlib.suppress(KeyError), new_file(path) as unfinished:
        unfinished.write_text("ha")
        raise KeyError
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["history.csv"]
    with new_file(path) as unfinished:
        unfinished.write_text("new")
        # Unfinished files must not be mirrored.
        assert complete_files(tmp_path) == ["history.csv"]
    assert path.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["history.csv"]


def test_threads_write_the_same_file_side_by_side(tmp_path: Path) -> None:
    """The file of the thread that ends last remains, with its own content."""
    begun, ended = threading.Barrier(2), threading.Event()

    def write(content: str, before: Callable[[], object], after: Callable[[], object]) -> None:
        with new_file(tmp_path / "metrics") as unfinished:
            begun.wait(60)
            before()
            unfinished.write_text(content)
        after()

    with ThreadPoolExecutor(2) as pool:
        last = pool.submit(write, "last", lambda: ended.wait(60), lambda: None)
        pool.submit(write, "first", lambda: None, ended.set).result(60)
        last.result(60)
    assert (tmp_path / "metrics").read_text() == "last"
    assert [path.name for path in tmp_path.iterdir()] == ["metrics"]


def test_new_folder_has_the_mode_of_other_folders(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as unfinished:
        (unfinished / "file").touch()
    (tmp_path / "other").mkdir()
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_exclusive_lock_removes_unfinished_files(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".unfinished-epoch-000001.npz.1").write_text("half")
    (tmp_path / "checkpoints" / "epoch-000001.npz").write_text("whole")
    with exclusive_lock(tmp_path):
        assert complete_files(tmp_path) == ["checkpoints/epoch-000001.npz"]
        assert not list(tmp_path.rglob(".unfinished-*"))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (FileNotFoundError(), "model: model.json is missing. Given: {folder}"),
        (
            PermissionError(13, "Permission denied"),
            r"model: model.json cannot be read \(.* denied\). Given: ",
        ),
        (OSError("not an archive"), r"model: model.json is damaged \(not an archive\). Given: "),
        (KeyError("qubits"), r"model: model.json is damaged \(KeyError: 'qubits'\). Given: "),
        (ArtifactError("model: of another version. Given: 9"), "model: of another version. Given: 9"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_readable_converts_exceptions_to_artifact_errors(error: Exception, line: str, tmp_path: Path) -> None:
    with (
        pytest.raises(ArtifactError, match=f"^{line.format(folder=tmp_path)}"),
        readable("model", tmp_path / "model.json"),
    ):
        raise error


def test_unwritable_folder_raises_artifact_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for write in (new_file, new_folder, exclusive_lock):
        with (
            pytest.raises(
                ArtifactError, match=r"^output: cannot be written \((Not a directory|File exists)\). Given: "
            ),
            write(tmp_path / "file" / "below" / "it"),
        ):
            pass


def test_exclusive_lock_keeps_files_of_locked_subfolders(tmp_path: Path) -> None:
    own, others = tmp_path / "checkpoints", tmp_path / "evaluation" / "checkpoints"
    for folder in (own, others):
        folder.mkdir(parents=True)
        (folder / ".unfinished-epoch-000001.npz.1").write_text("half")
    held = os.open(tmp_path / "evaluation", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with exclusive_lock(tmp_path):
            assert [path.parent for path in tmp_path.rglob(".unfinished-*")] == [others]
    finally:
        os.close(held)
    with exclusive_lock(tmp_path):
        assert not list(tmp_path.rglob(".unfinished-*"))


def test_folder_lock_excludes_other_threads_and_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.atomic_files._LOCK_TIMEOUT_SECONDS", 0.0)
    folder = tmp_path / "study"
    with folder_lock("study", folder):
        assert is_locked(folder)
        with (
            pytest.raises(
                ArtifactError, match=rf"^study: the folder must not be in use by another study\. Given: {folder}$"
            ),
            folder_lock("study", folder),
        ):
            pass
    assert not is_locked(folder)
    with folder_lock("study", folder):
        pass


def test_folder_lock_without_support_of_file_system_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with folder_lock("run", tmp_path):
        assert is_locked(tmp_path)
