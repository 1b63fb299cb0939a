"""Principal components and scales are those of the training rows."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from qcnn.datasets.fitted_steps import reduce, scale
from qcnn.errors import ConfigError

RANDOM = np.random.default_rng(3)
SPLITS = {name: RANDOM.normal(2, [5, 3, 2, 1, 0.5], (rows, 5)) for name, rows in (("train", 30), ("test", 8))}


@pytest.mark.parametrize("count", [30, 80])
def test_components_equal_singular_vectors_of_training_rows(count: int) -> None:
    train = np.random.default_rng(4).normal(2, [5, 3, 2, 1, 0.5], (count, 5))
    splits = {**SPLITS, "train": train}
    reduced, description = reduce(splits, 3)
    mean = train.mean(axis=0)
    _, values, directions = np.linalg.svd(train - mean, full_matrices=False)
    for name, rows in splits.items():
        expected = (rows - mean) @ directions[:3].T
        signs = np.sign((reduced[name] * expected).sum(axis=0))
        np.testing.assert_allclose(reduced[name], expected * signs, atol=1e-12)
    assert description["explained_variance_ratio"] == pytest.approx((values[:3] ** 2).sum() / (values**2).sum())


@pytest.mark.parametrize("how", ["column", "all"])
def test_training_rows_do_not_depend_on_test_rows(how: str) -> None:
    def transform(test: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        reduced, _ = reduce({**SPLITS, "test": test}, 2)
        return scale(reduced, how)[0]["train"]  # type: ignore[arg-type]

    expected = transform(SPLITS["test"]).tobytes()
    assert transform(SPLITS["test"][::-1]).tobytes() == expected
    assert transform(100 * SPLITS["test"][:3]).tobytes() == expected


def test_column_scale_maps_range_of_each_column() -> None:
    scaled, description = scale(SPLITS, "column")
    np.testing.assert_allclose(scaled["train"].min(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled["train"].max(axis=0), math.pi)
    low, high = SPLITS["train"].min(axis=0), SPLITS["train"].max(axis=0)
    np.testing.assert_allclose(scaled["test"], (SPLITS["test"] - low) / (high - low) * math.pi)
    assert description == {}


def test_common_scale_maps_one_range() -> None:
    scaled, description = scale(SPLITS, "all")
    low, high = SPLITS["train"].min(), SPLITS["train"].max()
    for name, rows in SPLITS.items():
        np.testing.assert_allclose(scaled[name], (rows - low) / (high - low) * math.pi)
    assert description == {"minimum": low, "maximum": high}


def test_constant_column_becomes_zero() -> None:
    scaled, _ = scale({"train": np.array([[7.0, 1.0], [7.0, 2.0]])}, "column")
    np.testing.assert_allclose(scaled["train"], np.array([[0, 0], [0, math.pi]]))


@pytest.mark.parametrize(("rows", "components"), [(30, 6), (4, 5)])
def test_too_many_components_are_rejected(rows: int, components: int) -> None:
    message = (
        f"^pca: must be 1 to {components - 1}, at most the 5 columns and the {rows} training rows. Given: {components}$"
    )
    with pytest.raises(ConfigError, match=message):
        reduce({"train": SPLITS["train"][:rows]}, components)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_components_of_equal_rows_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^pca: the training rows must differ\. Given: 3 equal rows$"):
        reduce({"train": np.ones((3, 2))}, 1)
