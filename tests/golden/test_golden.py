"""Artifacts of earlier versions, created by tests/golden/make.py, are read with the same numbers."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

import qcnn
from qcnn import data
from qcnn.components.steps.study import read_trial
from qcnn.model import checkpoints
from qcnn.results.local_run import of_run, of_trial, read_metrics
from qcnn.results.model_folder import SAVED_MODEL, describe
from qcnn.studies.record import finished_trials, load_trials, read_table, table, table_csv
from qcnn.targets.local.target import read_experiment
from qcnn.trainer.loop import train
from tests.shared_training_runs import outcomes

GOLDEN = Path(__file__).parent
FOLDERS = sorted(path.parent.parent for path in GOLDEN.glob("*/excitations/run.json"))
RUNS = [folder / run for folder in FOLDERS for run in ("excitations", "rows")]
# Last digits differ between processors.
ROUNDED = 1e-12
# The last Z rotation of a pooling source commutes with its CNOT. Its gradient is exactly zero, and Adam amplifies
# rounding errors.
_SOURCES_LAST_Z = 20

of_every_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run.relative_to(GOLDEN)))
of_every_study = pytest.mark.parametrize(
    "study", [folder / "study" for folder in FOLDERS], ids=lambda of: of.parent.name
)


def _assert_close(found: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=0, atol=ROUNDED)


def test_golden_folders_exist_and_are_small() -> None:
    assert FOLDERS
    for folder in FOLDERS:
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 300_000


@of_every_run
def test_dataset_digest_matches_model(run: Path) -> None:
    dataset = data.load(of_run(run).dataset)
    description, config = describe(of_run(run).exported)
    assert dataset.digest == description["dataset_digest"]
    if config.data == "excitations":
        assert data.generate(config).digest == dataset.digest
    else:
        assert dataset.source
        assert dataset.source.sha256 == description["provenance"]["data_sha256"]


@of_every_run
def test_resumed_run_reaches_same_weights(run: Path, tmp_path: Path) -> None:
    before, after = sorted((of_run(run).training / checkpoints.FOLDER).iterdir())
    (folder := tmp_path / checkpoints.FOLDER).mkdir()
    shutil.copy(before, folder)
    shutil.copy(of_run(run).training / "history.csv", tmp_path)
    expected = checkpoints.load_latest(of_run(run).training / checkpoints.FOLDER)
    assert expected
    # The simulator that `auto` selects depends on the version.
    config = expected.config.model_copy(update={"simulator": expected.simulator})
    train(config, data.load(of_run(run).dataset), tmp_path)
    found = checkpoints.load_latest(folder)
    assert found
    assert sorted(path.name for path in folder.iterdir()) == [before.name, after.name]
    _assert_close(outcomes(found.history), outcomes(expected.history))
    parts = [(line.weights, line.optimizer, line.best_weights) for line in (found.line, expected.line)]
    for mine, its in zip(*parts, strict=True):
        for one, other in zip(mine, its, strict=True):
            kept = [each for each in range(len(one)) if each != _SOURCES_LAST_Z] if np.shape(one) == (21,) else ...
            _assert_close(one[kept], other[kept])


def _columns(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, np.array(rows, np.float64).T, strict=True))


@of_every_run
def test_predictions_match(run: Path) -> None:
    model, inputs = qcnn.load(run), _columns(run / "inputs.csv")
    expected = _columns(run / "predicted.csv")["prediction"]
    assert model.columns == tuple(inputs)
    _assert_close(model.predict(inputs), expected)


@pytest.mark.parametrize("run", [folder / "excitations" for folder in FOLDERS], ids=lambda run: run.parent.name)
def test_saved_model_predictions_match(run: Path) -> None:
    loaded = tf.saved_model.load(str(of_run(run).exported / SAVED_MODEL))
    inputs = _columns(run / "inputs.csv")
    served = loaded.signatures["serving_default"](
        qubit=tf.constant(inputs["qubit"], tf.int32), angle=tf.constant(inputs["angle"], tf.float32)
    )
    expected = _columns(run / "predicted.csv")["prediction"]
    np.testing.assert_allclose(served["prediction"].numpy(), expected, rtol=0, atol=1e-6)


@of_every_run
def test_evaluation_metrics_match(run: Path) -> None:
    folders = of_run(run)
    evaluation = qcnn.evaluate(run, data.load(folders.dataset))
    expected = read_metrics(folders)
    # Earlier versions did not repeat the mean squared error as the loss.
    assert evaluation.metrics.keys() == expected.keys() | {"loss"}
    assert evaluation.metrics["loss"] == evaluation.metrics["mse"]
    for name, value in expected.items():
        assert evaluation.metrics[name] == pytest.approx(value, rel=0, abs=ROUNDED), name
    predictions = _columns(folders.predictions / "predictions.csv")
    _assert_close(evaluation.predictions, predictions["prediction"])


@of_every_run
def test_experiment_is_equal_in_all_artifacts(run: Path) -> None:
    _, config = describe(of_run(run).exported)
    assert read_experiment(run) == read_experiment(run, "export-weights", "model") == config
    assert qcnn.load(run).experiment.config == config


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_compare_lists_golden_runs(folder: Path) -> None:
    command = [sys.executable, "-m", "qcnn.cli", "compare", "--runs", str(folder), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shown = {row["run"]: row for row in json.loads(done.stdout)}
    for run in (folder / "excitations", folder / "rows"):
        assert shown[run.name]["state"] == "succeeded"
        assert shown[run.name]["mse"] == read_metrics(of_run(run))["mse"]


@of_every_study
def test_study_table_matches(study: Path) -> None:
    trials, finished = load_trials(study), finished_trials(study)
    assert set(trials) == finished.keys()
    header, rows = table([read_trial(of_trial(finished[trial]).training) for trial in trials])
    (stored,) = study.glob("*/results.csv")
    assert table_csv(header, rows) == stored.read_text()
    assert [row["chosen"] for row in read_table(stored)] == ["best", None]
