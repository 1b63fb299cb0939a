"""Handwritten digits: generation of examples/digits.csv, and training on it."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.digits import linear_accuracy
from examples.digits import columns, write
from qcnn import data
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.results import evaluate, export
from qcnn.trainer.loop import train
from qcnn.yaml_files import read_file

ROOT = Path(__file__).parents[2]
WORDS = {**read_file(ROOT / "examples" / "digits.yaml"), "data": str(ROOT / "examples" / "digits.csv")}


def test_digits_csv_is_reproducible() -> None:
    header, *rows = (ROOT / "examples" / "digits.csv").read_text().splitlines()
    table = columns(3, 8, seed=0)
    assert header.split(",") == list(table)
    *components, label, split = zip(*(row.split(",") for row in rows), strict=True)
    for found, values in zip(components, table.values(), strict=False):
        # Results of linear algebra libraries differ by rounding.
        np.testing.assert_allclose(np.array(found, np.float64), values, atol=2e-3)
    assert [int(value) for value in label] == table["label"].tolist()
    assert list(split) == table["split"].tolist()


def test_components_are_fitted_to_training_split() -> None:
    table = columns(4, 9, seed=1)
    train = table["split"] == "train"
    means = {name: values[train].mean() for name, values in table.items() if name.startswith("component_")}
    assert len(means) == 8
    # The components are centered by the mean of the training split, not of all images.
    np.testing.assert_allclose(list(means.values()), 0, atol=1e-3)
    assert max(abs(table[name].mean()) for name in means) > 0.1
    counts = [int(np.sum(table["split"] == split)) for split in ("train", "validation", "test")]
    assert counts == [217, 54, 90]
    assert columns(4, 9, seed=2)["split"].tolist() == table["split"].tolist()
    assert not np.array_equal(columns(4, 9, seed=2)["label"], table["label"])


def test_written_file_is_a_dataset(tmp_path: Path) -> None:
    write(tmp_path / "digits.csv", columns(0, 1, seed=3))
    dataset = data.generate(from_mapping(merge(WORDS, {"data": str(tmp_path / "digits.csv")})))
    assert [len(samples) for _, samples in dataset.splits()] == [216, 54, 90]
    assert set(dataset.train.label.tolist()) == {-1, 1}
    assert dataset.train.inputs["features"].max() == np.float32(np.pi)


def test_linear_classifier_separates_digits() -> None:
    assert linear_accuracy(0, 1, seed=0) == 1
    assert 0.9 <= linear_accuracy(3, 8, seed=0) < 1


@pytest.mark.long
def test_digits_example_reaches_accuracy(tmp_path: Path) -> None:
    config = from_mapping(WORDS)
    dataset = data.generate(config)
    train(data.with_file_metadata(config, dataset), dataset, tmp_path / "training")
    export.export(tmp_path / "training", tmp_path / "model")
    assert evaluate.evaluate(tmp_path / "model", dataset).metrics["accuracy"] >= 0.93
