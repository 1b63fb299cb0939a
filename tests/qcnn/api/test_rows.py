"""Rows from memory: arrays and data frames to train on, predict and evaluate."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import qcnn
from qcnn import data
from qcnn.data import memory
from qcnn.experiment.parsing import from_mapping
from qcnn.tables.table import open_table

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 3))
Y = np.where(X[:, 0] + 0.3 * RANDOM.normal(size=40) > 0, "cat", "dog")
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y)
FIELDS = {"qubits": 4, "encoding": "ry", "epochs": 2, "workers": 1, "strategy": "none", "num_initializations": 1}


def _experiment(**fields: object) -> qcnn.Experiment:
    return qcnn.Experiment(**{**FIELDS, "loss": "cross_entropy", **fields})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> qcnn.TrainingResult:
    """Run on a data frame."""
    folder = tmp_path_factory.mktemp("memory") / "run"
    return qcnn.train(_experiment(), folder, data=FRAME, progress=False)


def test_run_equals_that_of_a_file_with_the_same_values(trained: qcnn.TrainingResult, tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
    of_file = data.generate(from_mapping(_experiment(data=tmp_path / "rows.csv").config.model_dump()))
    assert data.load(trained.dataset).digest == of_file.digest
    assert trained.experiment.data == str(trained.folder / "rows.parquet")
    again = qcnn.TrainingResult.from_folder(trained.folder)
    assert (again.metrics, again.experiment) == (trained.metrics, trained.experiment)


def test_second_call_reads_the_run_and_refuses_other_rows(trained: qcnn.TrainingResult) -> None:
    again = qcnn.train(_experiment(), trained.folder, data=FRAME, progress=False)
    assert again.metrics == trained.metrics
    message = r"^folder: must hold a run of these rows, not of others\. Given: .*rows\.parquet$"
    with pytest.raises(qcnn.ArtifactError, match=message):
        qcnn.train(_experiment(), trained.folder, data=FRAME.assign(a=0.5), progress=False)


def test_files_of_the_user_with_the_name_of_the_rows_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    memory.write_rows(pa.table(FRAME.assign(a=-X[:, 0])), path)
    content = path.read_bytes()
    with pytest.raises(qcnn.ArtifactError, match=r"^folder: must hold a run of these rows, not of others\."):
        qcnn.train(_experiment(), tmp_path, data=FRAME, progress=False)
    message = r"^folder: must be new or empty, or hold "
    with pytest.raises(qcnn.ArtifactError, match=message):
        qcnn.train(_experiment(encoding="excitation"), tmp_path, progress=False)
    with pytest.raises(qcnn.ArtifactError, match=message):
        qcnn.study(_experiment(data=path), grid={"learning_rate": [0.1, 0.2]}, folder=tmp_path, progress=False)
    assert [each.name for each in tmp_path.iterdir()] == ["rows.parquet"]
    assert path.read_bytes() == content


def test_interrupted_call_is_repeated(tmp_path: Path) -> None:
    memory.write_rows(memory.table_of(FRAME), tmp_path / "rows.parquet")
    training = qcnn.train(_experiment(), tmp_path, data=FRAME, progress=False)
    assert [epoch.epoch for epoch in training.history] == [1, 2]


def test_evaluation_and_predictions_of_rows_are_those_of_files(trained: qcnn.TrainingResult) -> None:
    found = qcnn.evaluate(trained.model, data=(X, Y))
    assert found.metrics == qcnn.evaluate(trained.folder, data=pa.table(FRAME)).metrics
    probabilities = trained.model.predict(FRAME)
    np.testing.assert_array_equal(found.predictions, probabilities)
    np.testing.assert_array_equal(trained.model.predict(pa.table(FRAME)), probabilities)
    right = np.array(trained.model.classes)[probabilities.argmax(axis=1)] == Y
    assert found.metrics["accuracy"] == pytest.approx(right.mean())
    assert len(found.samples) == 40
    with pytest.raises(qcnn.ConfigError, match=r"^data: must be omitted if a dataset is given"):
        qcnn.evaluate(trained.model, data.load(trained.dataset), data=FRAME)
    with pytest.raises(qcnn.ArtifactError, match=r"^data: column label is missing\. Given: a, b, c in "):
        qcnn.evaluate(trained.model, data=FRAME.drop(columns="label"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((X, Y[:5]), r"data: x and y must have as many rows\. Given: 40 and 5"),
        ((X[:, 0], Y), r"data: must be arrays \(x, y\) of shapes .* Given: x \(40,\) and y \(40,\)"),
        (3, r"data: must be arrays .* Given: 3"),
        ([[1, 2], [3]], r"data: must be arrays .*"),
        ({"a": [1, 2]}, r"data: column label is missing\. Given: a in "),
        (FRAME.drop(columns="label"), r"data: column label is missing\. Given: a, b, c in "),
        ((FRAME, Y), r"data: x must have no column label, because y is given"),
        ((X, [1] * 40), r"data: must have 2 to 100 classes\. Given: 1"),
        ((X, [10**30, 1] * 20), r"data: must be arrays .*\(Python int too large .* Given: 'tuple'"),
        ((X[:, :0], Y), r"data: must be arrays .* Given: x \(40, 0\) and y \(40,\)"),
        ((np.ma.masked_greater(X, 2), Y), r"data: row \d+, column x\d: must be a finite number\. Given: nothing"),
        ((np.where(X > 2, np.nan, X), Y), r"data: row \d+, column x\d: must be a finite number\. Given: nan"),
    ],
    ids=[
        "lengths",
        "shape",
        "number",
        "ragged",
        "mapping",
        "frame",
        "two labels",
        "one class",
        "size",
        "none",
        "masked",
        "nan",
    ],
)
def test_invalid_rows_are_one_clear_error_and_leave_nothing(tmp_path: Path, rows: object, message: str) -> None:
    with pytest.raises(qcnn.QcnnError, match=f"^{message}"):
        qcnn.train(_experiment(), tmp_path / "run", data=rows, progress=False)
    assert not (tmp_path / "run").exists()


def test_experiment_without_rows_is_one_clear_error(tmp_path: Path) -> None:
    assert _experiment().data == "memory"
    message = r"^data: must be a file, unless qcnn\.train is given the rows\. Given: memory$"
    with pytest.raises(qcnn.ConfigError, match=message):
        qcnn.train(_experiment(), tmp_path / "run", progress=False)
    with pytest.raises(qcnn.ConfigError, match=message):
        qcnn.plan(_experiment())


def test_arrays_of_excitations_have_their_columns(tmp_path: Path) -> None:
    values = np.array([[0, 0.5], [3, -1.5]])
    memory.write_rows(memory.table_of((values, [1, -1]), ("qubit", "angle")), tmp_path / "rows.parquet")
    with open_table(str(tmp_path / "rows.parquet")) as table:
        (piece,) = table.pieces()
        assert {name: column.tolist() for name, column in piece.columns.items()} == {
            "qubit": [0, 3],
            "angle": [0.5, -1.5],
            "label": [1, -1],
        }
