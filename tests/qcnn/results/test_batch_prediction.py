"""Predictions of files in chunks, with atomic output and metrics."""

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from qcnn import data
from qcnn.circuits.preparation import Preparation
from qcnn.data.samples import EXCITATIONS, FeatureLayout
from qcnn.errors import QcnnError
from qcnn.experiment.config import ExperimentConfig
from qcnn.results import batch_prediction, export
from qcnn.results.batch_prediction import predict_files, predict_table
from qcnn.results.error_accumulator import ErrorAccumulator
from qcnn.results.evaluate import predict, scores_of_classes
from qcnn.results.predictions import PredictionFiles
from qcnn.results.predictor import Predictor, load_predictor
from qcnn.tables import EXTENSIONS, chunks, npz
from qcnn.tables.table import new_table, open_table
from tests.qcnn.tables.test_table import read, write

SAMPLES = data.sample_fresh(4, seed=5).take(np.arange(50))
FEATURES = FeatureLayout(Preparation("rx", 3), ("a", "b"), (0.0, 1.0), (1.0, 2.0), labels="real")


class Sum:
    """Fake predictor that returns the sum of all inputs and records the sizes of chunks."""

    rounding = 1e-6

    def __init__(self, layout: FeatureLayout, config: ExperimentConfig) -> None:
        self.layout, self.config, self.counts = layout, config, list[int]()

    def predict(self, inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        self.counts.append(len(next(iter(inputs.values()))))
        total: npt.NDArray[np.float64] = np.sum(
            [values.reshape(len(values), -1).sum(axis=1) for values in inputs.values()], axis=0
        )
        return total


@pytest.fixture(scope="module")
def predictor(model_folder: Path) -> Predictor:
    return load_predictor(model_folder)


def written(path: Path, **columns: npt.ArrayLike) -> str:
    with new_table(str(path)) as write:
        write({name: np.asarray(values) for name, values in columns.items()})
    return str(path)


def _drawings(page: str) -> list[str]:
    return re.findall(r'<svg role="img" aria-label="(.*?)"', page)


def excitations(path: Path, **more: npt.ArrayLike) -> str:
    return written(path, **{"qubit": SAMPLES.qubit, "angle": SAMPLES.angle, **more})


def predicted(
    predictor: Any, files: PredictionFiles, report_rows: Any = lambda more: None
) -> batch_prediction.PredictionSummary:
    with open_table(files.data) as table:
        return predict_table(predictor, table, files, report_rows)


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_predict_table_writes_model_predictions(
    tmp_path: Path, ending: str, predictor: Predictor, model_folder: Path
) -> None:
    model, _ = export.load(model_folder)
    expected = predict(model, SAMPLES)
    files = PredictionFiles(excitations(tmp_path / f"data{ending}", note=np.zeros(50)), f"{tmp_path}/out{ending}")
    assert predicted(predictor, files) == batch_prediction.PredictionSummary(50, {})
    found = read(tmp_path / f"out{ending}")
    assert list(found) == ["qubit", "angle", "prediction"]
    assert found["qubit"] == SAMPLES.qubit.tolist()
    np.testing.assert_allclose(found["prediction"], expected, atol=1e-6)
    labelled = PredictionFiles(excitations(tmp_path / f"data{ending}", label=SAMPLES.label), f"{tmp_path}/out{ending}")
    assert predicted(predictor, labelled).metrics == pytest.approx(scores_of_classes(SAMPLES, expected), abs=1e-6)
    assert read(tmp_path / f"out{ending}")["label"] == SAMPLES.label.tolist()


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_predict_table_works_in_chunks(
    tmp_path: Path, ending: str, small_config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_MAX_ROWS", 8)
    fake, reported = Sum(EXCITATIONS, small_config), list[int]()
    files = PredictionFiles(excitations(tmp_path / f"data{ending}", label=SAMPLES.label), f"{tmp_path}/out{ending}")
    assert predicted(fake, files, reported.append).rows == 50
    assert fake.counts == reported == [*[8] * 6, 2]
    angles = np.array(read(tmp_path / f"out{ending}")["angle"], np.float32)
    np.testing.assert_array_equal(angles, SAMPLES.angle)


def test_predict_table_prints_a_chunk_at_a_time(
    tmp_path: Path, small_config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_MAX_ROWS", 8)
    files, texts = PredictionFiles(excitations(tmp_path / "data.csv"), "-"), list[str]()
    predictor: Any = Sum(EXCITATIONS, small_config)
    with open_table(files.data) as table:
        predict_table(predictor, table, files, lambda more: None, texts.append)
    assert [text.count("\n") + 1 for text in texts] == [9, *[8] * 5, 2]
    (tmp_path / "out.csv").write_text("\n".join(texts))
    written_files = PredictionFiles(files.data, f"{tmp_path}/file.csv")
    predicted(predictor, written_files)
    assert read(tmp_path / "out.csv") == read(tmp_path / "file.csv")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"qubit": [0, 1, 4]}, "line 4, column qubit: must be a whole number, 0 to 3. Given: 4"),
        ({"qubit": [0, 1, 0.5]}, "line 4, column qubit: must be a whole number, 0 to 3. Given: 0.5"),
        ({"angle": [0, 1, 3.2]}, "line 4, column angle: must be at least -pi and less than pi. Given: 3.2"),
        # The value is beyond the range of float32, the dtype of angles.
        ({"angle": [0, 1, -1e39]}, "line 4, column angle: must be at least -pi and less than pi. Given: -1e+39"),
        ({"angle": [0, 1, np.nan]}, "line 4, column angle: must be a finite number. Given: nan"),
        ({"label": [1, -1, 0]}, "line 4, column label: must be -1 or +1, as in training. Given: 0"),
    ],
)
def test_predict_table_invalid_row_raises_and_writes_nothing(
    tmp_path: Path,
    small_config: ExperimentConfig,
    columns: dict[str, Any],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "_MAX_ROWS", 2)
    good = {"qubit": [0, 1, 2], "angle": [0, 1, 2], "label": [1, -1, 1]}
    files = PredictionFiles(
        written(tmp_path / "data.csv", **{**good, **columns}), f"{tmp_path}/out.csv", f"{tmp_path}/page.html"
    )
    fake = Sum(EXCITATIONS, small_config)
    with pytest.raises(QcnnError) as error:
        predicted(fake, files)
    assert str(error.value) == f"data: {message}"
    # Non-finite values are found before the first prediction, and other errors after the first chunk.
    assert "finite" in message or fake.counts[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_predict_table_too_large_label_raises(tmp_path: Path, small_config: ExperimentConfig) -> None:
    files = PredictionFiles(written(tmp_path / "data.csv", a=[1, 2], b=[1, 2], label=[1, 1e200]), f"{tmp_path}/out.csv")
    message = r"^data: line 3, column label: must be from -1e\+30 to 1e\+30\. Given: 1e\+200$"
    with pytest.raises(QcnnError, match=message):
        predicted(Sum(FEATURES, small_config), files)
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_predict_table_write_error_keeps_old_files(
    tmp_path: Path, small_config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    files = PredictionFiles(
        excitations(tmp_path / "data.csv", label=SAMPLES.label), f"{tmp_path}/out.npz", f"{tmp_path}/page.html"
    )
    for name in (files.output, files.report):
        Path(name).write_text("old")
    # The npz archive is written at the end.
    monkeypatch.setattr(npz, "_write_array", full)
    with pytest.raises(QcnnError, match=r"^output: cannot be written \(No space left on device\)\. Given: .*out\.npz$"):
        predicted(Sum(EXCITATIONS, small_config), files)
    assert {Path(name).read_text() for name in (files.output, files.report)} == {"old"}
    assert len(list(tmp_path.iterdir())) == 3


def test_predict_files_output_equal_to_data_raises(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    excitations(Path("data.csv"))
    before = Path("data.csv").read_bytes()
    Path("link.csv").symlink_to("data.csv")
    for name in ("./data.csv", f"{tmp_path}/data.csv", "link.csv", "new/../data.csv"):
        with pytest.raises(QcnnError, match=r"^output: must be another file than the data\. Given: "):
            predict_files(model_folder, PredictionFiles("data.csv", name))
    assert Path("data.csv").read_bytes() == before


def test_predict_table_non_finite_prediction_raises_with_row(tmp_path: Path, small_config: ExperimentConfig) -> None:
    layout = FeatureLayout(Preparation("rx", 3), ("a",), (0.0,), (1e-300,))
    fake = Sum(layout, small_config)
    fake.predict = lambda inputs: np.array([0.5, np.inf])  # type: ignore[method-assign]
    files = PredictionFiles(written(tmp_path / "data.npz", a=[1, 2]), f"{tmp_path}/out.csv")
    with pytest.raises(QcnnError, match=r"^model: the prediction for row 2 must be finite\. Given: inf$"):
        predicted(fake, files)


def test_predict_table_scales_features_as_in_training(tmp_path: Path, small_config: ExperimentConfig) -> None:
    columns = {"b": [1.5, 2], "a": [0.25, 0.5], "label": [1.0, 3.0]}
    files = PredictionFiles(written(tmp_path / "data.csv", **columns), f"{tmp_path}/out.csv", f"{tmp_path}/page.html")
    found = predicted(Sum(FEATURES, small_config), files)
    assert read(tmp_path / "out.csv") == {
        "a": [0.25, 0.5],
        "b": [1.5, 2],
        "label": [1, 3],
        "prediction": [pytest.approx(1.25), pytest.approx(2.5)],
    }
    mse = (0.25**2 + 0.5**2) / 2
    assert found.metrics == pytest.approx({"mse": mse, "loss": mse, "r2": 1 - mse})
    page = (tmp_path / "page.html").read_text()
    assert _drawings(page) == ["Prediction against label"]


@pytest.mark.parametrize("ending", EXTENSIONS)
def test_predict_table_reads_booleans_in_every_format(
    tmp_path: Path, ending: str, small_config: ExperimentConfig
) -> None:
    layout = FeatureLayout(Preparation("rx", 3), ("a", "b"), (0.0, 0.0), (1.0, -2.0), labels="zero_one")
    write(tmp_path / f"data{ending}", pd.DataFrame({"a": [0.5, 0.5], "b": [True, False], "label": [False, True]}))
    files = PredictionFiles(f"{tmp_path}/data{ending}", f"{tmp_path}/out.csv")
    # The predictions are 0.5 - 2 and 0.5 for labels -1 and +1.
    assert predicted(Sum(layout, small_config), files).metrics == {"mse": 0.25, "loss": 0.25, "accuracy": 1}
    assert read(tmp_path / "out.csv") == {"a": [0.5, 0.5], "b": [1, 0], "label": [0, 1], "prediction": [-1.5, 0.5]}


def test_predict_table_too_large_feature_raises_with_row(tmp_path: Path, small_config: ExperimentConfig) -> None:
    files = PredictionFiles(written(tmp_path / "data.csv", a=[1, 1], b=[1, 1e308]), f"{tmp_path}/out.csv")
    message = r"^data: line 3, column b: must be from -4999 to 5001, or its angle is not exact\. Given: 1e\+308$"
    with pytest.raises(QcnnError, match=message):
        predicted(Sum(FEATURES, small_config), files)


def test_labels_that_are_all_the_same_have_no_r2(tmp_path: Path, small_config: ExperimentConfig) -> None:
    # Due to rounding, the mean of three equal labels differs from the label.
    columns = {"a": [0.1] * 3, "b": [1.0] * 3, "label": [0.1] * 3}
    files = PredictionFiles(written(tmp_path / "data.csv", **columns), f"{tmp_path}/out.csv")
    assert predicted(Sum(FEATURES, small_config), files).metrics == {"mse": pytest.approx(0), "loss": pytest.approx(0)}


def test_predict_table_states_are_normalized_and_not_written(tmp_path: Path, small_config: ExperimentConfig) -> None:
    layout = FeatureLayout(Preparation("state"), amplitudes=2)
    fake = Sum(layout, small_config)
    files = PredictionFiles(written(tmp_path / "data.npz", state_0=[0.6, 0], state_1=[0.8, -1]), f"{tmp_path}/out.csv")
    predicted(fake, files)
    assert read(tmp_path / "out.csv") == {"prediction": [pytest.approx(1.4), -1]}
    bad = PredictionFiles(written(tmp_path / "data.npz", state_0=[0.6, 0], state_1=[0.8, 1.1]), f"{tmp_path}/new.csv")
    with pytest.raises(QcnnError, match=r"^data: row 2: the amplitudes of a state must have length 1\. Given: 1\.1$"):
        predicted(fake, bad)


def test_predict_table_compares_labels_0_and_1_as_signs(tmp_path: Path, small_config: ExperimentConfig) -> None:
    layout = FeatureLayout(Preparation("rx", 3), ("a",), (0.0,), (1.0,), labels="zero_one")
    files = PredictionFiles(written(tmp_path / "data.csv", a=[-0.5, 1], label=[0, 1]), f"{tmp_path}/out.csv")
    assert predicted(Sum(layout, small_config), files).metrics == {"mse": 0.125, "loss": 0.125, "accuracy": 1}
    assert read(tmp_path / "out.csv")["label"] == [0, 1]


def test_predict_table_report_has_metrics_of_all_rows(tmp_path: Path, predictor: Predictor) -> None:
    data_file = excitations(tmp_path / "data.csv", label=SAMPLES.label)
    files = PredictionFiles(data_file, f"{tmp_path}/out.npz", f"{tmp_path}/page.html")
    metrics = predicted(predictor, files).metrics
    page = (tmp_path / "page.html").read_text()
    assert f"MSE<b>{metrics['mse']:.4f}</b>" in page
    assert "Rows<b>50</b>" in page
    assert _drawings(page) == ["Prediction against angle", "Error by qubit"]


def test_predict_table_report_error_leaves_no_predictions(tmp_path: Path, small_config: ExperimentConfig) -> None:
    (tmp_path / "page.html").mkdir()
    data_file = excitations(tmp_path / "data.csv", label=SAMPLES.label)
    files = PredictionFiles(data_file, f"{tmp_path}/out.npz", f"{tmp_path}/page.html")
    with pytest.raises(QcnnError, match=r"^output: cannot be written \(Is a directory\)\. Given: .*page\.html$"):
        predicted(Sum(EXCITATIONS, small_config), files)
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    ("columns", "report", "message"),
    [
        ({"a": [1]}, "", "data: must have the columns that the model takes, qubit, angle. Given: a in "),
        ({"qubit": [1], "angle": [1]}, "page.html", "report: the data must have labels, a column label. Given: qubit"),
    ],
)
def test_predict_files_checks_columns_before_model(
    tmp_path: Path,
    model_folder: Path,
    columns: dict[str, Any],
    report: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_prediction, "load_predictor", lambda: pytest.fail("the model is loaded"))
    with pytest.raises(QcnnError) as error:
        predict_files(
            model_folder, PredictionFiles(written(tmp_path / "data.csv", **columns), f"{tmp_path}/out.csv", report)
        )
    assert str(error.value).startswith(message)


def test_predict_files_with_model_folder_predicts_all_rows(tmp_path: Path, model_folder: Path) -> None:
    files = PredictionFiles(excitations(tmp_path / "data.csv"), f"{tmp_path}/out.parquet")
    assert predict_files(model_folder, files).rows == 50
    assert len(read(tmp_path / "out.parquet")["prediction"]) == 50


def test_prediction_files_invalid_names_raise() -> None:
    for names, message in (
        (("a.txt", "b.csv"), r"^data: must end in \.csv, \.parquet, \.npz or \.jsonl\. Given: a\.txt$"),
        (("a.csv", "b"), r"^output: must end in \.csv, .*\. Given: b$"),
        (("a.csv", "b/.csv"), r"^output: must end in \.csv, .*\. Given: b/\.csv$"),
        (("gs://b/a.csv", "gs://b//a.csv"), r"^output: must be another file than the data\. Given: gs://b//a\.csv$"),
        (("a.csv", "a.csv"), r"^output: must be another file than the data\. Given: a\.csv$"),
        (("a.csv", "b.csv", "c.pdf"), r"^report: must end in \.html\. Given: c\.pdf$"),
    ):
        with pytest.raises(QcnnError, match=message):
            PredictionFiles(*names)


def test_error_accumulator_does_not_depend_on_chunks(small_config: ExperimentConfig) -> None:
    random = np.random.default_rng(1)
    label, prediction = random.normal(5, 2, 10_000), random.normal(5, 2, 10_000)
    whole, pieces = (ErrorAccumulator(FEATURES, 4) for _ in range(2))
    whole.add({}, label, prediction)
    for start in range(0, 10_000, 997):
        part = slice(start, start + 997)
        pieces.add({}, label[part], prediction[part])
    assert pieces.rows == 10_000
    assert pieces.metrics == pytest.approx(whole.metrics, rel=1e-12)
    assert whole.metrics["r2"] == pytest.approx(1 - np.mean((label - prediction) ** 2) / np.var(label))
    # Both sample the same rows, with matching labels and predictions.
    assert len(pieces.sample["label"]) == 2000
    for name, values in pieces.sample.items():
        np.testing.assert_array_equal(values, whole.sample[name])
    prediction_of = dict(zip(label.tolist(), prediction.tolist(), strict=True))
    assert [prediction_of[value] for value in pieces.sample["label"].tolist()] == pieces.sample["prediction"].tolist()


def test_predictions_within_rounding_count_as_wrong(small_config: ExperimentConfig, tmp_path: Path) -> None:
    source = written(tmp_path / "data.csv", qubit=[0, 0, 0, 0], angle=[0.5, 1e-9, -1e-9, -0.5], label=[1, 1, -1, -1])
    files, fake = PredictionFiles(source, str(tmp_path / "predictions.csv")), Sum(EXCITATIONS, small_config)
    with open_table(source) as table:
        summary = predict_table(fake, table, files, lambda rows: None)  # type: ignore[arg-type]
    assert summary.metrics["accuracy"] == 0.5
    assert summary.warning == "2 of 4 predictions are below the rounding error of 1e-06: they count as wrong"


def test_error_accumulator_error_by_qubit_is_mean_of_rows() -> None:
    errors = ErrorAccumulator(EXCITATIONS, 3)
    for qubit, prediction in ((0, 1.5), (2, 1.0), (0, 0.5)):
        errors.add({"qubit": np.array([qubit]), "angle": np.zeros(1)}, np.ones(1), np.array([prediction]))
    np.testing.assert_array_equal(errors.error_by_qubit, [0.25, np.nan, 0])
