"""Trainings with every role as TFJobs, beside what the processes of this machine make of them."""

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
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.jobs.pod_settings import PodSettings
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.storage.copies import local_copy
from tests.cluster.launchers import Launchers

WORDS: dict[str, Any] = {"qubits": 4, "rounds": 100, "batch_size": 32, "epochs": 12}
# Of the floor of 0.1894, which both come close to, each by its own way.
_CLOSE = 0.01


def _pod() -> PodSettings:
    environment = {"STORAGE_EMULATOR_HOST": os.environ["STORAGE_EMULATOR_HOST"]}
    return PodSettings(image=IMAGE, service_account="qcnn-worker", cpu="300m", memory="2Gi", environment=environment)


def _config(**words: Any) -> ExperimentConfig:
    return from_mapping({**WORDS, **words})


def _trained_here(config: ExperimentConfig, folder: Path) -> Checkpoint:
    experiment, _ = generate_data(config.model_dump(), str(folder / "dataset"))
    train(experiment, *(str(folder / name) for name in ("dataset", "training", "logs")))
    checkpoint = checkpoints.load_latest(folder / "training" / checkpoints.FOLDER)
    assert checkpoint
    return checkpoint


def _trained_there(config: ExperimentConfig, launchers: Launchers, bucket: str) -> tuple[Checkpoint, str]:
    """Return the checkpoint of a TFJob that succeeds, and the address of its training."""
    job = cluster_job(config, bucket, _pod())
    launcher = launchers.start(job)
    assert launcher.ends() == 0, launcher.output
    assert "is started again" not in launcher.output
    address = f"{bucket}/{launchers.name(job)}/training"
    with local_copy(address) as folder:
        checkpoint = checkpoints.load_latest(folder / checkpoints.FOLDER)
    assert checkpoint
    return checkpoint, address


def _losses(checkpoint: Checkpoint) -> list[tuple[float, float]]:
    return [(epoch.train_loss, epoch.val_loss) for epoch in checkpoint.history]


def test_a_chief_with_workers_and_an_evaluator_trains_as_on_one_machine(
    launchers: Launchers, bucket: str, tmp_path: Path
) -> None:
    config = _config(workers=3, options={"chief": 1, "evaluator": 1})
    expected = _trained_here(config, tmp_path)
    found, address = _trained_there(config, launchers, bucket)
    np.testing.assert_allclose(_losses(found), _losses(expected), atol=1e-8)
    with local_copy(f"{address}/evaluation") as folder, (folder / "evaluation.csv").open(newline="") as file:
        measured = list(csv.DictReader(file))
    assert measured
    # It is told to end with the job, which may be before it has measured the last one.
    for row in measured:
        assert float(row["val_loss"]) == pytest.approx(found.history[int(row["epoch"]) - 1].val_loss, abs=1e-5)


def test_workers_with_an_evaluator_train_as_on_one_machine(launchers: Launchers, bucket: str, tmp_path: Path) -> None:
    config = _config(workers=2, options={"evaluator": 1})
    expected = _trained_here(config, tmp_path)
    found, _ = _trained_there(config, launchers, bucket)
    np.testing.assert_allclose(_losses(found), _losses(expected), atol=1e-8)


def test_parameter_servers_reach_what_they_reach_on_one_machine(
    launchers: Launchers, bucket: str, tmp_path: Path
) -> None:
    config = _config(strategy="parameter_server", workers=2, options={"ps": 1})
    expected = _trained_here(config, tmp_path)
    found, _ = _trained_there(config, launchers, bucket)
    assert len(found.history) == config.epochs
    assert found.fresh_mse == pytest.approx(expected.fresh_mse, abs=_CLOSE)


def test_the_line_is_found(launchers: Launchers, bucket: str) -> None:
    job = described("python", f"{bucket}/$(QCNN_JOB)", 2000, _pod())
    launcher = launchers.start(job)
    assert launcher.ends() == 0, launcher.output
    with local_copy(f"{bucket}/{launchers.name(job)}") as folder, np.load(folder / "line.npz") as saved:
        assert saved["updates"] == 2000
        assert saved["variable_0"] == pytest.approx(SLOPE, rel=0.01)
        assert saved["variable_1"] == pytest.approx(INTERCEPT, abs=0.02)
