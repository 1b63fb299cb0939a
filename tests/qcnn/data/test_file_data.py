"""Samples of data files: conversion of rows, and errors for invalid rows."""

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
from qcnn.artifact_io import load_description, save_description
from qcnn.data import file_data
from qcnn.errors import ConfigError, QcnnError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.tables import EXTENSIONS
from tests.qcnn.tables.test_table import write

# Twenty rows with both labels in every split.
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


def test_read_excitations_splits_all_rows_by_seed(excited: Path) -> None:
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


def test_read_scales_by_training_split_only(tmp_path: Path) -> None:
    splits = ["train"] * 10 + ["validation"] * 5 + ["test"] * 5
    rows = [(*row, split) for row, split in zip(FEATURES, splits, strict=True)]
    dataset = data.read(_config(_csv(tmp_path / "a.csv", "x,y,label,split", rows), encoding="ry"))
    # The training split has x from 0 to 4.5 and y from 19 to 100.
    np.testing.assert_allclose(dataset.train.inputs["features"][:, 0], np.arange(10) * 0.5 * np.pi / 4.5, rtol=1e-6)
    assert dataset.train.inputs["features"].min() == 0
    assert dataset.train.inputs["features"].max() == np.float32(np.pi)
    np.testing.assert_allclose(
        dataset.test.inputs["features"][-1, :2], [9.5 * np.pi / 4.5, -280 * np.pi / 81], rtol=1e-6
    )
    # Qubits without a feature are not rotated.
    assert not dataset.test.inputs["features"][:, 2:].any()
    # Labels 0 and 1 become -1 and +1.
    assert dataset.train.label.tolist() == [-1, 1] * 5
    assert dataset.layout.labels == "zero_one"
    np.testing.assert_allclose(
        dataset.layout.recover_columns(dataset.test.inputs)["x"], [7.5, 8, 8.5, 9, 9.5], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("offset", "size", "off"),
    [(-1.117, 1e-3, 0.0), (1_700_000_000, 60, 0.0), (-3, 1e-9, 2e-15), (0.0, 1e-305, 1e-310), (-1e290, 1e298, 1e293)],
)
def test_recover_columns_returns_file_values(tmp_path: Path, offset: float, size: float, off: float) -> None:
    values = [round(offset + number * size, 12) if size > 1e-9 else offset + number * size for number in range(100)]
    rows = [(value, number % 2) for number, value in enumerate(values)]
    dataset = data.read(_config(_csv(tmp_path / "a.csv", "x,label", rows), encoding="rx"))
    recovered = np.concatenate([dataset.layout.recover_columns(samples.inputs)["x"] for _, samples in dataset.splits()])
    np.testing.assert_allclose(np.sort(recovered), values, rtol=0, atol=off)


def test_read_radians_and_real_labels_unchanged(tmp_path: Path) -> None:
    path = _csv(tmp_path / "a.csv", "a,label", [(0.1 * number, 0.3 * number) for number in range(20)])
    dataset = data.read(_config(path, encoding="rz", options={"feature_scaling": "none"}))
    values = np.concatenate([samples.inputs["features"][:, 0] for _, samples in dataset.splits()])
    np.testing.assert_array_equal(np.sort(values), np.float32(0.1 * np.arange(20)))
    assert dataset.layout.is_regression
    assert dataset.train.label.dtype == np.float64


def test_classical_models_need_classes(tmp_path: Path) -> None:
    path = _csv(tmp_path / "a.csv", "a,label", [(0.1 * number, 0.3 * number) for number in range(20)])
    # The second experiment uses the read of the first one.
    configs = [_config(path, encoding="rz", options={"baseline": baseline}) for baseline in (0, 1)]
    with pytest.raises(ConfigError, match=rf"^baseline: must be 0 with labels that are real .* Given: 1 with {path}$"):
        data.resolve_files(configs)


@pytest.mark.parametrize("name", ["a.parquet", "a.npz", "a.jsonl"])
def test_read_every_format_gives_equal_samples(name: str, excited: Path, tmp_path: Path) -> None:
    qubit, angle, label = map(np.array, zip(*EXCITED, strict=True))
    path = tmp_path / name
    columns: dict[str, Any] = {"qubit": qubit, "angle": angle, "label": label}
    if name.endswith("npz"):
        np.savez(path, **columns)
    else:
        frame = pytest.importorskip("pandas").DataFrame(columns)
        frame.to_parquet(path) if name.endswith("parquet") else frame.to_json(path, orient="records", lines=True)
    assert data.read(_config(path)).digest == data.read(_config(excited)).digest


@pytest.mark.parametrize("ending", EXTENSIONS)
@pytest.mark.parametrize("words", [{}, {"max_samples": 60}, {"split": True}], ids=str)
def test_load_has_rows_and_exact_values_of_file(tmp_path: Path, ending: str, words: dict[str, Any]) -> None:
    x, y = np.random.default_rng(1).uniform(-1, 1, (2, 100)).round(6)
    columns = pd.DataFrame({"x": 1e9 + x, "y": y, "label": 1 * (y > 0)})
    if words.get("split"):
        columns["split"] = np.resize(["test", "train", "validation"], 100)
    write(tmp_path / f"rows{ending}", columns)
    options = {name: value for name, value in words.items() if name != "split"}
    data.save(data.read(_config(tmp_path / f"rows{ending}", encoding="ry", options=options)), tmp_path / "dataset")
    dataset = data.load(tmp_path / "dataset")
    rows = []
    for _, samples in dataset.splits():
        assert samples.row is not None
        np.testing.assert_array_equal(samples.label, np.where(columns["label"].iloc[samples.row - 1], 1, -1))
        rows += samples.row.tolist()
    assert sorted(rows) == [*range(1, options.get("max_samples", 100) + 1)]
    assert dataset.test.row is not None
    for name in ("x", "y"):
        np.testing.assert_array_equal(dataset.test.values[name], columns[name].iloc[dataset.test.row - 1])


def test_load_earlier_dataset_has_no_rows() -> None:
    dataset = data.load(Path(__file__).parents[2] / "golden" / "0.1.0" / "rows" / "generate-data" / "dataset")
    assert dataset.source
    assert [(samples.row, samples.values) for _, samples in dataset.splits()] == [(None, {})] * 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("train_row", 0, "train_row must be at least 1. Given: 0"),
        ("test_values", math.nan, "test_values must be finite. Given: nan"),
    ],
)
def test_load_invalid_rows_raises(features: Path, tmp_path: Path, name: str, value: float, message: str) -> None:
    data.save(data.read(_config(features, encoding="rx")), tmp_path / "dataset")
    path = tmp_path / "dataset" / "dataset.npz"
    with np.load(path) as arrays:
        columns = dict(arrays)
    columns[name][0] = value
    np.savez(path, **columns)
    description = path.with_suffix(".json")
    save_description(load_description("dataset", description), description, [path.name])
    with pytest.raises(QcnnError, match=rf"^dataset: {message} in "):
        data.load(tmp_path / "dataset")


def test_read_row_of_csv_counts_neither_names_nor_blank_lines(tmp_path: Path) -> None:
    splits = ["test"] * 3 + ["train"] * 14 + ["validation"] * 3
    path = _csv(tmp_path / "a.csv", "qubit,angle,label,split", [(*r, s) for r, s in zip(EXCITED, splits, strict=True)])
    path.write_text(path.read_text().replace("\n", "\n\n", 3))
    test = data.read(_config(path)).test
    assert test.row is not None
    assert test.row.tolist() == [1, 2, 3]
    assert test.values["angle"].tolist() == [angle for _, angle, _ in EXCITED[:3]]


def test_read_max_samples_uses_first_rows(excited: Path) -> None:
    dataset = data.read(_config(excited, options={"max_samples": 10}))
    angles = np.concatenate([samples.angle for _, samples in dataset.splits()])
    assert sorted(np.round(angles.astype(float), 4)) == sorted(angle for _, angle, _ in EXCITED[:10])


def test_with_file_metadata_sets_rows_and_split(excited: Path, tmp_path: Path) -> None:
    config = _config(excited)
    assert (config.needs_row_count, config.batch_size, config.epochs) == (True, 0, 0)
    done = data.with_file_metadata(config, data.read(config))
    assert (done.needs_row_count, done.options.max_samples, done.options.train_fraction) == (False, 20, 0.7)
    assert (done.batch_size, done.epochs) == (32, 640)
    assert from_mapping(done.model_dump()) == done
    # A split column in the file determines the fractions.
    splits = ["train"] * 10 + ["validation"] * 3 + ["test"] * 7
    rows = [(*row, split) for row, split in zip(EXCITED, splits, strict=True)]
    config = _config(_csv(tmp_path / "split.csv", "qubit,angle,label,split", rows))
    counts = data.with_file_metadata(config, data.read(config)).split_counts
    assert (counts.train, counts.validation, counts.test) == (10, 3, 7)
    generated = from_mapping({"rounds": 20})
    assert data.with_file_metadata(generated, data.generate(generated)) == generated


def test_read_angle_that_rounds_to_pi_becomes_minus_pi(tmp_path: Path) -> None:
    rows = [*EXCITED, (0, 3.1415926535, 1), (0, -3.1415927, -1)]
    dataset = data.read(_config(_csv(tmp_path / "a.csv", "qubit,angle,label", rows)))
    data.save(dataset, tmp_path / "dataset")
    assert data.load(tmp_path / "dataset").digest == dataset.digest


@pytest.mark.parametrize("kind", ["excited", "features"])
def test_load_returns_saved_layout_and_source(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
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
        (
            "x,y,label",
            EXCITED,
            {},
            "encoding: must be rx, ry, rz, dense, amplitude or circuit for features; excitation requires the columns "
            "qubit and angle. Given: excitation with x, y, label in ",
        ),
        (
            "qubit,angle,label",
            _with(15, 2, "cat"),
            {},
            "data: line 17, column label: must be a number; write two classes as -1 and .1, or as 0 and 1. Given: cat$",
        ),
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
        ("qubit,angle,angle", EXCITED, {}, "data: column names must be unique. Given: angle twice"),
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
            "data: must have 1 to 4 columns in addition to label and split, .* Given: 5 in ",
        ),
        (
            "x,prediction,label",
            [(number, number**2, number % 2) for number in range(20)],
            {"encoding": "ry"},
            "data: no feature may be called row, prediction or noise_error, .* Given: prediction in ",
        ),
        (
            "row,x,label",
            [(number, number**2, number % 2) for number in range(20)],
            {"encoding": "ry"},
            "data: no feature may be called row, prediction or noise_error, .* Given: row in ",
        ),
        ("label", [(1,), (0,)] * 10, {"encoding": "ry"}, "data: must have 1 to 4 .* Given: 0 in "),
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
            "max_samples: the file must have at least 21 rows.*: 20",
        ),
    ],
)
def test_read_invalid_rows_raises(
    tmp_path: Path, header: str, rows: list[Any], words: dict[str, Any], message: str
) -> None:
    path = _csv(tmp_path / "a.csv", header, rows)
    with pytest.raises(QcnnError, match=f"^{message}") as error:
        data.read(_config(path, **words))
    assert str(error.value).isprintable()


def test_read_csv_with_spaces_equals_one_without(tmp_path: Path) -> None:
    names = ["train"] * 10 + ["test"] * 5 + ["validation"] * 5
    rows = [(*row, name) for row, name in zip(FEATURES, names, strict=True)]
    plain = data.read(_config(_csv(tmp_path / "a.csv", "x,y,label,split", rows), encoding="ry"))
    spaced = tmp_path / "b.csv"
    spaced.write_text((tmp_path / "a.csv").read_text().replace(",", ", "))
    read = data.read(_config(spaced, encoding="ry"))
    assert (read.digest, read.layout) == (plain.digest, plain.layout)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, r"data: cannot be read \(file not found\). Given: "),
        (lambda path: path.mkdir(), "data: must be a file. Given: "),
        (lambda path: path.write_bytes(b""), "data: .* Given: "),
        (lambda path: path.write_bytes(b"qubit,angle,label\n\xff,0,1\n"), "data: line 2.*Given: "),
        (lambda path: path.write_bytes(b"x" * 2**23), "data: line 1: must have at most 4194304 characters. Given: x+"),
    ],
)
def test_read_file_that_is_no_table_raises(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "a.csv"
    make(path)
    with pytest.raises(QcnnError, match=f"^{message}") as error:
        data.read(_config(path))
    assert str(error.value).isprintable()


def test_read_too_many_rows_raises(excited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.experiment.config.MAX_SAMPLES", 19)
    with pytest.raises(QcnnError, match=r"^data: must have at most 19 rows .*; set max_samples to read fewer"):
        data.read(_config(excited))


def test_resolve_files_reads_once_and_sets_absolute_path(excited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(excited.parent)
    read, seeds = file_data.read, []

    def record_read(config: ExperimentConfig, warn: Callable[[str], None]) -> data.Dataset:
        seeds.append(config.seed)
        return read(config, warn)

    monkeypatch.setattr(file_data, "read", record_read)
    configs = [
        _config(Path(excited.name), seed=seed, options={"max_samples": samples})
        for seed in (0, 1)
        for samples in (0, 10)
    ]
    resolved = data.resolve_files([*configs, from_mapping({"rounds": 20})])
    assert [config.data for config in resolved] == [str(excited)] * 4 + ["excitations"]
    assert [config.options.max_samples for config in resolved] == [20, 10, 20, 10, 0]
    assert [config.seed for config in resolved] == [0, 0, 1, 1, 0]
    assert seeds == [0, 0]


def _sorted_by_label(**more: Any) -> pd.DataFrame:
    """Return features without information on the label, which the row number determines."""
    x = np.sin(5.0 * np.arange(40))
    return pd.DataFrame({"x": x, "y": x**2, "label": np.repeat([0, 1], 20), **more})


@pytest.mark.parametrize(
    ("frame", "index"),
    [
        # After a filter the index is no range.
        (_sorted_by_label().drop(index=[3]), ["__index_level_0__"]),
        (_sorted_by_label(hour=range(40)).set_index("hour"), ["hour"]),
        (_sorted_by_label(day=range(40), hour=1).set_index(["day", "hour"]), ["day", "hour"]),
        (_sorted_by_label(), []),
        # A column that is read by name is not reported as an index.
        (_sorted_by_label().set_index("label"), []),
    ],
)
def test_read_pandas_index_is_no_feature(tmp_path: Path, frame: pd.DataFrame, index: list[str]) -> None:
    path, warnings = tmp_path / "rows.parquet", list[str]()
    frame.to_parquet(path)
    dataset = data.read(_config(path, encoding="ry"), warnings.append)
    assert dataset.layout.features == ("x", "y")
    expected = [f"data: index columns of a pandas table are ignored: {', '.join(index)} in {path}"] if index else []
    assert warnings == expected
    # The same rows without an index are the same samples.
    frame.reset_index()[["x", "y", "label"]].to_csv(tmp_path / "rows.csv", index=False)
    assert data.read(_config(tmp_path / "rows.csv", encoding="ry")).digest == dataset.digest


def test_read_pandas_index_warns_once_per_process(tmp_path: Path) -> None:
    """The file is read for the experiment, the dataset and predictions."""
    path, warnings = tmp_path / "rows.parquet", list[str]()
    _sorted_by_label().drop(index=[3]).to_parquet(path)

    class WarningCollector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.append(record.getMessage())

    handler = WarningCollector(logging.WARNING)
    file_data.logger.addHandler(handler)
    try:
        (config,) = data.resolve_files([_config(path, encoding="ry")])
        data.generate(config)
    finally:
        file_data.logger.removeHandler(handler)
    assert warnings == [f"data: index columns of a pandas table are ignored: __index_level_0__ in {path}"]


@pytest.mark.parametrize("ending", EXTENSIONS)
@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 0.1", "__index_level_0__"])
def test_read_row_number_column_raises_in_every_format(tmp_path: Path, ending: str, name: str) -> None:
    path, frame = tmp_path / f"rows{ending}", _sorted_by_label()
    frame.insert(0, name, np.arange(40.0))
    write(path, frame)
    with pytest.raises(QcnnError) as error:
        data.read(_config(path, encoding="ry"))
    which = f"{name} must be dropped if it is an index, or be renamed" if name else "1 must have a name, or be dropped"
    assert str(error.value).startswith(f"data: column {which}")
    # Names of columns that are no features are not checked.
    frame = frame.assign(qubit=1, angle=frame["x"])
    write(path, frame)
    assert data.read(_config(path)).layout == data.FeatureLayout(labels="zero_one")


@pytest.mark.parametrize(
    "metadata", [b"{", b"[]", b"{}", b'{"index_columns": 3}', b'{"index_columns": [3, "z", {}]}', b"[" * 100_000]
)
def test_read_invalid_pandas_metadata_is_ignored(tmp_path: Path, metadata: bytes) -> None:
    path = tmp_path / "rows.parquet"
    table = pa.Table.from_pandas(_sorted_by_label()).replace_schema_metadata({b"pandas": metadata})
    parquet.write_table(table, path)
    assert data.read(_config(path, encoding="ry")).layout.features == ("x", "y")


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_read_booleans_as_features_and_labels_in_every_format(tmp_path: Path, ending: str) -> None:
    path, even = tmp_path / f"rows{ending}", np.arange(40) % 2 == 0
    write(path, pd.DataFrame({"x": np.round(np.sin(np.arange(40)), 3), "even": even, "label": ~even}))
    dataset = data.read(_config(path, encoding="ry"))
    assert (dataset.layout.features, dataset.layout.labels) == (("x", "even"), "zero_one")
    for _, samples in dataset.splits():
        # Features become 0 and pi, labels -1 and +1.
        np.testing.assert_array_equal(
            samples.inputs["features"][:, 1], np.where(samples.label < 0, np.float32(np.pi), 0)
        )


def _nearly_constant(noise: float, size: float = 7.0) -> pd.DataFrame:
    draws = np.random.default_rng(3)
    columns = {"x": draws.normal(size=60), "y": size * (1 + noise * draws.uniform(-1, 1, 60))}
    return pd.DataFrame({**columns, "label": draws.integers(0, 2, 60)})


@pytest.mark.parametrize("ending", EXTENSIONS)
@pytest.mark.parametrize("size", [7.0, -1.7e9])
def test_read_nearly_constant_column_warns_in_every_format(tmp_path: Path, ending: str, size: float) -> None:
    path, warnings = tmp_path / f"rows{ending}", list[str]()
    frame = _nearly_constant(1e-9, size)
    if ending == ".jsonl":
        # pandas would round the values.
        path.write_text("".join(f"{json.dumps(row)}\n" for row in frame.to_dict("records")))
    else:
        write(path, frame)
    layout = data.read(_config(path, encoding="rx"), warnings.append).layout
    (line,) = warnings
    assert re.fullmatch(rf"data: column y in {path}: the values of the training split differ by \S+ at a size .*", line)
    # Angles keep the full accuracy: they equal a formula on the original column.
    angles = layout.inputs(frame)["features"][:, 1]
    expected = (frame["y"] - layout.offsets[1]) / (frame["y"] - layout.offsets[1]).max() * angles.max()
    np.testing.assert_allclose(angles, expected, atol=1e-5)


def test_read_column_varying_by_rounding_raises(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", _nearly_constant(1e-15))
    message = r"^data: column y: must have values .* by more than float64 rounding, .* Given: 6\.9+\d* to 7\.0+\d*$"
    with pytest.raises(QcnnError, match=message):
        data.read(_config(tmp_path / "rows.csv", encoding="rx"))


def test_read_varying_column_does_not_warn(tmp_path: Path) -> None:
    warnings = list[str]()
    write(tmp_path / "rows.csv", _nearly_constant(1e-5))
    assert data.read(_config(tmp_path / "rows.csv", encoding="rx"), warnings.append).layout.features == ("x", "y")
    assert not warnings


def test_read_large_feature_error_has_distinct_bounds(tmp_path: Path) -> None:
    rows = [(1.7e9 + number, number % 2) for number in range(20)]
    splits = ["train"] * 10 + ["validation"] * 5 + ["test"] * 5
    with_split = [(*row, split) for row, split in zip(rows, splits, strict=True)]
    with_split[-1] = (1.8e9, 1, "test")
    path = _csv(tmp_path / "a.csv", "t,label,split", with_split)
    # 9 seconds are pi, so 10,000 rad are 28,648 seconds.
    with pytest.raises(QcnnError, match=r"must be from 1699971352\.\d+ to 1700028647\.\d+, .* Given: 1800000000$"):
        data.read(_config(path, encoding="rx"))
