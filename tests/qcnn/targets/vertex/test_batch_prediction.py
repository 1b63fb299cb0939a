"""Samples of batch prediction files, and errors for wrong rows."""

from pathlib import Path

import pandas as pd
import pytest

from qcnn.errors import QcnnError
from qcnn.targets.vertex.batch_prediction import read_samples


def test_read_samples_reads_all_formats(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,angle,qubit,name\n1,0.5,2,x\n-1,-3,0,y\n")
    (tmp_path / "a.jsonl").write_text(
        '{"qubit": 2, "angle": 0.5, "label": 1}\n\n{"qubit": 0.0, "angle": -3, "label": -1}\n'
    )
    pd.read_csv(tmp_path / "a.csv").to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        found = read_samples(str(tmp_path / name))
        assert list(found.instances()) == [{"qubit": 2, "angle": 0.5}, {"qubit": 0, "angle": -3.0}]
        assert list(found.instances(1, 2)) == [{"qubit": 0, "angle": -3.0}]
        assert found.label is not None
        assert found.label.tolist() == [1, -1]
    (tmp_path / "b.csv").write_text("qubit,angle\n1,0.25\n")
    found = read_samples(str(tmp_path / "b.csv"))
    assert (len(found), found.label, list(found.instances())) == (1, None, [{"qubit": 1, "angle": 0.25}])


def test_read_samples_keeps_feature_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label,y\n0.1,1,-2\n3,0,1e5\n")
    found = read_samples(str(tmp_path / "a.csv"))
    assert list(found.instances()) == [{"features": [0.1, -2.0]}, {"features": [3.0, 1e5]}]


def test_read_samples_reads_labels_that_are_names_of_classes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n0.1,cat\n3,dog\n")
    found = read_samples(str(tmp_path / "a.csv"))
    assert found.label is not None
    assert found.label.tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", r"data: must end in \.csv, \.parquet, \.npz or \.jsonl\. Given: .*a\.txt"),
        ("a.csv", "", r"data: line 1: must name the columns\. Given: nothing"),
        ("a.csv", "qubit,angle\n", r"data: must hold at least one row\. Given: .*a\.csv"),
        ("a.csv", "qubit,angle\n1,2\n1.5,2\n", r"data: line 3, column qubit: must be a whole number, 0 to .* 1\.5"),
        ("a.csv", "qubit,angle\n-1,2\n", r"data: line 2, column qubit: must be a whole number, 0 to .* Given: -1"),
        (
            "a.csv",
            "qubit,angle\n1,9\n",
            r"data: line 2, column angle: must be at least -pi and less .* Given: 9",
        ),
        ("a.csv", "qubit,angle\n1,nan\n", r"data: line 2, column angle: must be a finite number\. Given: nan"),
        ("a.csv", "qubit,angle\n1\n", r"data: line 2: must have 2 values, .* Given: 1"),
        ("a.csv", "x,label\nup,up\n", r"data: line 2, column x: must be a finite number\. Given: up"),
        ("a.csv", "x,label\n1,1\n1,\n", r"data: line 3, column label: must be a finite number\. Given: nothing"),
        ("a.csv", "x,label\n1,1e200\n", r"data: line 2, column label: must be from .* Given: 1e\+200"),
        ("a.jsonl", "[1, 2]\n", r"data: line 1: must be one JSON object\. Given: \[1, 2\]"),
        ("a.jsonl", '{"x": 1}\n' + "[" * 100_000, r"data: line 2: must be one JSON object\. Given: \["),
        ("a.jsonl", '{"x": "true"}\n', r"data: line 1, column x: must be a finite number\. Given: 'true'"),
    ],
)
def test_read_samples_wrong_row_raises(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(QcnnError, match=rf"^{message}"):
        read_samples(str(tmp_path / name))


def test_read_samples_skips_pandas_index_and_split(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5], "b": [1.0, 2.0, 3.0], "label": [1, -1, 1], "split": "test"})
    frame.drop(index=[1]).to_parquet(tmp_path / "rows.parquet")
    found = read_samples(str(tmp_path / "rows.parquet"))
    assert [*found.instances()] == [{"features": [0.5, 1.0]}, {"features": [2.5, 3.0]}]
    frame.to_csv(tmp_path / "rows.csv")
    with pytest.raises(QcnnError, match=r"^data: column 1 must have a name, or be dropped if it is an index"):
        read_samples(str(tmp_path / "rows.csv"))
