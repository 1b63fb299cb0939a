"""Samples of a file, and what is said of those that are wrong."""

from pathlib import Path

import pytest

from cli.vertex.serving.samples import Sample, read_samples
from trainer.errors import ArtifactError


def test_a_csv_and_a_jsonl_file_hold_the_same_samples(tmp_path: Path) -> None:
    expected = [Sample(2, 0.5, 1.0), Sample(0, -3.0, -1.0)]
    (tmp_path / "a.csv").write_text("label,angle,qubit,name\n1,0.5,2,x\n-1,-3,0,y\n")
    (tmp_path / "a.jsonl").write_text(
        '{"qubit": 2, "angle": 0.5, "label": 1}\n\n{"qubit": 0.0, "angle": -3, "label": -1}\n'
    )
    for name in ("a.csv", "a.jsonl"):
        assert read_samples(tmp_path / name, name) == expected
    (tmp_path / "b.csv").write_text("qubit,angle\n1,0.25\n")
    assert read_samples(tmp_path / "b.csv", "b.csv") == [Sample(1, 0.25)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", "", r"data: must be a file \.csv or \.jsonl\. Given: a\.txt"),
        ("a.csv", "", r"data: must have the columns qubit and angle in its first line\. Given: a\.csv"),
        ("a.csv", "1,0.5\n", r"data: must have the columns qubit and angle in its first line\. Given: a\.csv"),
        ("a.csv", "qubit,angle\n", r"data: must hold at least one sample\. Given: a\.csv"),
        ("a.csv", "qubit,angle\n1,2\n1.5,2\n", r"data: line 3: qubit must be a whole number from 0\. Given: '1.5' in"),
        ("a.csv", "qubit,angle\n-1,2\n", r"data: line 2: qubit must be a whole number from 0\. Given: '-1' in a\.csv"),
        ("a.csv", "qubit,angle\n1,nan\n", r"data: line 2: angle must be a finite number\. Given: 'nan' in a\.csv"),
        ("a.csv", "qubit,angle\n1\n", r"data: line 2: angle must be a finite number\. Given: None in a\.csv"),
        ("a.csv", "qubit,angle,label\n1,2,up\n", r"data: line 2: label must be a finite number\. Given: 'up' in"),
        ("a.csv", "qubit,angle,label\n1,2,1\n1,2,\n", r"data: must have a label in every row, or in none\. Given: a"),
        ("a.jsonl", "[1, 2]\n", r"data: line 1 must be a JSON object\. Given: '\[1, 2\]' in a\.jsonl"),
        (
            "a.jsonl",
            '{"qubit": true, "angle": 1}\n',
            r"data: line 1: qubit must be a whole number from 0\.",
        ),
        ("a.jsonl", "{\n", r"data: line 1 must be a JSON object\. Given: '\{' in a\.jsonl"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ArtifactError, match=rf"^{said}"):
        read_samples(tmp_path / name, name)
