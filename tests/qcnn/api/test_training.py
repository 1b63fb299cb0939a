"""Training runs in Python: results, reuse, errors and interrupts."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import qcnn
from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import folder_lock
from qcnn.results.local_run import RunRecorder, read_record
from qcnn.studies.record import save_trials
from qcnn.trainer import loop
from tests.qcnn.api.conftest import SMALL
from tests.shared_training_runs import assert_same_training

ROOT = Path(__file__).parents[3]
QCNN = Path(sys.executable).with_name("qcnn")


def test_train_equals_trainer(training: qcnn.Training, tmp_path: Path) -> None:
    experiment = training.experiment
    history = loop.train(experiment.config, qcnn.generate(experiment), tmp_path / "training")
    assert_same_training(training.training, tmp_path / "training")
    assert len(training.history) == len(history) == training.metrics["epochs"] == 2


def test_train_writes_record_log_and_artifacts(training: qcnn.Training) -> None:
    record = read_record(training.folder)
    assert record.state == "succeeded"
    assert [step.name for step in record.steps] == [
        "generate-data",
        "train",
        "export-weights",
        "tensorboard",
        "evaluate",
    ]
    assert "epoch 2/2" in (training.folder / "log.txt").read_text()
    for path in (training.dataset, training.logs, training.exported, training.report):
        assert path.exists()


def test_train_existing_run_is_reused(training: qcnn.Training) -> None:
    before = training.report.stat().st_mtime_ns
    assert qcnn.train(training.experiment, training.folder) == training
    assert training.report.stat().st_mtime_ns == before


def test_train_damaged_run_raises_single_line(training: qcnn.Training, tmp_path: Path) -> None:
    folder = shutil.copytree(training.folder, tmp_path / "run")
    metrics = folder / "evaluate" / "metrics"
    for content in ("{", "[]", '{"mse": "low"}', '{"mse": null}'):
        metrics.write_text(content)
        with pytest.raises(qcnn.ArtifactError, match=rf"^run: metrics is damaged .*Given: {metrics}$"):
            qcnn.train(training.experiment, folder)
    metrics.unlink()
    with pytest.raises(qcnn.ArtifactError, match=rf"^run: metrics is missing. Given: {metrics.parent}$"):
        qcnn.train(training.experiment, folder)


def test_train_folder_with_other_content_raises(training: qcnn.Training, tmp_path: Path) -> None:
    with pytest.raises(
        qcnn.ArtifactError, match=r"^folder: must hold a run of this experiment, not of another. Given: "
    ):
        qcnn.train(qcnn.Experiment(**{**SMALL, "seed": 1}), training.folder)
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(qcnn.ArtifactError, match=r"^folder: must be new or empty, or hold a run of this experiment"):
        qcnn.train(training.experiment, tmp_path)
    with pytest.raises(qcnn.ArtifactError, match=r"^folder: must be new or empty, or hold a run of this experiment"):
        qcnn.train(training.experiment, tmp_path / "mine")
    with pytest.raises(qcnn.ArtifactError, match=r"^output: cannot be written \(.*\)\. Given: /proc/mine$"):
        qcnn.train(training.experiment, "/proc/mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.usefixtures("shared_server")
def test_train_resumes_after_completed_steps(
    training: qcnn.Training, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Runs in a thread without signal handlers, and prints nothing."""
    folder = shutil.copytree(training.folder, tmp_path / "run")
    shutil.rmtree(folder / "export-weights")
    record = load_description("run", folder / "run.json")
    save_description({**record, "state": "failed"}, folder / "run.json")
    again: list[qcnn.Training] = []
    thread = threading.Thread(target=lambda: again.append(qcnn.train(training.experiment, folder)))
    thread.start()
    thread.join()
    assert again[0].history == training.history
    assert again[0].metrics == training.metrics
    assert not capfd.readouterr().out


def test_train_failure_raises_single_line(tmp_path: Path) -> None:
    experiment = qcnn.Experiment(**{**SMALL, "learning_rate": 1e300})
    with pytest.raises(qcnn.TrainingError) as caught:
        qcnn.train(experiment, tmp_path / "run")
    assert len(str(caught.value).splitlines()) == 1
    assert read_record(tmp_path / "run").state == "failed"


def test_folder_in_use_raises_and_keeps_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.atomic_files._LOCK_TIMEOUT_SECONDS", 0.0)
    experiment = qcnn.Experiment(**SMALL)
    run, study = tmp_path / "run", tmp_path / "study"
    save_trials([experiment.replace(seed=1).config], study)
    with RunRecorder(experiment.config.model_dump()) as recorder, folder_lock("study", study):
        recorder.begin_step("generate-data", run)
        with pytest.raises(qcnn.ArtifactError, match=r"^run: the folder must not be in use by another run\. "):
            qcnn.train(experiment, run)
        with pytest.raises(qcnn.ArtifactError, match=r"^study: the folder must not be in use by another study\. "):
            qcnn.study(experiment, grid={"seed": [1]}, folder=study)
        assert read_record(run).state == "running"
    assert [path.name for path in (*run.iterdir(), *study.iterdir())] == ["run.json", "study.json"]


def test_study_folder_with_other_content_is_rejected(tmp_path: Path) -> None:
    experiment = qcnn.Experiment(**SMALL)
    save_trials([experiment.replace(seed=2).config], tmp_path / "other")
    with pytest.raises(qcnn.ArtifactError, match=r"^folder: must hold a study of these trials, not of others\. "):
        qcnn.study(experiment, grid={"seed": [1]}, folder=tmp_path / "other")
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(qcnn.ArtifactError, match=r"^folder: must be new or empty, or hold this study\. "):
            qcnn.study(experiment, grid={"seed": [1]}, folder=folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other"]


@pytest.mark.long
def test_train_equals_command_qcnn_run(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"qubits": 4, "rounds": 20, "epochs": 3}
    flags = [part for name, value in fields.items() for part in (f"--{name}", str(value))]
    subprocess.run([QCNN, "run", *flags], cwd=tmp_path, capture_output=True, check=True)
    (run,) = (tmp_path / "runs").iterdir()
    training = qcnn.train(qcnn.Experiment(**fields), tmp_path / "mine")
    assert_same_training(training.training, run / "train" / "training")
    metrics = json.loads((run / "evaluate" / "metrics").read_text())
    assert {**training.metrics, "epoch_seconds": 0} == {**metrics, "epoch_seconds": 0}


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_train_interrupt_ends_processes_and_run_resumes(tmp_path: Path, number: signal.Signals) -> None:
    fields = {**SMALL, "epochs": 400, "learning_rate_schedule": "constant"}
    program = f"import qcnn; qcnn.train(qcnn.Experiment(**{fields!r}), 'run')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    checkpoints = tmp_path / "run" / "train" / "training" / "checkpoints"
    while not any(checkpoints.glob("*.npz")):
        with contextlib.suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the process exited with code {started.wait(0.1)}")
    processes = psutil.Process(started.pid).children(recursive=True)
    started.send_signal(number)
    _, stderr = started.communicate()
    assert (b"KeyboardInterrupt" in stderr) == (number == signal.SIGINT)
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive
    assert read_record(tmp_path / "run").state == "interrupted"
    training = qcnn.train(qcnn.Experiment(**fields), tmp_path / "run")
    assert [epoch.epoch for epoch in training.history] == list(range(1, 401))


def test_results_are_read_only(training: qcnn.Training) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        training.folder = Path()  # type: ignore[misc]


def test_plot_and_table_of_result_have_history_and_metrics(training: qcnn.Training) -> None:
    (axes,) = training.plot().axes
    losses = [epoch.train_loss for epoch in training.history]
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == losses
    assert "lower bound" in axes.get_legend_handles_labels()[1][2]
    page = training._repr_html_()
    assert f"<th>mse</th><td>{training.metrics['mse']:.6g}</td>" in page
    assert "<td>2 of 2</td>" in page
    assert str(training.folder) in page
