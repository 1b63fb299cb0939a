"""Resized images are equal to those of tf.image.resize."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn.datasets.resizing import resize

SIZES = [
    ((28, 28), (256, 1)),
    ((28, 28), (16, 16)),
    ((8, 8), (4, 4)),
    ((8, 8), (13, 3)),
    ((2, 4), (5, 7)),
    ((4, 4), (1, 1)),
]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize(("old", "new"), SIZES)
def test_resize_equals_tensorflow(old: tuple[int, int], new: tuple[int, int], dtype: Any) -> None:
    images = (np.random.default_rng(0).random((5, *old)) * 255).astype(dtype)
    expected = tf.image.resize(images[..., np.newaxis], new, antialias=False).numpy()[..., 0]
    resized = resize(images, *new)
    assert resized.dtype == np.float32
    # TensorFlow may fuse the multiplication and the addition on other processors.
    np.testing.assert_allclose(resized, expected, rtol=1e-6, atol=1e-5)


def test_single_column_is_mean_of_middle_columns() -> None:
    image = np.arange(28 * 28, dtype=np.uint8).reshape(1, 28, 28)
    resized = resize(image, 28, 1)
    np.testing.assert_array_equal(resized[0, :, 0], image[0, :, 13:15].astype(np.float32).mean(axis=1))
