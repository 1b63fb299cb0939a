"""Training jobs with every role, compared with local runs."""

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.linear_regression.model import INTERCEPT, SLOPE
from examples.linear_regression.run import described
from qcnn.components.resources import IMAGE
from qcnn.components.steps.dataset import generate_data
from qcnn.components.steps.train_local import train
from qcnn.components.training_job import cluster_job
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.pod_settings import PodSettings
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.storage.copies import local_copy
from tests.cluster.launchers import Launchers, every_engine

pytestmark = every_engine

FIELDS: dict[str, Any] = {"qubits": 4, "rounds": 100, "batch_size": 32, "epochs": 12}
# Tolerance of the MSE. The MSE lower bound is 0.1894.
_TOLERANCE = 0.01


def _pod() -> PodSettings:
    environment = {"STORAGE_EMULATOR_HOST": os.environ["STORAGE_EMULATOR_HOST"]}
    return PodSettings(image=IMAGE, service_account="qcnn-worker", cpu="200m", memory="2Gi", environment=environment)


def _config(**fields: Any) -> ExperimentConfig:
    return from_mapping({**FIELDS, **fields})


def _train_locally(config: ExperimentConfig, folder: Path) -> Checkpoint:
    experiment, _ = generate_data(config.model_dump(), str(folder / "dataset"))
    train(experiment, *(str(folder / name) for name in ("dataset", "training", "logs")))
    checkpoint = checkpoints.load_latest(folder / "training" / checkpoints.FOLDER)
    assert checkpoint
    return checkpoint


def _train_on_cluster(config: ExperimentConfig, launchers: Launchers, bucket: str) -> Checkpoint:
    """Run a training job, and return its checkpoint."""
    job = cluster_job(config, bucket, _pod())
    launcher = launchers.start(job)
    assert launcher.exit_code() == 0, launcher.output
    assert launcher.restarts == 0
    return _checkpoint(f"{bucket}/{launchers.name(job)}/training")


def _checkpoint(uri: str) -> Checkpoint:
    with local_copy(uri) as folder:
        checkpoint = checkpoints.load_latest(folder / checkpoints.FOLDER)
        assert checkpoint
        return checkpoint.with_epochs()


def _losses(checkpoint: Checkpoint) -> list[tuple[float, float]]:
    return [(epoch.train_loss, epoch.val_loss) for epoch in checkpoint.history]


def test_chief_workers_and_evaluator_match_local_run(launchers: Launchers, bucket: str, tmp_path: Path) -> None:
    config = _config(workers=3, options={"chief": 1, "evaluator": 1})
    expected = _train_locally(config, tmp_path)
    found = _train_on_cluster(config, launchers, bucket)
    np.testing.assert_allclose(_losses(found), _losses(expected), atol=1e-8)


def test_evaluator_measures_checkpoints_of_running_training(launchers: Launchers, bucket: str) -> None:
    # The evaluator receives SIGTERM when a job ends, possibly before it has evaluated a checkpoint. This job is longer.
    endless = {"rounds": 12_000, "epochs": 1000, "checkpoint_seconds": 0.001}
    job = cluster_job(_config(workers=2, options={"chief": 1, "evaluator": 1}, **endless), bucket, _pod())
    launcher = launchers.start(job)
    uri = f"{bucket}/{launchers.name(job)}/training"
    while not (measured := _measured(f"{uri}/evaluation")):
        launcher.wait_for_line(r"\[evaluator 0\] epoch \d+: ")
    history = _checkpoint(uri).history
    for row in measured:
        assert float(row["val_loss"]) == pytest.approx(history[int(row["epoch"]) - 1].val_loss, abs=1e-5)


def _measured(uri: str) -> list[dict[str, str]]:
    with local_copy(uri) as folder:
        path = folder / "evaluation.csv"
        return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def test_workers_and_evaluator_match_local_run(launchers: Launchers, bucket: str, tmp_path: Path) -> None:
    config = _config(workers=2, options={"evaluator": 1})
    expected = _train_locally(config, tmp_path)
    found = _train_on_cluster(config, launchers, bucket)
    np.testing.assert_allclose(_losses(found), _losses(expected), atol=1e-8)


def test_parameter_servers_match_local_run(launchers: Launchers, bucket: str, tmp_path: Path) -> None:
    config = _config(strategy="parameter_server", workers=2, options={"ps": 1})
    expected = _train_locally(config, tmp_path)
    found = _train_on_cluster(config, launchers, bucket)
    assert len(found.history) == config.epochs
    assert found.fresh_mse == pytest.approx(expected.fresh_mse, abs=_TOLERANCE)


def test_linear_regression_fits_line(launchers: Launchers, bucket: str) -> None:
    job = described("python", f"{bucket}/$(QCNN_JOB)", 2000, _pod())
    launcher = launchers.start(job)
    assert launcher.exit_code() == 0, launcher.output
    with local_copy(f"{bucket}/{launchers.name(job)}") as folder, np.load(folder / "line.npz") as saved:
        assert saved["updates"] == 2000
        assert saved["variable_0"] == pytest.approx(SLOPE, rel=0.01)
        assert saved["variable_1"] == pytest.approx(INTERCEPT, abs=0.02)
