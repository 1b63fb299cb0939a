"""Labels of data files: text, classes by number, and their order."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from qcnn import data
from qcnn.data.labels import text_columns
from qcnn.errors import QcnnError
from qcnn.experiment.parsing import from_mapping
from qcnn.tables import EXTENSIONS
from tests.qcnn.tables.test_table import write

X = np.linspace(0, 1, 20)


def _read(path: Path, labels: list[Any], **fields: Any) -> data.Dataset:
    write(path, pd.DataFrame({"x": X, "label": labels}))
    return data.read(from_mapping({"data": str(path), "qubits": 4, "encoding": "ry", **fields}))


def _labels(dataset: data.Dataset) -> list[Any]:
    """Return the labels by row of the file."""
    found: dict[int, Any] = {}
    for _, samples in dataset.splits():
        assert samples.row is not None
        found |= dict(zip(samples.row.tolist(), samples.label.tolist(), strict=True))
    return [found[row] for row in sorted(found)]


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_two_text_labels_are_signs_in_order_of_code_points(tmp_path: Path, ending: str) -> None:
    dataset = _read(tmp_path / f"rows{ending}", ["dog", "Cat"] * 10)
    assert dataset.layout.class_names == ("Cat", "dog")
    assert _labels(dataset) == [1, -1] * 10
    assert dataset.train.label.dtype == np.int8


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_numbers_of_classes_are_ordered_by_value_and_texts_by_code_point(tmp_path: Path, ending: str) -> None:
    numbers = _read(tmp_path / f"numbers{ending}", [10, -1, 9, 10] * 5, loss="cross_entropy")
    assert (numbers.layout.classes, _labels(numbers)) == (("-1", "9", "10"), [2, 0, 1, 2] * 5)
    texts = _read(tmp_path / f"texts{ending}", ["b", "Z", "a", "b"] * 5, loss="cross_entropy")
    assert (texts.layout.classes, _labels(texts)) == (("Z", "a", "b"), [2, 0, 1, 2] * 5)


def test_saved_dataset_has_names_only_if_classes_have_some(tmp_path: Path) -> None:
    named = _read(tmp_path / "rows.csv", ["a", "b", "c", "c"] * 5, loss="cross_entropy")
    data.save(named, tmp_path / "named")
    loaded = data.load(tmp_path / "named")
    assert (loaded.layout, loaded.digest, _labels(loaded)) == (named.layout, named.digest, _labels(named))
    data.save(_read(tmp_path / "rows.csv", [-1, 1] * 10), tmp_path / "signs")
    assert "classes" not in json.loads((tmp_path / "signs" / "dataset.json").read_text())["layout"]


def test_file_sets_the_number_of_classes(tmp_path: Path) -> None:
    dataset = _read(tmp_path / "rows.csv", ["a", "b", "c", "c"] * 5, loss="cross_entropy")
    config = from_mapping({"data": str(tmp_path / "rows.csv"), "encoding": "ry", "loss": "cross_entropy"})
    assert data.with_file_metadata(config, dataset).options.classes == 3


def test_generated_samples_have_two_classes() -> None:
    fields = {"qubits": 4, "rounds": 10}
    signs, classes = (data.generate(from_mapping({**fields, **more})) for more in ({}, {"loss": "cross_entropy"}))
    assert classes.layout.classes == ("-1", "1")
    assert (2 * classes.train.label - 1).tolist() == signs.train.label.tolist()


@pytest.mark.parametrize(
    ("classes", "text"), [(("-1", "1"), ()), (("0", "10"), ()), (("01", "2"), ("label",)), (("1e3", "a"), ("label",))]
)
def test_labels_are_read_as_text_unless_all_classes_are_whole_numbers(
    classes: tuple[str, ...], text: tuple[str, ...]
) -> None:
    assert text_columns(classes) == text


MANY = [f"class {number}" for number in range(101)]


@pytest.mark.parametrize(
    ("labels", "fields", "message"),
    [
        (
            ["a", "b", "c", "d"] * 5,
            {},
            "data: labels that are text must be two classes with loss mse; use loss cross_entropy for more. "
            "Given: a, b, c, d in ",
        ),
        (
            [0.5, 1, 2, "none"] * 5,
            {},
            "data: line 5, column label: must be a number; write two classes as -1 and +1, or as 0 and 1. Given: none",
        ),
        (["a"] * 20, {}, "data: must have 2 to 100 classes. Given: 1"),
        ([3] * 20, {"loss": "cross_entropy"}, "data: must have 2 to 100 classes. Given: 1"),
        (
            [0, 1, 2, 1.5] * 5,
            {"loss": "cross_entropy"},
            "data: line 5, column label: must be a whole number or text with loss cross_entropy, numbers less than "
            "9007199254740992 in size. Given: 1.5",
        ),
        (
            [0, 2**53, 2**53 + 1, 1] * 5,
            {"loss": "cross_entropy"},
            "data: line 3, column label: must be a whole number or text with loss cross_entropy, numbers less than ",
        ),
        (
            [0, 1] * 10,
            {"loss": "cross_entropy", "classes": 3},
            "classes: must be 2 as in the data, or 0. Given: 3 with ",
        ),
        (
            [0, 1, 2, 3] * 5,
            {"loss": "cross_entropy", "head": "expectation"},
            "head: must be auto or dense with 4 classes. Given: expectation",
        ),
        (
            ["a", "b"] * 9 + ["c", "c\x07"],
            {"loss": "cross_entropy"},
            "data: line 21, column label: must be printable text of 1 to 100 characters. Given: ",
        ),
    ],
)
def test_invalid_labels_are_one_clear_error(
    tmp_path: Path, labels: list[Any], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(QcnnError) as error:
        _read(tmp_path / "rows.csv", labels, **fields)
    assert str(error.value).startswith(message)
    assert str(error.value).isprintable()


def test_more_classes_than_allowed_are_rejected(tmp_path: Path) -> None:
    pd.DataFrame({"x": range(202), "label": MANY * 2}).to_csv(tmp_path / "rows.csv", index=False)
    config = from_mapping({"data": str(tmp_path / "rows.csv"), "encoding": "ry", "loss": "cross_entropy"})
    with pytest.raises(QcnnError, match=r"^data: must have 2 to 100 classes\. Given: 101$"):
        data.read(config)


def test_class_without_training_row_is_rejected(tmp_path: Path) -> None:
    splits = ["train"] * 14 + ["validation"] * 3 + ["test"] * 3
    frame = pd.DataFrame({"x": X, "label": ["a", "b"] * 7 + ["a", "b", "c"] * 2, "split": splits})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    config = from_mapping({"data": str(tmp_path / "rows.csv"), "encoding": "ry", "loss": "cross_entropy"})
    message = r"^data: each class must have a row in the training split\. Given: none of c$"
    with pytest.raises(QcnnError, match=message):
        data.read(config)
