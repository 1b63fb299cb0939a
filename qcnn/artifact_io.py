"""Reading of untrusted files, such as those in a bucket, with bounded memory and no code execution."""

import contextlib
import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from qcnn.atomic_files import readable
from qcnn.errors import ArtifactError

# Maximum bytes of a description: kilobytes of JSON, or a study with all its trials.
_MAX_TEXT_BYTES = 2**24
# First bytes of an archive. NumPy reads any other file as a single array, or by pickle.
_ARCHIVE = b"PK\x03\x04"


def check_size(path: Path, max_bytes: int) -> None:
    """Raise ValueError if a file is too large.

    Raises:
        ValueError: If the file has more than `max_bytes` bytes.
        OSError: If the size cannot be read.
    """
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
_DIGEST = "sha256"


def save_description(values: Mapping[str, Any], path: Path) -> None:
    """Write the description of an artifact as JSON, with its schema version and the digest of its content."""
    content = {"schema_version": _VERSIONS[-1], **values}
    path.write_text(json.dumps({**content, _DIGEST: _digest(content)}, indent=2) + "\n", encoding="utf-8")


def load_description(kind: str, path: Path) -> dict[str, Any]:
    """Read the description of an artifact that `save_description` wrote.

    Args:
        kind: Type of the artifact, for messages.
        path: File to read.

    Raises:
        ArtifactError: If the file is missing, damaged or changed, or its version is unknown.
    """
    with readable(kind, path):
        content = json.loads(text_of(path))
        if not (isinstance(content, dict) and "schema_version" in content):
            raise ValueError("it does not describe an artifact")
        version, digest = content.get("schema_version"), content.pop(_DIGEST, None)
        if type(version) is not int or version not in _VERSIONS:
            raise ArtifactError(f"{kind}: schema_version must be one of {_VERSIONS}. Given: {version} in {path}")
        if digest != _digest(content) and (version > 1 or digest is not None):
            raise ValueError(f"{_DIGEST} is not that of the content")
    return content


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
