"""Reads files that somebody else may have made, such as those of a bucket: bounded in memory, and never as code."""

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

# Bytes of a description: JSON of some kilobytes, or of a study with all its trials.
_MOST_TEXT = 2**24
# How an archive begins; numpy would read a file that begins otherwise as a single array, or by pickle.
_ARCHIVE = b"PK\x03\x04"


def check_size(path: Path, most: int) -> None:
    """Refuse a file of more bytes than its kind can have.

    Raises:
        ValueError: it has more.
        OSError: it cannot be looked at.
    """
    if (size := path.stat().st_size) > most:
        raise ValueError(f"it has {size} bytes, more than {most}")


def text_of(path: Path) -> str:
    """Return the text of a description.

    Raises:
        ValueError: it has too many bytes, or others than those of UTF-8.
        OSError: it cannot be read.
    """
    check_size(path, _MOST_TEXT)
    return path.read_text(encoding="utf-8")


@contextlib.contextmanager
def open_arrays(path: Path, most: int) -> Iterator[NpzFile]:
    """Open an archive that np.savez wrote, of at most so many bytes; reading all of it takes no more memory than that.

    What np.savez writes is not compressed: a file that unpacks to more than it holds is not one of those.

    Raises:
        ValueError: it is too large, compressed, or no such archive; reading an array of Python's objects does so too.
        zipfile.BadZipFile: it is damaged.
        OSError: it cannot be read.
    """
    check_size(path, most)
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


# Version 1 had no digest of its own content; it can still be read.
_VERSIONS = (1, 2)
_DIGEST = "sha256"


def save_description(values: Mapping[str, Any], path: Path) -> None:
    """Write the description of an artifact, with its version and the digest of its content."""
    content = {"schema_version": _VERSIONS[-1], **values}
    path.write_text(json.dumps({**content, _DIGEST: _digest(content)}, indent=2) + "\n", encoding="utf-8")


def load_description(kind: str, path: Path) -> dict[str, Any]:
    """Read what `save_description` wrote; messages call the artifact by its kind.

    Raises:
        ArtifactError: it is missing, damaged or changed, or of another version.
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
