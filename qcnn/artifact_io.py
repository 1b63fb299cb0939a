"""Reading of untrusted files, such as those in a bucket, with bounded memory and no code execution."""

import contextlib
import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from qcnn.atomic_files import complete_files, readable, sha256_of
from qcnn.errors import ArtifactError
from qcnn.input_files import check_regular

# Maximum bytes of a description: kilobytes of JSON, or a study with all its trials.
_MAX_TEXT_BYTES = 2**24
# First bytes of an archive. NumPy reads any other file as a single array, or by pickle.
_ARCHIVE = b"PK\x03\x04"


def check_size(path: Path, max_bytes: int) -> None:
    """Raise an error if a file is too large, or no regular file.

    Raises:
        ValueError: If the file has more than `max_bytes` bytes.
        OSError: If it is no regular file, or the size cannot be read.
    """
    check_regular(path)
    if (size := path.stat().st_size) > max_bytes:
        raise ValueError(f"it has {size} bytes, more than {max_bytes}")


def text_of(path: Path) -> str:
    """Return the text of a description.

    Raises:
        ValueError: If the file is too large or not UTF-8.
        OSError: If the file cannot be read.
    """
    check_size(path, _MAX_TEXT_BYTES)
    return path.read_text(encoding="utf-8")


@contextlib.contextmanager
def open_arrays(path: Path, max_bytes: int) -> Iterator[NpzFile]:
    """Context manager that opens an archive of np.savez of at most `max_bytes` bytes.

    The arrays need at most the same amount of memory.
    np.savez does not compress. Compressed archives are rejected, because they may need more memory than their size.

    Raises:
        ValueError: If the file is too large, compressed, or no archive of arrays. Reading an array of Python objects
            raises it, too.
        zipfile.BadZipFile: If the archive is damaged.
        OSError: If the file cannot be read.
    """
    check_size(path, max_bytes)
    with path.open("rb") as file:
        if file.read(len(_ARCHIVE)) != _ARCHIVE:
            raise ValueError("it is no archive of arrays")
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its arrays are larger than the file")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            yield arrays


# Version 1 has no digest of its content.
_VERSIONS = (1, 2)
_VERSION, _DIGEST = "schema_version", "sha256"
# Key of the SHA-256 of the files that a description covers, by name relative to its folder, with "/" between parts.
FILES = "files"


class _UnknownVersionError(ValueError):
    """Error of a description of another version."""


def seal(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a description: the values, its schema version, and the digest of both."""
    content = {_VERSION: _VERSIONS[-1], **values}
    return {**content, _DIGEST: _digest(content)}


def unseal(text: str, *, unversioned: bool = False) -> dict[str, Any]:
    """Return the values of a description from its JSON text, with their schema version.

    Args:
        text: JSON text of the result of `seal`.
        unversioned: Whether earlier versions wrote this description with neither a version nor a digest.

    Raises:
        ValueError: If the text is damaged or changed, or its version is unknown.
    """
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it does not describe an artifact")
    if unversioned and not {_VERSION, _DIGEST} & content.keys():
        return content
    if _VERSION not in content:
        raise ValueError("it does not describe an artifact")
    version, digest = content[_VERSION], content.pop(_DIGEST, None)
    if type(version) is not int or version not in _VERSIONS:
        raise _UnknownVersionError(f"{_VERSION} must be one of {_VERSIONS}. Given: {version}")
    if digest != _digest(content) and (version > 1 or digest is not None):
        raise ValueError(f"{_DIGEST} is not that of the content")
    if not isinstance(content.get(FILES, {}), dict):
        raise ValueError(f"{FILES} must be a mapping")
    return content


def save_description(values: Mapping[str, Any], path: Path, files: Iterable[str] = ()) -> None:
    """Write the description of an artifact as JSON, with the digests of its content and of its files.

    Args:
        values: Content of the description.
        path: File to write.
        files: Names of the files that it covers, relative to its folder.
    """
    digests = {name: sha256_of(path.parent / name) for name in sorted(files)}
    content = seal({**values, **({FILES: digests} if digests else {})})
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_description(kind: str, path: Path, *, unversioned: bool = False) -> dict[str, Any]:
    """Read the description of an artifact that `save_description` wrote.

    Args:
        kind: Type of the artifact, for messages.
        path: File to read.
        unversioned: Whether earlier versions wrote this description with neither a version nor a digest.

    Raises:
        ArtifactError: If the file is missing, damaged or changed, or its version is unknown.
    """
    with readable(kind, path):
        try:
            return unseal(text_of(path), unversioned=unversioned)
        except _UnknownVersionError as error:
            raise ArtifactError(f"{kind}: {error} in {path}") from None


def check_files(kind: str, path: Path, digests: Mapping[str, str], part: str, max_bytes: int) -> None:
    """Check a file, or all files of a subfolder, against a description before they are read.

    Args:
        kind: Type of the artifact, for messages.
        path: Description.
        digests: SHA-256 of each file by name, relative to the folder of the description.
        part: Name of the file or subfolder.
        max_bytes: Maximum size of all its files.

    Raises:
        ArtifactError: If a file is missing, damaged, changed, not in the description, or too large.
    """
    root = path.parent / part
    with readable(kind, root):
        if not root.exists():
            raise FileNotFoundError
        found = {f"{part}/{name}" for name in complete_files(root)} if root.is_dir() else {part}
        listed = {name for name in digests if name == part or name.startswith(f"{part}/")}
        if unexpected := sorted(found - listed):
            what = f"{part} must have only files that are listed in {path.name}"
            raise ArtifactError(f"{kind}: {what}. Given: {path.parent / unexpected[0]}")
    for name in sorted(listed) or [part]:
        file = path.parent / name
        with readable(kind, file):
            check_size(file, max_bytes)
            max_bytes -= file.stat().st_size
            if sha256_of(file) != digests[name]:
                raise ArtifactError(
                    f"{kind}: {name} is damaged or of another {kind}: its {_DIGEST} is not that of {path.name}. "
                    f"Given: {file}"
                )


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
