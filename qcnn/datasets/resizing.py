"""Bilinear resizing of images with half-pixel centers and without antialiasing, equal to that of TensorFlow."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
_HALF = np.float32(0.5)


def resize(images: npt.NDArray[Any], rows: int, columns: int) -> Floats:
    """Resize images like `tf.image.resize(images, (rows, columns), antialias=False)`, to the bit.

    Without antialiasing, a smaller image has the values around its pixel centers, not means over its pixels.

    Args:
        images: Images, (images, height, width).
        rows: New height.
        columns: New width.

    Returns:
        Images, float32 (images, rows, columns).
    """
    values = images.astype(np.float32)
    top, bottom, row_fraction = _neighbors(values.shape[1], rows)
    left, right, fraction = _neighbors(values.shape[2], columns)

    def between_columns(chosen: npt.NDArray[np.int64]) -> Floats:
        of_rows = values[:, chosen]
        of_left = of_rows[:, :, left]
        return of_left + (of_rows[:, :, right] - of_left) * fraction

    upper = between_columns(top)
    return upper + (between_columns(bottom) - upper) * row_fraction[:, np.newaxis]


def _neighbors(size: int, new: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Return the two old pixels next to the center of each new one, and its distance from the first.

    Formula: `HalfPixelScaler` and `compute_interpolation_weights` in tensorflow/core/util/image_resizer_state.h and
    kernels/image/resize_bilinear_op.cc.
    """
    center = (np.arange(new, dtype=np.float32) + _HALF) * (np.float32(size) / np.float32(new)) - _HALF
    first = np.floor(center)
    lower, upper = np.maximum(first, 0).astype(np.int64), np.minimum(np.ceil(center), size - 1).astype(np.int64)
    return lower, upper, center - first
