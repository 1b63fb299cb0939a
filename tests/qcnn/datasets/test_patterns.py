"""Generated images are those of the published generators with the same seed."""

import numpy as np

from qcnn.datasets.patterns import bars_and_stripes, lines


def test_lines_equal_tutorial_of_qiskit() -> None:
    """The tutorial draws the class, the line, then each other pixel, from numpy.random.default_rng."""
    images, labels = lines(50, np.pi / 4, 12345)
    horizontal = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
    vertical = [(0, 4), (1, 5), (2, 6), (3, 7)]
    random = np.random.default_rng(12345)
    for image, label in zip(images.reshape(50, 8), labels, strict=True):
        is_vertical = random.integers(0, 2) == 1
        line = vertical[random.integers(0, 4)] if is_vertical else horizontal[random.integers(0, 6)]
        expected = [np.pi / 2 if pixel in line else random.uniform(0, np.pi / 4) for pixel in range(8)]
        assert image.tolist() == expected
        assert label == (1 if is_vertical else -1)


def test_bars_and_stripes_equal_published_generator() -> None:
    """qml-benchmarks draws the direction, the rows or columns, then the noise, from numpy.random."""
    images, labels = bars_and_stripes(30, 4, 0.5, 42)
    random = np.random.RandomState(42)
    for image, label in zip(images, labels, strict=True):
        expected = -np.ones((4, 4))
        if random.rand() > 0.5:
            expected[np.where(random.rand(4) > 0.5)[0], :] = 1
            assert label == 1
        else:
            expected[:, np.where(random.rand(4) > 0.5)[0]] = 1
            assert label == -1
        np.testing.assert_array_equal(image, expected + random.normal(0, 0.5, (4, 4)))


def test_images_without_noise_are_lines_and_stripes() -> None:
    images, labels = lines(200, 0.0, 1)
    assert {len(np.flatnonzero(image)) for image in images} == {2}
    assert all(
        (len(set(np.nonzero(image)[1])) == 1) == (label == 1) for image, label in zip(images, labels, strict=True)
    )
    images, labels = bars_and_stripes(50, 8, 0.0, 1)
    for image, label in zip(images, labels, strict=True):
        rows = image if label == 1 else image.T
        assert (rows == rows[:, :1]).all()
        assert set(rows.ravel()) <= {-1.0, 1.0}
