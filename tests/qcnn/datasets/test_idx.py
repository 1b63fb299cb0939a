"""IDX files are read as published, and damaged ones are rejected in one line."""

import gzip
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qcnn.datasets.idx import IMAGES, LABELS, read_images, read_labels
from qcnn.errors import QcnnError
from tests.qcnn.datasets.idx_files import Bytes, write_folder, write_idx

TRAIN, TRAIN_LABELS = IMAGES[0], LABELS[0]
Damage = Callable[[Path], object]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_are_read_plain_or_compressed(tmp_path: Path, suffix: str) -> None:
    values = write_folder(tmp_path, suffix=suffix)
    for images_name, labels_name in zip(IMAGES, LABELS, strict=True):
        images, digest = read_images(tmp_path, images_name)
        np.testing.assert_array_equal(images, values[images_name])
        labels, _ = read_labels(tmp_path, labels_name, len(images))
        np.testing.assert_array_equal(labels, values[labels_name])
        path = tmp_path / f"{images_name}{suffix}"
        content = gzip.decompress(path.read_bytes()) if suffix else path.read_bytes()
        assert digest == hashlib.sha256(content).hexdigest()


def test_names_with_dots_are_found(tmp_path: Path) -> None:
    values = write_folder(tmp_path)
    (tmp_path / TRAIN).rename(tmp_path / "train-images.idx3-ubyte")
    np.testing.assert_array_equal(read_images(tmp_path, TRAIN)[0], values[TRAIN])


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _cut_gzip(path: Path) -> None:
    content = gzip.compress(path.read_bytes(), mtime=0)
    path.with_name(f"{path.name}.gz").write_bytes(content[:-100])
    path.unlink()


def _claim(images: int) -> Damage:
    def damage(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[:4] + images.to_bytes(4, "big") + content[8:])

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut, f"source: {TRAIN} must have 31360 bytes after its header. Given: 31359 in FOLDER/{TRAIN}"),
        (
            lambda path: path.write_bytes(path.read_bytes() + b"0"),
            f"source: {TRAIN} must have 31360 bytes after its header. Given: 31361 or more in FOLDER/{TRAIN}",
        ),
        (
            lambda path: path.write_bytes(path.read_bytes()[:10]),
            f"source: {TRAIN} must have a header of 16 bytes. Given: FOLDER/{TRAIN}",
        ),
        (
            lambda path: path.write_bytes(path.with_name(TRAIN_LABELS).read_bytes()),
            f"source: {TRAIN} must be an IDX file of images, which begins with 0x00000803. "
            f"Given: 0x00000801 in FOLDER/{TRAIN}",
        ),
        (
            lambda path: write_idx(path, np.zeros((40, 32, 32), np.uint8)),
            f"source: {TRAIN} must have images of 28 x 28 pixels. Given: 32 x 32 in FOLDER/{TRAIN}",
        ),
        (_claim(2**32 - 1), f"source: {TRAIN} must have 1 to 1000000 images. Given: 4294967295 in FOLDER/{TRAIN}"),
        (_claim(0), f"source: {TRAIN} must have 1 to 1000000 images. Given: 0 in FOLDER/{TRAIN}"),
        (
            _cut_gzip,
            f"source: {TRAIN}.gz is damaged (Compressed file ended before the end-of-stream marker was reached). "
            f"Given: FOLDER/{TRAIN}.gz",
        ),
        (
            lambda path: path.rename(path.with_name(f"{TRAIN}.gz")),
            rf"source: {TRAIN}.gz is damaged (Not a gzipped file (b'\x00\x00')). Given: FOLDER/{TRAIN}.gz",
        ),
        (Path.unlink, f"source: the folder must have the file {TRAIN} or {TRAIN}.gz. Given: FOLDER"),
        (
            lambda path: path.unlink() or path.mkdir(),
            f"source: {TRAIN} cannot be read (Is a directory). Given: FOLDER/{TRAIN}",
        ),
    ],
)
def test_damaged_images_are_rejected(tmp_path: Path, damage: Damage, message: str) -> None:
    write_folder(tmp_path)
    damage(tmp_path / TRAIN)
    with pytest.raises(QcnnError, match=f"^{re.escape(message.replace('FOLDER', str(tmp_path)))}$"):
        read_images(tmp_path, TRAIN)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(39, np.uint8), f"source: {TRAIN_LABELS} must have 40 labels, one for each image. Given: 39"),
        (np.full(40, 10, np.uint8), f"source: {TRAIN_LABELS} must have labels from 0 to 9. Given: 10"),
    ],
)
def test_wrong_labels_are_rejected(tmp_path: Path, labels: Bytes, message: str) -> None:
    write_folder(tmp_path)
    write_idx(tmp_path / TRAIN_LABELS, labels)
    with pytest.raises(QcnnError, match=f"^{re.escape(message)}$"):
        read_labels(tmp_path, TRAIN_LABELS, 40)


def test_missing_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(QcnnError, match=rf"^source: must be a folder\. Given: {tmp_path}/none$"):
        read_images(tmp_path / "none", TRAIN)
