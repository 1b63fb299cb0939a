"""Tests of qcnn dataset and qcnn.dataset."""

import json
from pathlib import Path

import numpy as np
import pytest

import qcnn
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.datasets.idx_files import write_folder


def test_command_writes_table_and_description(typed: Typed, tmp_path: Path) -> None:
    output = tmp_path / "new" / "digits.csv"
    arguments = ("--classes", "3,8", "--resize", "4x4", "--pca", "4", "--scale", "all", "--seed", "7")
    code, out, err = typed("dataset", "digits", "--output", str(output), *arguments)
    line = f"{output}: 4 columns, 2 classes, 214 train, 54 validation, 89 test rows\n"
    assert (code, out, err) == (0, line, "")
    described = json.loads(Path(f"{output}.json").read_text())
    other = tmp_path / "called.csv"
    called = qcnn.dataset("digits", classes=[3, 8], resize=(4, 4), pca=4, scale="all", seed=7, output=other)
    assert other.read_bytes() == output.read_bytes()
    assert {**called.description, "sha256": described["sha256"]} == described
    assert output.read_text().splitlines()[0] == "component_0,component_1,component_2,component_3,label,split"


def test_json_output_is_description(typed: Typed, tmp_path: Path) -> None:
    write_folder(tmp_path / "idx", train=100, suffix=".gz")
    output = f"{tmp_path}/mnist.parquet"
    source = ("--source", f"{tmp_path}/idx")
    code, out, _ = typed("dataset", "mnist", *source, "--output", output, "--validation", "0.25", "--format", "json")
    printed = json.loads(out)
    assert code == 0
    assert printed.pop("output") == output
    assert printed == json.loads(Path(f"{output}.json").read_text())
    assert printed["rows"] == {"train": 75, "validation": 25, "test": 20}
    assert len(printed["files"]) == 4


def test_smallest_balanced_splits_have_a_row_of_each_class(typed: Typed, tmp_path: Path) -> None:
    output, options = f"{tmp_path}/digits.csv", ("--classes", "0,1", "--train-samples", "4", "--validation", "0.5")
    code, _, err = typed("dataset", "digits", "--output", output, *options, "--seed", "1")
    assert (code, err) == (
        2,
        "error: train_samples: each class must have a row in the training split. Given: none of 1\n",
    )
    code, _, err = typed("dataset", "digits", "--output", output, *options, "--seed", "1", "--balanced")
    assert (code, err) == (0, "")
    table = qcnn.dataset("digits", classes=(0, 1), train_samples=4, validation=0.5, seed=1, balanced=True)
    assert [table.rows(split)[1].tolist() for split in ("train", "validation")] == [[0, 1], [0, 1]]
    assert table.description["options"]["balanced"] is True


def test_columns_are_rows_of_an_experiment() -> None:
    table = qcnn.dataset("moons", train_samples=20, test_samples=5)
    assert list(table.columns) == ["x_0", "x_1", "label", "split"]
    x, y = table.rows("test")
    assert x.shape == (5, 2)
    np.testing.assert_array_equal(table.columns["label"][-5:], y)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("letters",),
            "name: must be one of digits, mnist, fashion_mnist, lines, bars_and_stripes, moons, circles, annni, "
            "cluster_ising, bond_alternating_xxz. "
            "Given: 'letters'",
        ),
        (("moons", "--output", "rows.txt"), "output: must end in .csv, .parquet, .npz or .jsonl. Given: rows.txt"),
        (("mnist", "--source", "none"), "source: must be a folder. Given: none"),
        (
            ("mnist", "--source", "."),
            "source: the folder must have the file train-images-idx3-ubyte or train-images-idx3-ubyte.gz. Given: .",
        ),
        (("moons", "--pca", "3"), "pca: must be 1 to 2, at most the 2 columns and the 240 training rows. Given: 3"),
        (("lines", "--classes", "-1,2"), "classes: must be two or more different ones of -1, 1. Given: -1,2"),
    ],
)
def test_invalid_arguments_are_one_line(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    output = () if "--output" in arguments else ("--output", "rows.csv")
    assert typed("dataset", *arguments, *output) == (2, "", f"error: {line}\n")
    assert not list(tmp_path.iterdir())
