"""Files that a user names: other paths than readable regular files are single-line errors, and are not opened."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import compile as compile_command
from infra.settings import read_settings
from qcnn.artifact_io import load_description
from qcnn.atomic_files import readable, sha256_of
from qcnn.circuits.formats.loading import embed_file
from qcnn.errors import QcnnError
from qcnn.input_files import NotAFileError, read_input
from qcnn.results.weights import check_weights
from qcnn.tables.table import open_table
from qcnn.targets import target_class
from qcnn.targets.base import Compiles
from qcnn.targets.compiled_pipeline import read_package
from qcnn.yaml_files import read_file


def _fifo(path: Path) -> str:
    os.mkfifo(path)
    return ", a FIFO"


def _socket(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    return ", a socket"


def _device(path: Path) -> str:
    path.symlink_to("/dev/zero")
    return ", a device"


def _folder(path: Path) -> str:
    path.mkdir()
    return ""


SPECIAL = (_fifo, _socket, _device, _folder)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The path of a socket has at most 107 characters.
    monkeypatch.chdir(tmp_path)
    return Path()


def _readers(folder: Path) -> Iterator[tuple[str, Path, Callable[[Path], object]]]:
    """Yield the name in messages, the path and the reader of every type of file."""
    yield "config", folder / "a.yaml", read_file
    yield "model", folder / "a.qasm", lambda path: embed_file(str(path))
    yield "model", folder / "a.json", lambda path: embed_file(str(path))
    for ending in (".csv", ".parquet", ".npz", ".jsonl"):
        yield "data", folder / f"a{ending}", lambda path: open_table(str(path)).__enter__()
    yield "settings", folder / "b.yaml", read_settings
    yield "package", folder / "c.yaml", lambda path: read_package(path, target_class("kubeflow", Compiles))


@pytest.mark.parametrize("create", SPECIAL)
def test_path_of_no_regular_file_is_rejected(create: Callable[[Path], str], folder: Path) -> None:
    for name, path, read in _readers(folder):
        suffix = create(path)
        with pytest.raises(QcnnError) as error:
            read(path)
        assert str(error.value) == f"{name}: must be a file. Given: {path}{suffix}"


def test_loop_of_links_is_rejected_without_error_number(folder: Path) -> None:
    for name, path, read in _readers(folder):
        path.symlink_to(path.name)
        with pytest.raises(QcnnError) as error:
            read(path)
        what = "cannot be read" if name == "data" else "the file cannot be read"
        assert str(error.value) == f"{name}: {what} (Too many levels of symbolic links). Given: {path}"


@pytest.mark.parametrize("create", [_fifo, _socket, _device])
def test_special_file_in_artifact_is_rejected(create: Callable[[Path], str], folder: Path) -> None:
    kind = create(path := folder / "model.json").removeprefix(", ")
    for read in (lambda: load_description("model", path), lambda: _check_weights(path)):
        with pytest.raises(QcnnError) as error:
            read()
        assert str(error.value) == f"model: model.json cannot be read (it is {kind}). Given: {path}"
    with pytest.raises(NotAFileError):
        sha256_of(path)


def _check_weights(path: Path) -> None:
    with readable("model", path):
        check_weights(path, 1000)


@pytest.mark.parametrize("flag", ["--config", "--pod"])
def test_compile_with_fifo_is_rejected(flag: str, folder: Path) -> None:
    _fifo(path := folder / "file.yaml")
    error = CliRunner().invoke(compile_command.main, [flag, str(path)]).exception
    assert str(error) == f"{flag[2:]}: must be a file. Given: {path}, a FIFO"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"12345678", None),
        (b"\xef\xbb\xbf12345", None),
        (b"123456789", "the file must have at most 8 bytes"),
        (b"\xff", "the file cannot be read ('utf-8' codec can't decode"),
        (None, "no such file"),
    ],
)
def test_read_input_checks_size_and_encoding(content: bytes | None, message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    if message is None:
        assert read_input("config", path, 8).startswith("12345")
        return
    with pytest.raises(QcnnError) as error:
        read_input("config", path, 8, "given")
    assert str(error.value).startswith(f"config: {message}")
    assert str(error.value).endswith(". Given: given")


def test_read_input_rejects_invalid_and_unreadable_paths(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, reason in (
        (tmp_path / "file" / "below", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
        # The messages of Python 3.11 and 3.13.
        (Path("a\0b"), r"embedded null byte|stat: embedded null character in path"),
    ):
        with pytest.raises(QcnnError, match=rf"^config: the file cannot be read \({reason}\)\. Given: "):
            read_input("config", path, 8)


@pytest.mark.parametrize("prefix", ["/dev/fd/", "/proc/self/fd/"])
def test_open_pipe_is_read(prefix: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"qubits: 5\n")
    os.close(writing)
    try:
        assert read_file(Path(f"{prefix}{reading}")) == {"qubits": 5}
    finally:
        os.close(reading)
