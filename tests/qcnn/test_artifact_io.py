"""Malicious artifacts: rejected with a single-line error, without code execution or excessive memory."""

import io
import json
import os
import re
import resource
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qcnn import data
from qcnn.artifact_io import FILES, check_files, load_description, save_description
from qcnn.circuits import circuits
from qcnn.errors import ArtifactError
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints

_CHECKPOINT = "epoch-000001.npz"
# More than a reader may allocate. Test files of this size are sparse.
_HUGE = 2**30


class Harm:
    """Object whose unpickling creates a folder, as evidence of code execution."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(self._path),)


def _archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def _header(shape: str, descr: str = "'<i4'") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def _pickled(folder: Path, path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, train_qubit=np.array([Harm(folder / "harm")], object), description=np.array("{}"))


def _plain_pickle(folder: Path, path: Path) -> None:
    np.array([Harm(folder / "harm")], object).dump(path)


def _bomb(folder: Path, path: Path) -> None:
    """Write an archive that unpacks to a thousand times its size."""
    content = io.BytesIO()
    np.save(content, np.zeros(2**22, np.int32))
    _archive(path, {"train_qubit": content.getvalue(), "description": content.getvalue()}, zipfile.ZIP_DEFLATED)


def _overlapping(folder: Path, path: Path) -> None:
    """Write an archive that lists the same content many times."""
    _archive(path, {"train_qubit": _header("(1000,)") + bytes(4000)})
    with zipfile.ZipFile(path, "a") as archive:
        member = archive.infolist()[0]
        archive.filelist.extend([member] * 100)
        archive._didModify = True  # type: ignore[attr-defined]


def _rows(shape: str) -> Callable[[Path, Path], None]:
    def write(folder: Path, path: Path) -> None:
        _archive(path, {"train_qubit": _header(shape), "description": _header(shape)})

    return write


def _one_array(folder: Path, path: Path) -> None:
    """Write an array instead of an archive, with far more rows in the header than in the file."""
    path.write_bytes(_header("(1000000000000,)"))


def _sparse(folder: Path, path: Path) -> None:
    """Write a sparse file of 1 TiB."""
    with path.open("wb") as file:
        file.truncate(2**40)


HOSTILE = {
    "an array of objects": _pickled,
    "a pickle": _plain_pickle,
    "a bomb": _bomb,
    "overlapping parts": _overlapping,
    "a million million rows": _rows("(1000000000000,)"),
    "more rows than numbers": _rows("(10000000000000000000000000000000,)"),
    "a negative number of rows": _rows("(-1,)"),
    "a row of rows that overflows": _rows("(4294967296, 4294967296)"),
    "one array": _one_array,
    "a terabyte": _sparse,
}


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Limit the memory of the process to its current size and 256 MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _HUGE // 4, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def _dataset(folder: Path) -> tuple[Path, Callable[[], Any]]:
    """Write a dataset without the digest of its archive, which an attacker would replace."""
    data.save(data.generate(from_mapping({"qubits": 4, "rounds": 10})), folder / "dataset")
    path = folder / "dataset" / "dataset.json"
    description = load_description("dataset", path)
    del description["files"]
    save_description(description, path)
    return folder / "dataset" / "dataset.npz", lambda: data.load(folder / "dataset")


def _checkpoint(folder: Path) -> tuple[Path, Callable[[], Any]]:
    return folder / _CHECKPOINT, lambda: checkpoints.load_latest(folder)


@pytest.mark.parametrize("artifact", [_dataset, _checkpoint])
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.usefixtures("little_memory")
def test_load_malicious_archive_is_rejected_without_side_effects(
    tmp_path: Path,
    artifact: Callable[[Path], tuple[Path, Callable[[], Any]]],
    hostile: Callable[[Path, Path], None],
) -> None:
    path, read = artifact(tmp_path)
    hostile(tmp_path, path)
    with pytest.raises(ArtifactError, match=r"^[^\n]*Given: [^\n]*$"):
        read()
    assert not (tmp_path / "harm").exists()


@pytest.mark.usefixtures("little_memory")
def test_load_oversized_description_is_rejected(tmp_path: Path) -> None:
    with (tmp_path / "model.json").open("wb") as file:
        file.truncate(_HUGE)
    with pytest.raises(ArtifactError, match=rf"it has {_HUGE} bytes, more than \d+\)"):
        load_description("model", tmp_path / "model.json")


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"schema_version": 2, "a": ' + "9" * 10_000 + "}", "[1]", '"\\ud800"']
)
def test_load_description_invalid_json_is_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(ArtifactError, match=r"^model: model\.json is damaged \("):
        load_description("model", tmp_path / "model.json")


@pytest.mark.parametrize("model", ["os:mkdir", "subprocess:check_output", "importlib.resources:files", "builtins:list"])
def test_build_standard_library_function_is_rejected(model: str) -> None:
    config = from_mapping(json.loads(json.dumps({"qubits": 4, "model": model})))
    message = rf"^model: must not be a function of Python's standard library\. Given: {model}$"
    with pytest.raises(Exception, match=message):
        circuits.build(config.model, config.qubits)


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [(_bomb, "it is compressed"), (_overlapping, "its arrays are larger than the file"), (_plain_pickle, "no archive")],
)
def test_load_latest_damaged_archive_reports_reason(
    tmp_path: Path, hostile: Callable[[Path, Path], None], reason: str
) -> None:
    path, read = _checkpoint(tmp_path)
    hostile(tmp_path, path)
    with pytest.raises(ArtifactError, match=reason):
        read()


def test_load_description_returns_saved_values(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save_description({"qubits": 4, "loss": 1 / 3}, path)
    assert load_description("model", path) == {"schema_version": 2, "qubits": 4, "loss": 1 / 3}


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """Description of the files `weights` and `program/a/b`."""
    (tmp_path / "program" / "a").mkdir(parents=True)
    for name in ("weights", "program/a/b"):
        (tmp_path / name).write_bytes(name.encode())
    save_description({}, tmp_path / "model.json", ["weights", "program/a/b"])
    return tmp_path / "model.json"


def _check(path: Path, part: str = "program", max_bytes: int = 100) -> None:
    check_files("model", path, load_description("model", path)[FILES], part, max_bytes)


def test_check_files_checks_only_the_given_part(described: Path) -> None:
    _check(described, "weights")
    (described.parent / "weights").write_bytes(b"")
    (described.parent / "notes").write_bytes(b"")
    _check(described)


def _replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda root: (root / "a" / "b").write_bytes(b"program/a/c"),
            "program/a/b is damaged or of another model: its",
        ),
        (lambda root: (root / "a" / "b").unlink(), "b is missing"),
        (lambda root: (root / "c").write_bytes(b""), "program must have only files that are listed in model.json"),
        (lambda root: shutil.rmtree(root), "program is missing"),
        (lambda root: _replace_by_pipe(root / "a" / "b"), "b cannot be read (it is a FIFO)"),
        (lambda root: _sparse(root, root / "a" / "b"), "b is damaged (it has 1099511627776 bytes, more than 100)"),
    ],
)
def test_check_files_of_changed_folder_raises(described: Path, change: Callable[[Path], object], message: str) -> None:
    change(described.parent / "program")
    with pytest.raises(ArtifactError, match=rf"^model: {re.escape(message)}.* Given: {described.parent}"):
        _check(described)


def test_check_files_limits_total_size(described: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^model: b is damaged \(it has 11 bytes, more than 10\)"):
        _check(described, max_bytes=10)


def test_load_description_of_earlier_version_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text('{"trials": []}')
    assert load_description("study", path, unversioned=True) == {"trials": []}
    path.write_text(json.dumps({"trials": [], "sha256": "0" * 64}))
    with pytest.raises(ArtifactError, match=r"^study: study\.json is damaged"):
        load_description("study", path, unversioned=True)


def test_load_description_version_1_without_digest(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"schema_version": 1, "qubits": 4}')
    assert load_description("model", path)["qubits"] == 4


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"schema_version": 2, "qubits": 4}, r"model.json is damaged \(sha256 is not that of the content\)"),
        ({"schema_version": 1, "sha256": "0" * 64}, r"model.json is damaged \(sha256 is not that of the content\)"),
        ({"schema_version": 3}, r"schema_version must be one of \(1, 2\). Given: 3 in "),
        ({"schema_version": True}, r"schema_version must be one of \(1, 2\). Given: True in "),
        ({"qubits": 4}, "model.json is damaged"),
        ([], "model.json is damaged"),
    ],
)
def test_load_description_changed_or_unknown_is_rejected(content: object, line: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match=f"^model: {line}"):
        load_description("model", tmp_path / "model.json")
