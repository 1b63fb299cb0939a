"""Datasets of study files, and the tables that a study writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qcnn
from qcnn.errors import ConfigError, QcnnError
from qcnn.studies.tables import StudyTables, parse_datasets
from qcnn.studies.trials import plan, search_from_mapping
from qcnn.tables.table import open_table

DIGITS = {"name": "digits", "classes": "0,1", "pca": 4}


def test_study_writes_the_tables_that_its_trials_read(tmp_path: Path) -> None:
    tables = StudyTables(tmp_path / "datasets")
    datasets = parse_datasets({"fixed": DIGITS, "varied": {**DIGITS, "seed": "trial"}})
    rows = [{"data": "fixed"}, {"data": "varied"}]
    shared, rows = tables.with_paths(datasets, {"qubits": 4, "encoding": "ry"}, rows)
    trials = plan(shared, search_from_mapping({"rows": rows, "repeat": 2}))
    tables.write(datasets, trials)
    assert sorted(path.name for path in tables.folder.glob("*.parquet")) == [
        *("fixed.parquet", "varied-0.parquet", "varied-1.parquet"),
    ]
    assert [Path(trial.data).name for trial in trials] == [
        *("fixed.parquet", "fixed.parquet"),
        *("varied-0.parquet", "varied-1.parquet"),
    ]
    for trial, seed in zip(trials, (0, 0, 0, 1), strict=True):
        expected = qcnn.dataset("digits", classes="0,1", pca=4, seed=seed)
        with open_table(trial.data) as table:
            (piece,) = table.pieces(expected.names, ())
        assert np.array_equal(np.stack([piece.columns[name] for name in expected.names], axis=1), expected.x)


def test_table_that_cannot_be_written_leaves_none(tmp_path: Path) -> None:
    tables = StudyTables(tmp_path / "study" / "datasets", tmp_path)
    datasets = parse_datasets({"first": DIGITS, "second": {"name": "mnist"}}, tmp_path)
    shared, rows = tables.with_paths(datasets, {}, [{"data": "first"}, {"data": "second"}])
    trials = plan({**shared, "encoding": "ry", "qubits": 4}, search_from_mapping({"rows": rows}))
    with pytest.raises(QcnnError, match="source: "):
        tables.write(datasets, trials)
    assert not tables.folder.parent.exists()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("digits", "datasets: must be a mapping of names (letters, digits, _, . and -) to options of `qcnn dataset`. "),
        ({"../a": DIGITS}, "datasets: must be a mapping of names (letters, digits, _, . and -) to options of "),
        ({"a": {"name": "cifar"}}, "datasets: a: name: must be one of digits, mnist, fashion_mnist, "),
        ({"a": {"pca": 4}}, "datasets: a: name: must be one of digits, mnist, fashion_mnist, "),
        ({"a": {**DIGITS, "pcs": 4}}, "datasets: a: pcs: must be one of name, source, classes, size, qubits, noise, "),
        ({"a": {"name": "mnist"}}, "datasets: a: source: must be the folder of the four IDX files of mnist. Given: no"),
        ({"a": {**DIGITS, "classes": "0,11"}}, "datasets: a: classes: must be two or more different ones of 0, 1, "),
        ({"a": {**DIGITS, "pca": 0}}, "datasets: a: pca: must be a whole number, 1 to "),
    ],
)
def test_invalid_datasets_are_one_line(given: Any, line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_datasets(given)
    assert str(raised.value).startswith(line)


def test_dataset_without_a_row_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        StudyTables(tmp_path).with_paths(parse_datasets({"a": DIGITS}), {}, [{"data": "b.csv"}])
    assert str(raised.value) == "datasets: each must be the data of the experiment or of a row. Given: a"
