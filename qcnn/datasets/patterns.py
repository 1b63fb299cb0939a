"""Generated images of lines and of bars and stripes, in the random order of their published generators."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Images = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]
# Value of the pixels of a line, in rad.
_LINE = math.pi / 2
_LINE_SHAPE = (2, 4)


def lines(count: int, noise: float, seed: int) -> Images:
    """Generate images with a horizontal (-1) or vertical (+1) line of two pixels of pi/2.

    Generator, with `noise` of pi/4: `generate_dataset` of tutorial 11 of Qiskit Machine Learning, "The Quantum
    Convolution Neural Network". The seed is its `algorithm_globals.random_seed`.

    Args:
        count: Number of images.
        noise: Upper bound of the other pixels, which are uniform from 0, in rad.
        seed: Seed of the generator.

    Returns:
        Images, float64 (count, 2, 4), and labels, int64 (count,).
    """
    rows, columns = _LINE_SHAPE
    pixels = np.arange(rows * columns).reshape(_LINE_SHAPE)
    horizontal = np.stack([pixels[:, :-1].ravel(), pixels[:, 1:].ravel()], axis=1)
    vertical = pixels.T
    generator = np.random.default_rng(seed)
    images, labels = np.zeros((count, rows * columns)), np.zeros(count, np.int64)
    for image, number in zip(images, range(count), strict=True):
        is_vertical = bool(generator.integers(2))
        places = vertical if is_vertical else horizontal
        image[places[generator.integers(len(places))]] = _LINE
        labels[number] = 1 if is_vertical else -1
        others = image == 0
        image[others] = generator.uniform(0, noise, int(others.sum()))
    return images.reshape(count, *_LINE_SHAPE), labels


def bars_and_stripes(count: int, size: int, noise: float, seed: int) -> Images:
    """Generate images of -1 with whole rows (+1) or whole columns (-1) of +1, and normal noise on all pixels.

    Generator: Bowles et al., arXiv:2403.07059, appendix; `generate_bars_and_stripes` of XanaduAI/qml-benchmarks. With
    seed 42, 1,000 training and 200 test images and noise 0.5, the images are those of the paper.

    Args:
        count: Number of images.
        size: Number of rows and of columns.
        noise: Standard deviation of the noise.
        seed: Seed of the generator.

    Returns:
        Images, float64 (count, size, size), and labels, int64 (count,).
    """
    # NumPy keeps the random numbers of this class (NEP 19).
    random = np.random.RandomState(seed)
    images, labels = np.full((count, size, size), -1.0), np.zeros(count, np.int64)
    for image, number in zip(images, range(count), strict=True):
        has_rows = random.rand() > 0.5
        labels[number] = 1 if has_rows else -1
        (image if has_rows else image.T)[random.rand(size) > 0.5] = 1.0
        image += random.normal(0, noise, image.shape)
    return images, labels
