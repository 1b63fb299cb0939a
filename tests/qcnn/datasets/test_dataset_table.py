"""Tables of datasets: split, labels, files with descriptions, and provenance."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qcnn import data
from qcnn.datasets.dataset_table import DatasetTable, make, write
from qcnn.datasets.options import parse_options
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.tables import EXTENSIONS
from tests.qcnn.datasets.idx_files import write_folder


def table(name: str, **options: Any) -> DatasetTable:
    return make(parse_options(name, **options))


def test_two_classes_have_labels_in_given_order() -> None:
    first, second = table("digits", classes=(3, 8)), table("digits", classes=(8, 3))
    assert first.description["classes"] == {"0": 3, "1": 8}
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.y, 1 - second.y)
    assert set(table("digits", classes=(1, 2, 4)).y) == {1, 2, 4}
    assert set(table("lines").y) == {-1, 1}


def test_validation_rows_are_last_training_rows() -> None:
    few, many = table("digits", validation=0.1), table("digits", validation=0.5)
    assert many.description["rows"] == {"train": 674, "validation": 674, "test": 449}
    one, other = (np.concatenate([each.rows("train")[0], each.rows("validation")[0]]) for each in (few, many))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(few.rows("test")[0], many.rows("test")[0])


def test_steps_are_fitted_on_training_rows(tmp_path: Path) -> None:
    values = write_folder(tmp_path, train=100)
    options: dict[str, Any] = {"source": tmp_path, "resize": "8x8", "pca": 4, "scale": "all"}
    before = table("mnist", **options)
    # Other test images.
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:16] + (255 - values[path.name]).tobytes())
    after = table("mnist", **options)
    for split in ("train", "validation"):
        assert before.rows(split)[0].tobytes() == after.rows(split)[0].tobytes()
    assert before.rows("test")[0].tobytes() != after.rows("test")[0].tobytes()
    train = after.rows("train")[0]
    assert (train.min(), train.max()) == (pytest.approx(0, abs=1e-12), pytest.approx(np.pi))


def test_resized_pixels_are_columns() -> None:
    assert table("digits", resize="16x1").names[-1] == "pixel_15"
    assert table("digits").x.shape == (1797, 64)
    assert table("digits", pca=2).names == ("component_0", "component_1")
    assert table("moons").names == ("x_0", "x_1")


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_file_is_the_data_of_an_experiment(tmp_path: Path, ending: str) -> None:
    made, path = table("digits", classes=(3, 8), pca=4, scale="all"), tmp_path / f"digits{ending}"
    digest = write(made, str(path))
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    config = from_mapping({"qubits": 4, "data": str(path), "encoding": "ry", "feature_scaling": "none"})
    dataset = data.generate(config)
    for split, samples in dataset.splits():
        x, y = made.rows(split)
        np.testing.assert_allclose(samples.inputs["features"], x, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(samples.label, 2 * y - 1)
    assert dataset.source is not None
    assert dataset.source.description == made.description
    data.save(dataset, tmp_path / "dataset")
    described = json.loads((tmp_path / "dataset" / "dataset.json").read_text())["source"]["description"]
    assert described["options"] == {"classes": "3,8", "pca": 4, "scale": "all", "validation": 0.2, "seed": 0}
    assert data.load(tmp_path / "dataset").source == dataset.source


@pytest.mark.parametrize("name", ["digits", "lines", "bars_and_stripes", "moons", "circles", "mnist"])
def test_same_call_gives_same_files(tmp_path: Path, name: str) -> None:
    write_folder(tmp_path / "idx", train=100)
    files_of = {"source": tmp_path / "idx", "resize": "8x8"} if name == "mnist" else {}
    options: dict[str, Any] = {"pca": 2, "scale": "column", **files_of}
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in files:
        write(table(name, **options), str(path))
    assert files[0].read_bytes() == files[1].read_bytes()
    assert Path(f"{files[0]}.json").read_bytes() == Path(f"{files[1]}.json").read_bytes()
    assert table(name, **options, seed=1).x.tobytes() != table(name, **options).x.tobytes()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "lines",
            {"validation": 0.01},
            "validation: must leave at least one row each for training and validation. Given: 0.01 of 35 rows",
        ),
        (
            "lines",
            {"validation": 1},
            "validation: must leave at least one row each for training and validation. Given: 1 of 35 rows",
        ),
        (
            "digits",
            {"train_samples": 4},
            "train_samples: each class must have a row in the training split. Given: none of 0",
        ),
        (
            "digits",
            {"resize": "1024x1024"},
            "resize: rows x pixels must be at most 134217728. Given: 1024x1024 for 1797 rows",
        ),
        ("digits", {"pca": 65}, "pca: must be 1 to 64, at most the 64 columns and the 1078 training rows. Given: 65"),
        (
            "digits",
            {"classes": (0, 1), "train_samples": 10, "pca": 9},
            "pca: must be 1 to 8, at most the 64 columns and the 8 training rows. Given: 9",
        ),
    ],
)
def test_options_that_do_not_fit_the_rows_are_rejected(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        table(name, **options)
    assert str(error.value) == message


def test_unknown_split_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^split: must be train, validation or test\. Given: holdout$"):
        table("lines").rows("holdout")


def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "lines.csv").mkdir()
    with pytest.raises(Exception, match=r"^output: cannot be written \(Is a directory\)"):
        write(table("lines"), str(tmp_path / "lines.csv"))
    assert [path.name for path in tmp_path.iterdir()] == ["lines.csv"]
