"""Rows of a registered version, compared with those of models that scale their features differently."""

from pathlib import Path

import numpy as np
import pytest

from qcnn import data
from qcnn.artifact_io import save_description
from qcnn.data import Dataset, FeatureLayout
from qcnn.errors import ArtifactError
from qcnn.experiment.parsing import from_mapping
from qcnn.registry.rows import FILE, digests, fresh_rows, read_rows, unseen, write_rows


def _dataset(folder: Path, count: int, seed: int, encoding: str) -> Dataset:
    """Return the dataset of the first rows of a table, whose range grows with the number of rows."""
    values = np.random.default_rng(0).normal(0, 1, (1000, 3)) * np.linspace(1, 5, 1000)[:, None]
    lines = [",".join(map(repr, [*row, int(row[0] > 0)])) for row in values[:count].tolist()]
    (path := folder / f"{count}.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    fields = {"qubits": 4, "data": str(path), "encoding": encoding, "seed": seed, "rounds": 0}
    return data.generate(from_mapping(fields))


@pytest.mark.parametrize("encoding", ["ry", "dense", "amplitude"])
def test_rows_of_training_are_found_in_other_file(tmp_path: Path, encoding: str) -> None:
    """Each model has its own scales. The rows of the first are the beginning of those of the second."""
    champion = _dataset(tmp_path, 300, 0, encoding)
    candidate = _dataset(tmp_path, 1000, 1, encoding)
    stored = {}
    for name, dataset in {"champion": champion, "candidate": candidate}.items():
        (folder := tmp_path / name).mkdir()
        write_rows(dataset, folder)
        save_description({}, folder / "version.json", [FILE])
        stored[name] = read_rows(folder, "version.json", dataset.layout)
    old, new = stored["champion"], stored["candidate"]
    assert old
    assert new
    assert candidate.test.row is not None
    assert champion.train.row is not None
    assert champion.validation.row is not None
    known = {*champion.train.row.tolist(), *champion.validation.row.tolist()}
    expected = [row not in known for row in candidate.test.row.tolist()]
    assert unseen(new.test.columns, champion.layout, old.seen).tolist() == expected
    assert 0 < expected.count(False) < len(expected)
    assert unseen(new.test.columns, candidate.layout, new.seen).all()
    lines = Path(candidate.source.data if candidate.source else "").read_text().splitlines()
    rows = [[float(value) for value in lines[row].split(",")[:3]] for row in candidate.test.row]
    assert np.array_equal(np.stack([new.test.columns[name] for name in "abc"], axis=1), rows)


def test_digests_depend_on_inputs_only() -> None:
    qubit = np.array([0, 1, 0], np.int32)
    first = digests({"qubit": qubit, "angle": np.array([0.5, 0.5, -0.0], np.float32)})
    second = digests({"angle": np.array([0.5, 0.25, 0.0], np.float32), "qubit": qubit})
    assert len({*first, *second}) == 4
    assert (first[0], first[2]) == (second[0], second[2])


def test_fresh_rows_have_labels_of_layout() -> None:
    numbers, classes = (
        fresh_rows(layout, 6, 3) for layout in (FeatureLayout(), FeatureLayout(labels="classes", classes=("-1", "1")))
    )
    assert len(numbers) == len(classes) == 10_000
    assert {*numbers.label.tolist()} == {-1, 1}
    assert np.array_equal(numbers.label > 0, classes.label == 1)
    assert np.array_equal(numbers.label > 0, np.abs(numbers.columns["angle"]) <= np.pi / 2)
    assert {*numbers.columns["qubit"].tolist()} == {*range(6)}


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
def test_damaged_rows_are_one_line(tmp_path: Path, damage: bytes | None) -> None:
    write_rows(data.generate(from_mapping({"qubits": 4, "rounds": 10})), tmp_path)
    save_description({}, tmp_path / "version.json", [FILE])
    if damage is None:
        (tmp_path / FILE).unlink()
    else:
        (tmp_path / FILE).write_bytes(damage)
    with pytest.raises(ArtifactError, match=r"^version: rows\.npz is [^\n]* Given: "):
        read_rows(tmp_path, "version.json", FeatureLayout())


def test_version_without_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path, "version.json", FeatureLayout()) is None
    save_description({}, tmp_path / "version.json")
    assert read_rows(tmp_path, "version.json", FeatureLayout()) is None
