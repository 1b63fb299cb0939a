"""Small IDX files in the published format: a big-endian header, then one byte for each pixel or label."""

import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def write_idx(path: Path, values: Bytes) -> None:
    """Write an IDX file, compressed if its name ends in .gz."""
    header = struct.pack(f">{1 + values.ndim}I", 0x800 + values.ndim, *values.shape)
    content = header + values.tobytes()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def write_folder(folder: Path, train: int = 40, test: int = 20, suffix: str = "") -> dict[str, Bytes]:
    """Write four IDX files of random images, whose labels are 0 to 9 in turn, and return their values."""
    folder.mkdir(exist_ok=True)
    random, values = np.random.default_rng(0), {}
    for name, count in (("train", train), ("t10k", test)):
        values[f"{name}-images-idx3-ubyte"] = random.integers(0, 256, (count, 28, 28), np.uint8)
        values[f"{name}-labels-idx1-ubyte"] = (np.arange(count) % 10).astype(np.uint8)
    for name, array in values.items():
        write_idx(folder / f"{name}{suffix}", array)
    return values
