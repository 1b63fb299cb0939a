"""Fault injection for all roles: training resumes after a process is killed.

`make test-long` kills some roles once, `make test-faults` all roles at all moments.
"""

import csv
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.checkpoints import Checkpoint
from tests.components.steps.local_jobs import (
    EPOCHS,
    Launcher,
    Moment,
    last_checkpoint,
    launched,
    train_step,
    wait_for,
    with_dataset,
)


def _config(rounds: int = 10, restarts: int = 1, **fields: Any) -> ExperimentConfig:
    # A checkpoint after each epoch.
    options = {"max_restarts": restarts, "checkpoint_seconds": 1e-9, **fields.pop("options", {})}
    defaults = {"qubits": 4, "rounds": rounds, "epochs": EPOCHS, "batch_size": 8}
    return from_mapping({**defaults, **fields, "options": options})


WITH_CHIEF = _config(workers=3, options={"chief": 1, "evaluator": 1})
ON_SERVERS = _config(rounds=30, strategy="parameter_server", options={"ps": 2})
OF_CHIEF = ("chief 0", "worker 1", "launcher", "everything")
OF_SERVERS = ("chief 0", "worker 1", "ps 0", "ps 1")


def _moments(count: int, victims: tuple[str, ...], always: set[int]) -> list[Any]:
    return [
        pytest.param(moment, id=str(moment), marks=() if moment.seed in always else pytest.mark.faults)
        for moment in (Moment.draw(seed, victims) for seed in range(count))
    ]


def _evaluated_epochs(folder: Path) -> list[int]:
    """Return the epochs that the evaluator has evaluated."""
    with (folder / "training" / "evaluation" / "evaluation.csv").open(newline="") as file:
        return [int(row["epoch"]) for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = with_dataset(tmp_path_factory.mktemp("undisturbed"), WITH_CHIEF)
    with launched(train_step(folder, WITH_CHIEF), WITH_CHIEF.replicas) as launcher:
        assert launcher.finish() == 0, launcher.output
    assert _evaluated_epochs(folder)[-1] == EPOCHS
    return last_checkpoint(folder)


def _kill_and_finish(launcher: Launcher, victim: str, folder: Path, config: ExperimentConfig) -> str:
    """Kill a process, wait for the end of training, and return the output.

    If the launcher was killed, start the step again.
    """
    launcher.kill(victim)
    exit_code = launcher.finish()
    if victim not in ("launcher", "everything"):
        assert exit_code == 0, launcher.output
        return launcher.output
    assert exit_code == -signal.SIGKILL
    with launched(train_step(folder, config), config.replicas) as again:
        assert again.finish() == 0, again.output
        return again.output


@pytest.mark.long
@pytest.mark.parametrize("moment", _moments(24, OF_CHIEF, {4}))
def test_killed_training_with_chief_ends_with_equal_weights(
    tmp_path: Path, undisturbed: Checkpoint, moment: Moment
) -> None:
    folder = with_dataset(tmp_path, WITH_CHIEF)
    with launched(train_step(folder, WITH_CHIEF), WITH_CHIEF.replicas) as launcher:
        reported = wait_for(moment, launcher, folder)
        output = _kill_and_finish(launcher, moment.victim, folder, WITH_CHIEF)
    continued = [int(epoch) for epoch in re.findall(r"\[chief 0\] continuing after epoch (\d+)", output)]
    assert max(continued, default=0) >= reported - 1
    found = last_checkpoint(folder)
    losses = [[(e.epoch, e.train_loss, e.val_loss) for e in run.history] for run in (found, undisturbed)]
    assert losses[0] == losses[1]
    for one, other in zip(found.line.weights, undisturbed.line.weights, strict=True):
        assert np.array_equal(one, other)
    assert _evaluated_epochs(folder)[-1] == EPOCHS


@pytest.mark.long
def test_killed_evaluator_restarts_alone(tmp_path: Path, undisturbed: Checkpoint) -> None:
    folder = with_dataset(tmp_path, WITH_CHIEF)
    with launched(train_step(folder, WITH_CHIEF), WITH_CHIEF.replicas) as launcher:
        launcher.read_until(r"\[chief 0\] epoch 3/")
        output = _kill_and_finish(launcher, "evaluator 0", folder, WITH_CHIEF)
    assert "evaluator 0 was killed by SIGKILL; restarting evaluator 0 (1 of 1)" in output
    assert "continuing" not in output
    assert last_checkpoint(folder).history[-1].val_loss == undisturbed.history[-1].val_loss
    assert _evaluated_epochs(folder)[-1] == EPOCHS


@pytest.mark.long
@pytest.mark.parametrize("moment", _moments(12, OF_SERVERS, {5, 6}))
def test_killed_parameter_server_training_completes_all_epochs(tmp_path: Path, moment: Moment) -> None:
    folder = with_dataset(tmp_path, ON_SERVERS)
    with launched(train_step(folder, ON_SERVERS), ON_SERVERS.replicas) as launcher:
        reported = wait_for(moment, launcher, folder)
        output = _kill_and_finish(launcher, moment.victim, folder, ON_SERVERS)
    continued = [int(epoch) for epoch in re.findall(r"\[chief 0\] continuing after epoch (\d+)", output)]
    if moment.victim.startswith("worker"):
        assert f"{moment.victim} was killed by SIGKILL; restarting {moment.victim} (1 of 1)" in output
        assert not continued
    else:
        assert "restarting all workers (1 of 1)" in output
        assert max(continued, default=0) >= reported - 1
    found = last_checkpoint(folder)
    assert [epoch.epoch for epoch in found.history] == list(range(1, EPOCHS + 1))
    # Close to synchronous training. The MSE lower bound is 0.19.
    assert found.fresh_mse is not None
    assert found.fresh_mse < 0.35
