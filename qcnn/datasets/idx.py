"""IDX files of MNIST and Fashion-MNIST, plain or compressed by gzip.

Format: yann.lecun.com/exdb/mnist, "The IDX file format". Fashion-MNIST (Xiao et al., arXiv:1708.07747) has the same
files.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from qcnn.atomic_files import readable
from qcnn.errors import ArtifactError, ConfigError

IMAGES = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")
LABELS = ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")
# Two zero bytes, the type 8 of unsigned bytes, and the number of dimensions.
_MAGIC = {3: (0x803, "images"), 1: (0x801, "labels")}
SIDE, _CLASSES = 28, 10
_MAX_ITEMS = 10**6

Bytes = npt.NDArray[np.uint8]


def read_images(folder: Path, name: str) -> tuple[Bytes, str]:
    """Read a file of images.

    Args:
        folder: Folder of the file.
        name: Name of the file, without `.gz`.

    Returns:
        Images, uint8 (images, 28, 28), and the SHA-256 of the uncompressed file.

    Raises:
        ArtifactError: If the file is missing, damaged or not one of images of 28 x 28 pixels.
    """
    return _read(folder, name, 3)


def read_labels(folder: Path, name: str, images: int) -> tuple[Bytes, str]:
    """Read a file of labels.

    Args:
        folder: Folder of the file.
        name: Name of the file, without `.gz`.
        images: Number of images to which the labels belong.

    Returns:
        Labels, uint8 (images,), and the SHA-256 of the uncompressed file.

    Raises:
        ArtifactError: If the file is missing, damaged or not one of this number of labels.
    """
    labels, digest = _read(folder, name, 1)
    if len(labels) != images:
        raise ArtifactError(f"source: {name} must have {images} labels, one for each image. Given: {len(labels)}")
    if labels.max(initial=0) >= _CLASSES:
        raise ArtifactError(f"source: {name} must have labels from 0 to {_CLASSES - 1}. Given: {labels.max()}")
    return labels, digest


def _find(folder: Path, name: str) -> Path:
    """Return the path of a file, which some distributions name with a dot, such as train-images.idx3-ubyte."""
    if not folder.is_dir():
        raise ConfigError(f"source: must be a folder. Given: {folder}")
    for candidate in (name, f"{name}.gz", dotted := name.replace("-idx", ".idx"), f"{dotted}.gz"):
        if (folder / candidate).exists():
            return folder / candidate
    raise ArtifactError(f"source: the folder must have the file {name} or {name}.gz. Given: {folder}")


def _read(folder: Path, name: str, dimensions: int) -> tuple[Bytes, str]:
    path = _find(folder, name)
    with readable("source", path), _open(path) as file:
        header = file.read(4 * (1 + dimensions))
        shape = _shape(header, path, dimensions)
        size = math.prod(shape)
        content = file.read(size + 1)
    if len(content) != size:
        given = f"{size + 1} or more" if len(content) > size else len(content)
        raise ArtifactError(f"source: {path.name} must have {size} bytes after its header. Given: {given} in {path}")
    return np.frombuffer(content, np.uint8).reshape(shape), hashlib.sha256(header + content).hexdigest()


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _shape(header: bytes, path: Path, dimensions: int) -> tuple[int, ...]:
    magic, kind = _MAGIC[dimensions]
    if len(header) < 4 * (1 + dimensions):
        raise ArtifactError(f"source: {path.name} must have a header of {4 * (1 + dimensions)} bytes. Given: {path}")
    found, *shape = struct.unpack(f">{1 + dimensions}I", header)
    if found != magic:
        raise ArtifactError(
            f"source: {path.name} must be an IDX file of {kind}, which begins with {magic:#010x}. "
            f"Given: {found:#010x} in {path}"
        )
    if not 1 <= shape[0] <= _MAX_ITEMS:
        raise ArtifactError(f"source: {path.name} must have 1 to {_MAX_ITEMS} {kind}. Given: {shape[0]} in {path}")
    if shape[1:] not in ([], [SIDE, SIDE]):
        sides = " x ".join(map(str, shape[1:]))
        raise ArtifactError(f"source: {path.name} must have images of {SIDE} x {SIDE} pixels. Given: {sides} in {path}")
    return tuple(shape)
