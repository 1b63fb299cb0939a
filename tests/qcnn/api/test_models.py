"""Predictions for arrays, pickled models, and errors of damaged models."""

import copy
import multiprocessing
import os
import pickle
import re
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import qcnn
from qcnn.api.models import EvaluatedSplit, Model, Origin
from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import complete_files, sha256_of
from qcnn.circuits.preparation import preparation_of
from qcnn.data import describe
from qcnn.data.samples import FeatureLayout
from qcnn.results.class_scores import Confusion
from qcnn.storage.copies import new_copy
from tests.buckets import new_s3_bucket
from tests.qcnn.api.conftest import SMALL

SAMPLES: dict[str, Any] = {"qubit": [0, 1, 2, 3], "angle": [0.1, -1.0, 2.0, -3.0]}


@pytest.fixture(scope="session")
def model(training: qcnn.Training) -> qcnn.Model:
    return qcnn.load(training.folder)


def test_predict_equals_evaluation_on_test_split(training: qcnn.Training, model: qcnn.Model) -> None:
    evaluation = qcnn.evaluate(model)
    samples = evaluation.samples
    found = model.predict(qubit=samples.qubit, angle=samples.angle)
    assert np.allclose(found, evaluation.predictions, atol=1e-6)
    assert evaluation.metrics == training.metrics
    assert evaluation.metrics["mse"] == np.mean((evaluation.predictions - samples.label) ** 2)
    assert model.experiment == training.experiment


def test_predict_accepts_frames_and_mappings(model: qcnn.Model) -> None:
    expected = model.predict(qubit=[0, 3], angle=[0.5, -2.0])
    assert expected.dtype == np.float64
    frame = pd.DataFrame({"angle": [0.5, -2.0], "qubit": [0, 3], "note": ["a", "b"]})
    for samples in (
        frame,
        {"qubit": np.array([0.0, 3.0]), "angle": np.array([0.5, -2.0], np.float32)},
        {"qubit": pd.Series([0, 3], dtype="Int64"), "angle": (0.5, -2)},
    ):
        assert np.allclose(model.predict(samples), expected)
    assert np.allclose(model.predict(frame[["qubit"]], angle=frame["angle"]), expected)


def test_predict_reads_booleans_as_0_and_1(model: qcnn.Model) -> None:
    expected = model.predict(qubit=[1, 0], angle=[1.0, 0.0])
    for values in ([True, False], np.array([True, False]), pd.Series([True, False], dtype="boolean")):
        assert np.allclose(model.predict(pd.DataFrame({"qubit": values, "angle": values})), expected)


def test_predict_without_samples_returns_empty_array(model: qcnn.Model) -> None:
    assert model.predict(qubit=[], angle=[]).shape == (0,)


def test_predict_accepts_array_in_column_order(model: qcnn.Model) -> None:
    assert model.columns == ("qubit", "angle")
    expected = model.predict(qubit=[0, 3], angle=[0.5, -2.0])
    for rows in (np.array([[0, 0.5], [3, -2.0]]), [[0, 0.5], [3, -2.0]]):
        assert np.allclose(model.predict(rows), expected)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"qubit": [0]}, "angle: must be given, like all of qubit, angle. Given: qubit"),
        ({}, "qubit: must be given, like all of qubit, angle. Given: none"),
        (
            {"qubit": [0], "angle": [0.1], "label": [1]},
            "label: must be an input of the network: qubit, angle.",
        ),
        ({"qubit": [0, 1], "angle": [0.1]}, "samples: all columns must have the same length. Given: {"),
        ({"qubit": [0, 4], "angle": [0.1, 0.1]}, "qubit: row 2 must be a whole number, 0 to 3. Given: 4"),
        ({"qubit": [-1], "angle": [0.1]}, "qubit: row 1 must be a whole number, 0 to 3. Given: -1"),
        ({"qubit": [0.5], "angle": [0.1]}, "qubit: row 1 must be a whole number, 0 to 3. Given: 0.5"),
        ({"qubit": [0], "angle": [7]}, "angle: row 1 must be at least -pi and less than pi. Given: 7"),
        ({"qubit": [0], "angle": [float("nan")]}, "angle: row 1 must be a finite number. Given: nan"),
        (
            {"qubit": np.ma.masked_equal([0, 1], 1), "angle": [0.0, 0.0]},
            "qubit: row 2 must be a finite number. Given: nan",
        ),
        ({"qubit": [0, 1], "angle": [0.0, float("inf")]}, "angle: row 2 must be a finite number. Given: inf"),
        ({"qubit": ["a"], "angle": [0.1]}, "qubit: must be an array of numbers. Given: ['a']"),
        ({"qubit": [0], "angle": [0.1 + 1j]}, "angle: must be an array of numbers. Given: "),
        ({"qubit": [0], "angle": [None]}, "angle: must be an array of numbers. Given: "),
        ({"qubit": [0], "angle": ["True"]}, "angle: must be an array of numbers. Given: "),
        ({"qubit": [0], "angle": 0.1}, "angle: must be an array (samples,). Given: shape ()"),
        ({"qubit": [0], "angle": [[0.1]]}, "angle: must be an array (samples,). Given: shape (1, 1)"),
        ({"qubit": [[0], [1, 2]], "angle": [0.1]}, "qubit: must be an array of numbers. Given: "),
        ({"samples": np.zeros((2, 3))}, "samples: must have the shape (samples, 2). Given: (2, 3)"),
        ({"samples": np.zeros(2)}, "samples: must have the shape (samples, 2). Given: (2,)"),
        ({"samples": [[0, 0.1, 2]]}, "samples: must have the shape (samples, 2). Given: (1, 3)"),
        ({"samples": [[0, 0.1], [2]]}, "samples: must be rows of 2 numbers. Given: [[0, 0.1], [2]]"),
        ({"samples": [[0, "x"]]}, "qubit: must be an array of numbers. Given: "),
        ({"samples": 3}, "samples: must be a mapping of columns, or an array (samples, columns). Given: 3"),
        ({"samples": "rows"}, "samples: must be a mapping of columns, or an array (samples, columns). Given: 'rows'"),
    ],
)
def test_predict_wrong_samples_raise(model: qcnn.Model, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(qcnn.ConfigError, match=f"^{re.escape(message)}"):
        model.predict(**columns)


def test_predict_state_of_wrong_length_raises() -> None:
    experiment = qcnn.Experiment(qubits=4, data="cluster_ising", rounds=10)
    layout = FeatureLayout(experiment.config.preparation, amplitudes=2)
    model = Model("model", experiment, {}, layout, lambda columns: columns["state_0"], 0.0, Origin(Path(), "", None))
    assert model.predict([[0.6, 0.8]]) == [0.6]
    message = r"^samples: row 2: the amplitudes of a state must have length 1\. Given: 1\.1$"
    with pytest.raises(qcnn.ConfigError, match=message):
        model.predict([[0.6, 0.8], [0, 1.1]])


def test_evaluate_without_dataset_raises(model: qcnn.Model) -> None:
    with pytest.raises(qcnn.ConfigError, match=r"^dataset: must be a qcnn.Dataset. Given: 'test'$"):
        qcnn.evaluate(model, "test")  # type: ignore[arg-type]


def test_load_folder_without_model_raises(training: qcnn.Training, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere", training.dataset):
        with pytest.raises(qcnn.ArtifactError, match=r"^model: must be the folder of a model or of a run, with model"):
            qcnn.load(folder)


@pytest.mark.parametrize("damaged", ["model.json", "predictor.json", "qcnn.weights.h5"])
def test_load_damaged_model_raises(training: qcnn.Training, tmp_path: Path, damaged: str) -> None:
    folder = shutil.copytree(training.exported, tmp_path / "model")
    (folder / damaged).write_bytes(b"no such thing")
    with pytest.raises(qcnn.ArtifactError, match=rf"^model: {damaged} is damaged"):
        qcnn.load(folder)


def test_saved_model_predictions_equal_network(training: qcnn.Training, model: qcnn.Model) -> None:
    served = tf.saved_model.load(str(training.exported / "saved_model")).signatures["serving_default"]
    inputs = {"qubit": tf.constant(SAMPLES["qubit"], tf.int32), "angle": tf.constant(SAMPLES["angle"], tf.float32)}
    found = served(**inputs)["prediction"].numpy()
    assert np.allclose(found, model.predict(SAMPLES), atol=1e-6)


def test_load_does_not_read_saved_model(training: qcnn.Training, model: qcnn.Model, tmp_path: Path) -> None:
    folder = shutil.copytree(training.exported, tmp_path / "model")
    (folder / "saved_model" / "saved_model.pb").write_bytes(b"a program")
    _assert_equal_predictions(qcnn.load(folder), model)
    shutil.rmtree(folder / "saved_model")
    _assert_equal_predictions(qcnn.load(folder), model)


def test_load_model_without_table_computes_it(training: qcnn.Training, model: qcnn.Model, tmp_path: Path) -> None:
    """Models of earlier versions have no predictor.json."""
    folder = shutil.copytree(training.exported, tmp_path / "model")
    (folder / "predictor.json").unlink()
    with pytest.raises(qcnn.ArtifactError, match=r"^model: predictor\.json is missing\. Given: "):
        qcnn.load(folder)
    _describe_files(folder)
    found = qcnn.load(folder).predict(SAMPLES)
    np.testing.assert_allclose(found, model.predict(SAMPLES), rtol=0, atol=1e-12)


def test_load_named_pipe_as_weights_raises(training: qcnn.Training, tmp_path: Path) -> None:
    folder = shutil.copytree(training.exported, tmp_path / "model")
    (folder / "qcnn.weights.h5").unlink()
    os.mkfifo(folder / "qcnn.weights.h5")
    with pytest.raises(qcnn.ArtifactError, match=r"^model: qcnn\.weights\.h5 cannot be read \(it is a FIFO\)\. "):
        qcnn.load(folder)


def _assert_equal_predictions(found: qcnn.Model, model: qcnn.Model) -> None:
    assert np.array_equal(found.predict(SAMPLES), model.predict(SAMPLES))


def _assert_equal_model(found: qcnn.Model, model: qcnn.Model) -> None:
    assert (found.address, found.experiment, found.metrics) == (model.address, model.experiment, model.metrics)
    assert np.array_equal(found.predict(SAMPLES), model.predict(SAMPLES))


def test_model_pickle_reads_its_folder_from_other_folder(
    training: qcnn.Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(training.exported, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    model = qcnn.load("model")
    pickled = pickle.dumps(model)
    monkeypatch.chdir("/")
    _assert_equal_model(pickle.loads(pickled), model)
    assert len(pickled) < 1000


def test_model_pickle_of_changed_folder_raises(training: qcnn.Training, tmp_path: Path) -> None:
    folder = shutil.copytree(training.exported, tmp_path / "model")
    pickled = pickle.dumps(qcnn.load(folder))
    description = load_description("model", folder / "model.json")
    with h5py.File(folder / "qcnn.weights.h5", "r+") as file:
        file["layers/quantum_layer/vars/0"][0] += 1
    save_description({**description, "weights_sha256": sha256_of(folder / "qcnn.weights.h5")}, folder / "model.json")
    _describe_files(folder)
    qcnn.load(folder)
    with pytest.raises(
        qcnn.ArtifactError, match=r"^model: must be the model that was pickled, not a later one\. Given:"
    ):
        pickle.loads(pickled)
    shutil.rmtree(folder)
    with pytest.raises(qcnn.ArtifactError, match=r"^model: model\.json is missing"):
        pickle.loads(pickled)


def test_model_copy_is_model_without_folder(training: qcnn.Training, tmp_path: Path) -> None:
    folder = shutil.copytree(training.exported, tmp_path / "model")
    model = qcnn.load(folder)
    shutil.rmtree(folder)
    assert copy.copy(model) is copy.deepcopy(model) is model


def test_model_of_bucket_pickle_has_its_content(
    training: qcnn.Training, s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "ENDPOINT_URL": s3_server}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    uri = f"s3://{new_s3_bucket(s3_server)}/model"
    with new_copy(uri, "model.json") as folder:
        shutil.copytree(training.exported, folder)
    model = qcnn.load(uri)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    found = pickle.loads(pickle.dumps(model))
    _assert_equal_model(found, model)
    _assert_equal_model(pickle.loads(pickle.dumps(found)), model)


@pytest.mark.long
def test_model_predicts_in_spawned_processes(model: qcnn.Model) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(model.predict, SAMPLES).result()
    assert np.array_equal(found, model.predict(SAMPLES))


def test_predict_without_pyarrow_names_extra(model: qcnn.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow is installed without an extra of this package."""
    monkeypatch.delitem(sys.modules, "qcnn.tables.chunks")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(qcnn.MissingLibraryError, match=r'^Model.predict needs pyarrow: pip install "qcnn-.*\[serve\]"'):
        model.predict(qubit=[0], angle=[0.1])


def _describe_files(folder: Path) -> None:
    """Update the digests of a model's files."""
    description = load_description("model", folder / "model.json")
    del description["files"]
    files = [name for name in complete_files(folder) if name != "model.json"]
    save_description(description, folder / "model.json", files)


@pytest.mark.usefixtures("shared_server")
def test_predict_takes_unscaled_features_of_file(tmp_path: Path) -> None:
    """Predict with the kernels and with the SavedModel."""
    draws = np.random.default_rng(0)
    rows = pd.DataFrame({"mass": draws.uniform(1, 3, 40), "size": draws.uniform(-5, 5, 40)})
    # Unix time within half a minute. The resolution of float32 is 128 seconds.
    rows["time"] = 1.7e9 + draws.uniform(0, 30, 40)
    rows["label"] = (rows["size"] > 0).astype(int)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    fields = {**SMALL, "rounds": 0, "data": str(tmp_path / "rows.csv"), "encoding": "ry"}
    training = qcnn.train(qcnn.Experiment(**fields), tmp_path / "run")
    model = training.model
    assert model.columns == ("mass", "size", "time")
    found = model.predict(rows)
    assert np.allclose(model.predict(rows[["mass", "size", "time"]].to_numpy()), found)
    evaluation = qcnn.evaluate(model)
    served = tf.saved_model.load(str(training.exported / "saved_model")).signatures["serving_default"]
    of_server = served(features=tf.constant(rows[[*model.columns]].to_numpy(), tf.float64))["prediction"].numpy()
    assert np.allclose(of_server, found, atol=1e-5)
    assert len(evaluation.predictions) == 6
    assert set(np.round(evaluation.predictions, 5)) <= set(np.round(found, 5))
    with pytest.raises(qcnn.ConfigError, match=r"^size: row 2 must be from -.* exact\. Given: 1e\+300$"):
        model.predict([[1.0, 0.0, 1.7e9], [1.0, 1e300, 1.7e9]])


def test_evaluation_plots_figures_of_report(training: qcnn.Training) -> None:
    evaluation = qcnn.evaluate(training.folder)
    (axes,) = evaluation.plot().axes
    positive = evaluation.samples.label == 1
    assert np.array_equal(axes.lines[1].get_ydata(), evaluation.predictions[positive])
    page = training.report.read_text()
    for name in ("prediction_against_angle", "error_by_qubit", "error_and_lower_bound"):
        assert f"<h3>{name.replace('_', ' ').capitalize()}</h3>" in page
        assert evaluation.plot(name).axes
    with pytest.raises(qcnn.ConfigError, match=r"^figure: must be one of prediction_.*_bound\. Given: 'roc'$"):
        evaluation.plot("roc")


def test_evaluation_of_rows_plots_rows(model: qcnn.Model) -> None:
    rows = {"qubit": [0, 1, 2], "angle": [0.5, -2.0, 1.0], "label": [1, -1, 1]}
    evaluation = qcnn.evaluate(model, data=rows)
    (axes,) = evaluation.plot("prediction_against_angle").axes
    assert sorted(np.asarray(axes.lines[0].get_xdata())) == [0.5, 1.0]
    assert pickle.loads(pickle.dumps(evaluation)).plot("error_by_qubit").axes
    assert "<td>1</td><td>-2</td><td>-1</td>" in evaluation._repr_html_()


def test_evaluation_and_model_of_classes_escape_names(model: qcnn.Model) -> None:
    names = "<b>ant</b>", "bee"
    layout = FeatureLayout(preparation_of("ry", 4), ("x",), (0.0,), (1.0,), labels="classes", classes=names)
    samples = qcnn.Samples({"features": np.zeros((3, 1), np.float32)}, np.array([0, 1, 1]))
    described = {"experiment": model.experiment.config.model_dump(), **describe(layout, None)}
    subject = EvaluatedSplit(described, Confusion(names, [[1, 0], [2, 0]]))
    predictions = np.array([[0.75, 0.25]] * 3)
    evaluation = qcnn.Evaluation(samples, predictions, {"loss": 0.5, "recall_<b>ant</b>": 1.0}, layout, subject)
    axes = evaluation.plot().axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [*names]
    assert [text.get_text() for text in axes.texts] == ["1", "0", "2", "0"]
    other = Model("<b>", model.experiment, {}, layout, lambda _: predictions, 0.0, Origin(Path(), "", None))
    for page in (evaluation._repr_html_(), other._repr_html_()):
        assert "&lt;b&gt;ant&lt;/b&gt;" in page
        assert "<b>ant" not in page
