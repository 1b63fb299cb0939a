"""A person's own samples: what is made of a file's rows, and what is said of those that are wrong."""

import hashlib
import json
import logging
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from qcnn import data
from qcnn.data import file_data
from qcnn.errors import QcnnError
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.tables import ENDINGS
from tests.qcnn.tables.test_table import write

# Twenty rows with labels of both kinds in every split.
EXCITED = [(number % 4, round(math.sin(5 * number) * 3, 4), (-1) ** number) for number in range(20)]
FEATURES = [(number * 0.5, 100.0 - number**2, number % 2) for number in range(20)]


def _config(path: Path, **words: Any) -> ExperimentConfig:
    return from_mapping({"qubits": 4, "workers": 1, "strategy": "none", "data": str(path), **words})


def _csv(path: Path, header: str, rows: list[Any]) -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows), ""]))
    return path


@pytest.fixture
def excited(tmp_path: Path) -> Path:
    return _csv(tmp_path / "excited.csv", "qubit,angle,label", EXCITED)


@pytest.fixture
def features(tmp_path: Path) -> Path:
    return _csv(tmp_path / "features.csv", "x,y,label", FEATURES)


def test_rows_of_excitations_are_split_by_the_seed_and_none_is_lost(excited: Path) -> None:
    dataset = data.read(_config(excited))
    assert [len(samples) for _, samples in dataset.splits()] == [14, 3, 3]
    found = [
        (int(qubit), round(float(angle), 4), int(label))
        for _, samples in dataset.splits()
        for qubit, angle, label in zip(samples.qubit, samples.angle, samples.label, strict=True)
    ]
    assert sorted(found) == sorted(EXCITED)
    assert data.read(_config(excited)).digest == dataset.digest
    assert data.read(_config(excited, seed=1)).digest != dataset.digest
    assert dataset.source == data.Source(str(excited), hashlib.sha256(excited.read_bytes()).hexdigest())
    assert dataset.layout == data.EXCITATIONS


def test_scaling_is_learnt_on_the_training_split_alone(tmp_path: Path) -> None:
    splits = ["train"] * 10 + ["validation"] * 5 + ["test"] * 5
    rows = [(*row, split) for row, split in zip(FEATURES, splits, strict=True)]
    dataset = data.read(_config(_csv(tmp_path / "a.csv", "x,y,label,split", rows), encoding="ry"))
    # x runs from 0 to 4.5 in training, y from 19 to 100.
    np.testing.assert_allclose(dataset.train.inputs["features"][:, 0], np.arange(10) * 0.5 * np.pi / 4.5, rtol=1e-6)
    assert dataset.train.inputs["features"].min() == 0
    assert dataset.train.inputs["features"].max() == np.float32(np.pi)
    np.testing.assert_allclose(
        dataset.test.inputs["features"][-1, :2], [9.5 * np.pi / 4.5, -280 * np.pi / 81], rtol=1e-6
    )
    # Qubits without a feature are not turned.
    assert not dataset.test.inputs["features"][:, 2:].any()
    # 0 and 1 are -1 and +1.
    assert dataset.train.label.tolist() == [-1, 1] * 5
    assert dataset.layout.labels == "zero_one"
    np.testing.assert_allclose(dataset.layout.shown(dataset.test.inputs)["x"], [7.5, 8, 8.5, 9, 9.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("offset", "size", "off"),
    [(-1.117, 1e-3, 0.0), (1_700_000_000, 60, 0.0), (-3, 1e-9, 2e-15), (0.0, 1e-305, 1e-310), (-1e290, 1e298, 1e293)],
)
def test_shown_are_the_values_of_the_file(tmp_path: Path, offset: float, size: float, off: float) -> None:
    values = [round(offset + number * size, 12) if size > 1e-9 else offset + number * size for number in range(100)]
    rows = [(value, number % 2) for number, value in enumerate(values)]
    dataset = data.read(_config(_csv(tmp_path / "a.csv", "x,label", rows), encoding="rx"))
    shown = np.concatenate([dataset.layout.shown(samples.inputs)["x"] for _, samples in dataset.splits()])
    np.testing.assert_allclose(np.sort(shown), values, rtol=0, atol=off)


def test_radians_are_taken_as_they_are_and_other_labels_are_a_regression(tmp_path: Path) -> None:
    path = _csv(tmp_path / "a.csv", "a,label", [(0.1 * number, 0.3 * number) for number in range(20)])
    dataset = data.read(_config(path, encoding="rz", options={"feature_scaling": "none"}))
    values = np.concatenate([samples.inputs["features"][:, 0] for _, samples in dataset.splits()])
    np.testing.assert_array_equal(np.sort(values), np.float32(0.1 * np.arange(20)))
    assert dataset.layout.is_regression
    assert dataset.train.label.dtype == np.float64


@pytest.mark.parametrize("name", ["a.parquet", "a.npz", "a.jsonl"])
def test_every_format_holds_the_same_samples(name: str, excited: Path, tmp_path: Path) -> None:
    qubit, angle, label = map(np.array, zip(*EXCITED, strict=True))
    columns, path = {"qubit": qubit, "angle": angle, "label": label}, tmp_path / name
    if name.endswith("npz"):
        np.savez(path, **columns)
    else:
        frame = pytest.importorskip("pandas").DataFrame(columns)
        frame.to_parquet(path) if name.endswith("parquet") else frame.to_json(path, orient="records", lines=True)
    assert data.read(_config(path)).digest == data.read(_config(excited)).digest


def test_the_first_rows_may_count_alone(excited: Path) -> None:
    dataset = data.read(_config(excited, options={"max_samples": 10}))
    angles = np.concatenate([samples.angle for _, samples in dataset.splits()])
    assert sorted(np.round(angles.astype(float), 4)) == sorted(angle for _, angle, _ in EXCITED[:10])


def test_an_experiment_is_completed_by_what_its_file_says(excited: Path, tmp_path: Path) -> None:
    config = _config(excited)
    assert (config.needs_row_count, config.batch_size, config.epochs) == (True, 0, 0)
    done = data.with_file_metadata(config, data.read(config))
    assert (done.needs_row_count, done.options.max_samples, done.options.train_fraction) == (False, 20, 0.7)
    assert (done.batch_size, done.epochs) == (32, 640)
    assert from_mapping(done.model_dump()) == done
    # With a split of the file's own, the shares are those of the file.
    splits = ["train"] * 10 + ["validation"] * 3 + ["test"] * 7
    rows = [(*row, split) for row, split in zip(EXCITED, splits, strict=True)]
    config = _config(_csv(tmp_path / "split.csv", "qubit,angle,label,split", rows))
    counts = data.with_file_metadata(config, data.read(config)).split_counts
    assert (counts.train, counts.validation, counts.test) == (10, 3, 7)
    generated = from_mapping({"rounds": 20})
    assert data.with_file_metadata(generated, data.generate(generated)) == generated


def test_an_angle_that_rounds_to_pi_is_minus_pi(tmp_path: Path) -> None:
    rows = [*EXCITED, (0, 3.1415926535, 1), (0, -3.1415927, -1)]
    dataset = data.read(_config(_csv(tmp_path / "a.csv", "qubit,angle,label", rows)))
    data.save(dataset, tmp_path / "dataset")
    assert data.load(tmp_path / "dataset").digest == dataset.digest


@pytest.mark.parametrize("kind", ["excited", "features"])
def test_a_folder_holds_how_rows_are_read(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    encoding = "excitation" if kind == "excited" else "rx"
    dataset = data.read(_config(request.getfixturevalue(kind), encoding=encoding))
    data.save(dataset, tmp_path / "dataset")
    loaded = data.load(tmp_path / "dataset")
    assert (loaded.layout, loaded.source, loaded.digest) == (dataset.layout, dataset.source, dataset.digest)


def _with(row: int, column: int, value: object) -> list[Any]:
    rows: list[list[Any]] = [list(each) for each in EXCITED]
    rows[row][column] = value
    return rows


def _split(names: list[str]) -> list[Any]:
    return [(*row, name) for row, name in zip(EXCITED, names, strict=True)]


@pytest.mark.parametrize(
    ("header", "rows", "words", "message"),
    [
        ("qubit,angle", [row[:2] for row in EXCITED], {}, "data: column label is missing. Given: qubit, angle in "),
        ("qubit,turn,label", EXCITED, {}, "data: column angle is missing. Given: qubit, turn, label in "),
        ("qubit,angle,label", _with(15, 1, "abc"), {}, "data: line 17, column angle: must be a finite .*: abc"),
        ("qubit,angle,label", _with(15, 1, "nan"), {}, "data: line 17, column angle: must be a finite .*: nan"),
        (
            "qubit,angle,label",
            _with(15, 2, ""),
            {},
            "data: line 17, column label: must be a finite .*: nothing",
        ),
        (
            "qubit,angle,label",
            _with(3, 0, 4),
            {},
            "data: line 5, column qubit: must be .*, 0 to 3. Given: 4",
        ),
        ("qubit,angle,label", _with(3, 0, -1), {}, "data: line 5, column qubit: must be a whole number, .* Given: -1"),
        (
            "qubit,angle,label",
            _with(3, 0, 1.5),
            {},
            "data: line 5, column qubit: must be .* Given: 1.5",
        ),
        ("qubit,angle,label", _with(0, 1, 3.2), {}, "data: line 2, column angle: .* -pi and less than pi. Given: 3.2"),
        ("qubit,angle,label", _with(0, 1, math.pi), {}, "data: line 2, column angle: .* less than pi. Given: 3.14159"),
        ("qubit,angle,label", [], {}, "data: must hold at least one row. Given: "),
        ("qubit,angle,label", EXCITED[:1], {}, "data: the file's rows must leave at least one each .*: 1 rows, split"),
        ("qubit,angle,angle", EXCITED, {}, "data: every column must have a name of its own. Given: angle twice"),
        (
            "qubit,angle,label",
            [(*row[:2], 1) for row in EXCITED],
            {},
            "data: both labels must be in the training split. Given: 1 in all of its 14 rows",
        ),
        (
            "qubit,angle,label",
            [(*row[:2], 0.5) for row in EXCITED],
            {},
            "data: labels must differ in the training split. Given: 0.5 in all of its 14 rows",
        ),
        (
            "qubit,angle,label,split",
            _split(["train"] * 19 + ["tset"]),
            {},
            "data: line 21, column split: must be train, validation or test. Given: tset",
        ),
        (
            "qubit,angle,label,split",
            _split(["train"] * 15 + ["test"] * 5),
            {},
            "data: column split: each of train, validation, test must have a row. Given: none of validation",
        ),
        (
            "a,b,c,d,e,label",
            [(1, 2, 3, 4, 5, 1)] * 20,
            {"encoding": "ry"},
            "data: must have at least 1 and at most 4 columns beside label and split, .* Given: 5 in ",
        ),
        (
            "x,prediction,label",
            [(number, number**2, number % 2) for number in range(20)],
            {"encoding": "ry"},
            "data: no feature may be called prediction or noise_error, .* Given: prediction in ",
        ),
        ("label", [(1,), (0,)] * 10, {"encoding": "ry"}, "data: must have at least 1 .* Given: 0 in "),
        (
            "x,y,label",
            [(number, 7, number % 2) for number in range(20)],
            {"encoding": "rx"},
            "data: column y: must have different values in the training split .* Given: 7 to 7",
        ),
        (
            "x,label",
            [(number * 1e306, number % 2) for number in range(20)],
            {"encoding": "rx", "options": {"feature_scaling": "none"}},
            "data: line 3, column x: must be from -10000 to 10000, or its angle is not exact. Given: 1",
        ),
        (
            "x,label",
            [(number * 1e307, number % 2) for number in range(18)],
            {"encoding": "rx"},
            "data: column x: must have .*, and no more than 1e300 apart. Given: ",
        ),
        (
            "x,label,split",
            [
                (-1.7e308, 0, "train"),
                (-1.7e308 + 1e299, 1, "train"),
                (-1.7e308, 1, "test"),
                (1.7e308, 1, "validation"),
            ],
            {"encoding": "rx"},
            r"data: line 5, column x: must be from -\S*e.308 to -\S*e.308, or its angle is not exact. Given: 1.7e.308",
        ),
        (
            "qubit,angle,label,split",
            _split(["train"] * 19 + [""]),
            {},
            "data: line 21, column split: must be train, validation or test. Given: nothing$",
        ),
        (
            "qubit,angle,label",
            EXCITED,
            {"options": {"max_samples": 21}},
            "max_samples: the file must have as many .*: 20",
        ),
    ],
)
def test_refuses_rows_of_which_no_samples_can_be_made(
    tmp_path: Path, header: str, rows: list[Any], words: dict[str, Any], message: str
) -> None:
    path = _csv(tmp_path / "a.csv", header, rows)
    with pytest.raises(QcnnError, match=f"^{message}") as error:
        data.read(_config(path, **words))
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, r"data: cannot be read \(it is not there\). Given: "),
        (lambda path: path.mkdir(), "data: must be a file. Given: "),
        (lambda path: path.write_bytes(b""), "data: .* Given: "),
        (lambda path: path.write_bytes(b"qubit,angle,label\n\xff,0,1\n"), "data: line 2.*Given: "),
        (lambda path: path.write_bytes(b"x" * 2**23), "data: line 1: must have at most 4194304 characters. Given: x+"),
    ],
)
def test_refuses_what_is_no_table(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "a.csv"
    make(path)
    with pytest.raises(QcnnError, match=f"^{message}") as error:
        data.read(_config(path))
    assert str(error.value).isprintable()


def test_reads_no_further_than_the_most_rows_that_can_count(excited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.experiment.MAX_SAMPLES", 19)
    with pytest.raises(QcnnError, match=r"^data: must have at most 19 rows .*; samples says how many of them count"):
        data.read(_config(excited))


def test_files_are_found_from_everywhere_and_read_once_for_experiments_that_read_them_alike(
    excited: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(excited.parent)
    read, seen = file_data.read, []

    def counted(config: ExperimentConfig, warn: Callable[[str], None]) -> data.Dataset:
        seen.append(config.seed)
        return read(config, warn)

    monkeypatch.setattr(file_data, "read", counted)
    asked = [
        _config(Path(excited.name), seed=seed, options={"max_samples": samples})
        for seed in (0, 1)
        for samples in (0, 10)
    ]
    found = data.resolve_files([*asked, from_mapping({"rounds": 20})])
    assert [config.data for config in found] == [str(excited)] * 4 + ["excitations"]
    assert [config.options.max_samples for config in found] == [20, 10, 20, 10, 0]
    assert [config.seed for config in found] == [0, 0, 1, 1, 0]
    assert seen == [0, 0]


def _sorted_by_label(**more: Any) -> pd.DataFrame:
    """Return features that say nothing of the label, of which the number of a row says all."""
    x = np.sin(5.0 * np.arange(40))
    return pd.DataFrame({"x": x, "y": x**2, "label": np.repeat([0, 1], 20), **more})


@pytest.mark.parametrize(
    ("frame", "index"),
    [
        # A filter leaves numbers that are no range.
        (_sorted_by_label().drop(index=[3]), ["__index_level_0__"]),
        (_sorted_by_label(hour=range(40)).set_index("hour"), ["hour"]),
        (_sorted_by_label(day=range(40), hour=1).set_index(["day", "hour"]), ["day", "hour"]),
        (_sorted_by_label(), []),
        # What is asked for by its name is no more than that.
        (_sorted_by_label().set_index("label"), []),
    ],
)
def test_the_index_of_a_pandas_table_is_no_feature(tmp_path: Path, frame: pd.DataFrame, index: list[str]) -> None:
    path, said = tmp_path / "rows.parquet", list[str]()
    frame.to_parquet(path)
    dataset = data.read(_config(path, encoding="ry"), said.append)
    assert dataset.layout.features == ("x", "y")
    expected = [f"data: left out as the index of a pandas table: {', '.join(index)} in {path}"] if index else []
    assert said == expected
    # The same rows without an index are the same samples.
    frame.reset_index()[["x", "y", "label"]].to_csv(tmp_path / "rows.csv", index=False)
    assert data.read(_config(tmp_path / "rows.csv", encoding="ry")).digest == dataset.digest


def test_an_index_is_named_once_in_a_process(tmp_path: Path) -> None:
    """However often its file is read: for the experiment, for the dataset, and for predictions."""
    path, said = tmp_path / "rows.parquet", list[str]()
    _sorted_by_label().drop(index=[3]).to_parquet(path)

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    handler = Heard(logging.WARNING)
    file_data.logger.addHandler(handler)
    try:
        (config,) = data.resolve_files([_config(path, encoding="ry")])
        data.generate(config)
    finally:
        file_data.logger.removeHandler(handler)
    assert said == [f"data: left out as the index of a pandas table: __index_level_0__ in {path}"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 0.1", "__index_level_0__"])
def test_a_column_that_is_a_row_number_is_asked_about_in_every_format(tmp_path: Path, ending: str, name: str) -> None:
    path, frame = tmp_path / f"rows{ending}", _sorted_by_label()
    frame.insert(0, name, np.arange(40.0))
    write(path, frame)
    with pytest.raises(QcnnError) as refused:
        data.read(_config(path, encoding="ry"))
    which = f"{name} must be dropped if it is an index, or be renamed" if name else "1 must have a name, or be dropped"
    assert str(refused.value).startswith(f"data: column {which}")
    # Of what is no feature the name does not matter.
    frame = frame.assign(qubit=1, angle=frame["x"])
    write(path, frame)
    assert data.read(_config(path)).layout == data.FeatureLayout(labels="zero_one")


@pytest.mark.parametrize(
    "metadata", [b"{", b"[]", b"{}", b'{"index_columns": 3}', b'{"index_columns": [3, "z", {}]}', b"[" * 100_000]
)
def test_metadata_that_are_not_those_of_pandas_name_no_index(tmp_path: Path, metadata: bytes) -> None:
    path = tmp_path / "rows.parquet"
    table = pa.Table.from_pandas(_sorted_by_label()).replace_schema_metadata({b"pandas": metadata})
    parquet.write_table(table, path)
    assert data.read(_config(path, encoding="ry")).layout.features == ("x", "y")


@pytest.mark.parametrize("ending", ENDINGS)
def test_true_and_false_are_features_and_labels_in_every_format(tmp_path: Path, ending: str) -> None:
    path, even = tmp_path / f"rows{ending}", np.arange(40) % 2 == 0
    write(path, pd.DataFrame({"x": np.round(np.sin(np.arange(40)), 3), "even": even, "label": ~even}))
    dataset = data.read(_config(path, encoding="ry"))
    assert (dataset.layout.features, dataset.layout.labels) == (("x", "even"), "zero_one")
    for _, samples in dataset.splits():
        # 0 and pi, beside -1 and +1.
        np.testing.assert_array_equal(
            samples.inputs["features"][:, 1], np.where(samples.label < 0, np.float32(np.pi), 0)
        )


def _nearly_constant(noise: float, size: float = 7.0) -> pd.DataFrame:
    draws = np.random.default_rng(3)
    columns = {"x": draws.normal(size=60), "y": size * (1 + noise * draws.uniform(-1, 1, 60))}
    return pd.DataFrame({**columns, "label": draws.integers(0, 2, 60)})


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("size", [7.0, -1.7e9])
def test_a_column_that_is_constant_but_for_noise_is_named_in_every_format(
    tmp_path: Path, ending: str, size: float
) -> None:
    path, said = tmp_path / f"rows{ending}", list[str]()
    frame = _nearly_constant(1e-9, size)
    if ending == ".jsonl":
        # pandas rounds what it writes so.
        path.write_text("".join(f"{json.dumps(row)}\n" for row in frame.to_dict("records")))
    else:
        write(path, frame)
    layout = data.read(_config(path, encoding="rx"), said.append).layout
    (line,) = said
    assert re.fullmatch(rf"data: column y in {path}: the values of the training split differ by \S+, .*", line)
    # None of it is lost: angles are those of a formula on the column as it was.
    angles = layout.inputs(frame)["features"][:, 1]
    expected = (frame["y"] - layout.offsets[1]) / (frame["y"] - layout.offsets[1]).max() * angles.max()
    np.testing.assert_allclose(angles, expected, atol=1e-5)


def test_a_column_of_which_rounding_is_all_that_differs_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", _nearly_constant(1e-15))
    message = r"^data: column y: must have values .* by more than float64 rounds .* Given: 6\.9+\d* to 7\.0+\d*$"
    with pytest.raises(QcnnError, match=message):
        data.read(_config(tmp_path / "rows.csv", encoding="rx"))


def test_a_column_that_varies_is_not_named(tmp_path: Path) -> None:
    said = list[str]()
    write(tmp_path / "rows.csv", _nearly_constant(1e-5))
    assert data.read(_config(tmp_path / "rows.csv", encoding="rx"), said.append).layout.features == ("x", "y")
    assert not said


def test_the_bounds_of_a_large_feature_are_told_apart(tmp_path: Path) -> None:
    rows = [(1.7e9 + number, number % 2) for number in range(20)]
    splits = ["train"] * 10 + ["validation"] * 5 + ["test"] * 5
    with_split = [(*row, split) for row, split in zip(rows, splits, strict=True)]
    with_split[-1] = (1.8e9, 1, "test")
    path = _csv(tmp_path / "a.csv", "t,label,split", with_split)
    # 9 seconds are pi, so 10,000 rad are 28,648 seconds.
    with pytest.raises(QcnnError, match=r"must be from 1699971352\.\d+ to 1700028647\.\d+, .* Given: 1800000000$"):
        data.read(_config(path, encoding="rx"))
