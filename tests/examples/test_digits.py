"""The digits: the file that is there is the one that is written, no test image had a part in it, and it is learnt."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.digits import linear_accuracy
from examples.digits import columns, write
from qcnn import data
from qcnn.experiment_io import from_mapping, merge, read_file
from qcnn.results import evaluate, export
from qcnn.trainer.loop import train

ROOT = Path(__file__).parents[2]
WORDS = {**read_file(ROOT / "examples" / "digits.yaml"), "data": str(ROOT / "examples" / "digits.csv")}


def test_the_file_is_what_is_written() -> None:
    header, *rows = (ROOT / "examples" / "digits.csv").read_text().splitlines()
    made = columns(3, 8, seed=0)
    assert header.split(",") == list(made)
    *components, label, split = zip(*(row.split(",") for row in rows), strict=True)
    for found, values in zip(components, made.values(), strict=False):
        # Another library of linear algebra may round otherwise.
        np.testing.assert_allclose(np.array(found, np.float64), values, atol=2e-3)
    assert [int(value) for value in label] == made["label"].tolist()
    assert list(split) == made["split"].tolist()


def test_components_are_learnt_on_the_training_split_alone() -> None:
    made = columns(4, 9, seed=1)
    train = made["split"] == "train"
    means = {name: values[train].mean() for name, values in made.items() if name.startswith("component_")}
    assert len(means) == 8
    # Centred by the mean of what is trained on; that of all images is another.
    np.testing.assert_allclose(list(means.values()), 0, atol=1e-3)
    assert max(abs(made[name].mean()) for name in means) > 0.1
    counts = [int(np.sum(made["split"] == split)) for split in ("train", "validation", "test")]
    assert counts == [217, 54, 90]
    assert columns(4, 9, seed=2)["split"].tolist() == made["split"].tolist()
    assert not np.array_equal(columns(4, 9, seed=2)["label"], made["label"])


def test_a_written_file_is_a_dataset(tmp_path: Path) -> None:
    write(tmp_path / "digits.csv", columns(0, 1, seed=3))
    dataset = data.generate(from_mapping(merge(WORDS, {"data": str(tmp_path / "digits.csv")})))
    assert [len(samples) for _, samples in dataset.splits()] == [216, 54, 90]
    assert set(dataset.train.label.tolist()) == {-1, 1}
    assert dataset.train.inputs["features"].max() == np.float32(np.pi)


def test_what_the_network_is_compared_with_tells_digits_apart() -> None:
    assert linear_accuracy(0, 1, seed=0) == 1
    assert 0.9 <= linear_accuracy(3, 8, seed=0) < 1


@pytest.mark.long
def test_the_example_is_learnt(tmp_path: Path) -> None:
    config = from_mapping(WORDS)
    dataset = data.generate(config)
    train(data.with_file_metadata(config, dataset), dataset, tmp_path / "training")
    export.export(tmp_path / "training", tmp_path / "model")
    assert evaluate.evaluate(tmp_path / "model", dataset).metrics["accuracy"] >= 0.93
