"""Rows of each dataset: counts, classes and the split."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_circles, make_moons

from qcnn.circuits.chains import CHAINS, chain_of
from qcnn.datasets.options import parse_options
from qcnn.datasets.patterns import bars_and_stripes
from qcnn.datasets.sources import load
from qcnn.errors import ConfigError
from tests.qcnn.datasets.idx_files import write_folder


def test_official_test_images_stay_test_images(tmp_path: Path) -> None:
    values = write_folder(tmp_path)
    for seed in range(3):
        source = load(parse_options("mnist", source=tmp_path, seed=seed))
        for rows, name in ((source.train, "train"), (source.test, "t10k")):
            images, labels = values[f"{name}-images-idx3-ubyte"], values[f"{name}-labels-idx1-ubyte"]
            known = {image.tobytes(): label for image, label in zip(images, labels, strict=True)}
            assert {image.tobytes(): each for image, each in zip(rows.values, rows.classes, strict=True)} == known
    assert sorted(source.files) == sorted(values)


def test_samples_are_first_of_order_by_seed(tmp_path: Path) -> None:
    write_folder(tmp_path)
    options: dict[str, Any] = {"source": tmp_path, "classes": (3, 8)}
    every = load(parse_options("fashion_mnist", **options))
    few = load(parse_options("fashion_mnist", **options, train_samples=5, test_samples=2))
    assert (len(every.train), len(every.test)) == (8, 4)
    np.testing.assert_array_equal(few.train.values, every.train.values[:5])
    np.testing.assert_array_equal(few.test.values, every.test.values[:2])
    other = load(parse_options("fashion_mnist", **options, seed=1))
    assert other.train.values.tobytes() != every.train.values.tobytes()


def test_digits_are_split_without_repetition() -> None:
    source = load(parse_options("digits", classes=(0, 1)))
    images = load_digits()
    expected = sorted(image.tobytes() for image in images.images[images.target < 2])
    assert sorted(image.tobytes() for image in [*source.train.values, *source.test.values]) == expected
    assert (len(source.train), len(source.test)) == (270, 90)
    few = load(parse_options("digits", classes=(0, 1), train_samples=20, test_samples=100))
    assert (len(few.train), len(few.test)) == (20, 100)


def test_balanced_training_rows_are_first_ones_of_each_class(tmp_path: Path) -> None:
    source = load(parse_options("digits", classes=(0, 1, 7), seed=3))
    balanced = load(parse_options("digits", classes=(0, 1, 7), seed=3, balanced=True, train_samples=5))
    assert balanced.train.classes.tolist() == [0, 1, 7, 0, 1]
    for each in (0, 1, 7):
        found, expected = (rows.values[rows.classes == each] for rows in (balanced.train, source.train))
        np.testing.assert_array_equal(found, expected[: len(found)])
    np.testing.assert_array_equal(balanced.test.values, source.test.values)
    write_folder(tmp_path)
    every = load(parse_options("mnist", source=tmp_path, balanced=True))
    _, counts = np.unique(load(parse_options("mnist", source=tmp_path)).train.classes, return_counts=True)
    assert np.unique(every.train.classes, return_counts=True)[1].tolist() == [counts.min()] * 10


@pytest.mark.parametrize(
    ("name", "make"), [("moons", make_moons), ("circles", lambda *a, **k: make_circles(*a, factor=0.5, **k))]
)
def test_points_are_those_of_scikit_learn(name: str, make: Any) -> None:
    source = load(parse_options(name, train_samples=30, test_samples=10, noise=0.2, seed=5))
    points, classes = make(40, noise=0.2, random_state=5)
    np.testing.assert_array_equal(np.concatenate([source.train.values, source.test.values]), points)
    np.testing.assert_array_equal(np.concatenate([source.train.classes, source.test.classes]), classes)


def test_bars_and_stripes_have_published_numbers_of_rows() -> None:
    source = load(parse_options("bars_and_stripes", seed=42))
    images, labels = bars_and_stripes(1200, 4, 0.5, 42)
    np.testing.assert_array_equal(source.train.values, images[:1000])
    np.testing.assert_array_equal(source.test.classes, labels[1000:])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mnist", {"train_samples": 41}, "train_samples: must be 1 to 40, the rows of these classes. Given: 41"),
        (
            "mnist",
            {"test_samples": 3, "classes": (0, 1), "train_samples": 9},
            "train_samples: must be 1 to 8, the rows of these classes. Given: 9",
        ),
        ("digits", {"test_samples": 1797}, "test_samples: must be 1 to 1796, to leave a training row. Given: 1797"),
        (
            "bars_and_stripes",
            {"size": 64, "train_samples": 10**7},
            "train_samples: rows x columns must be at most 134217728. Given: 10000200 x 4096",
        ),
        (
            "annni",
            {"size": 64, "qubits": 16},
            "qubits: rows x columns must be at most 134217728. Given: 4096 x 65536",
        ),
        ("cluster_ising", {"size": 4}, "size: must give points on the training lines of cluster_ising. Given: 4"),
    ],
)
def test_requests_beyond_the_rows_are_rejected(
    tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    if name == "mnist":
        write_folder(tmp_path)
        options = {**options, "source": tmp_path}
    with pytest.raises(ConfigError) as error:
        load(parse_options(name, **options))
    assert str(error.value) == message


def test_ground_states_of_a_grid_train_on_the_lines_of_the_chain_and_test_on_all_points() -> None:
    source = load(parse_options("annni", qubits=4, size=5))
    assert (len(source.train), len(source.test)) == (9, 25)
    x, z = (np.array(matrix) for matrix in ([[0, 1], [1, 0]], [[1, 0], [0, -1]]))

    def product(**letters: Any) -> Any:
        factors = [letters.get(f"q{number}", np.eye(2)) for number in range(4)]
        return functools.reduce(np.kron, factors)

    neighbors = sum(product(**{f"q{i}": x, f"q{i + 1}": x}) for i in range(3))
    next_neighbors = sum(product(**{f"q{i}": x, f"q{i + 2}": x}) for i in range(2))
    field = sum(product(**{f"q{i}": z}) for i in range(4))
    points = [(kappa, h) for kappa in np.linspace(0, 1, 5) for h in np.linspace(0, 2, 5)]
    for state, (kappa, h) in zip(source.test.values, points, strict=True):
        hamiltonian = -neighbors + kappa * next_neighbors - h * field
        # Without field the ground states are degenerate, and with the smallest field one of them.
        assert state @ hamiltonian @ state == pytest.approx(np.linalg.eigvalsh(hamiltonian)[0], abs=1e-5)
    on_lines = [state.tobytes() for state, (kappa, h) in zip(source.test.values, points, strict=True) if not kappa * h]
    assert sorted(state.tobytes() for state in source.train.values) == sorted(on_lines)


@pytest.mark.parametrize("name", CHAINS)
def test_chain_has_all_of_its_classes_in_both_splits(name: str) -> None:
    options = parse_options(name, qubits=4)
    source = load(options)
    assert options.kind.classes == tuple(range(len(chain_of(name).classes)))
    for rows in (source.train, source.test):
        assert set(rows.classes.tolist()) == set(options.kind.classes)


def test_class_without_images_is_rejected(tmp_path: Path) -> None:
    write_folder(tmp_path, train=9)
    with pytest.raises(ConfigError, match=r"^classes: each must have an image in train-images-idx3-ubyte\. Given: 9$"):
        load(parse_options("mnist", source=tmp_path, classes=(0, 9)))
