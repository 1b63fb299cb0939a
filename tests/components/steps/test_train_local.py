"""Local training processes: the results do not depend on the number of workers."""

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from qcnn import data
from qcnn.components.steps.train_local import train
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.studies.trials import load_failure
from qcnn.trainer import loop
from tests.components.conftest import error_line, in_component

pytestmark = pytest.mark.usefixtures("forks")

# The last Z rotation of a pooling source commutes with its CNOT. Its gradient is exactly zero, and Adam amplifies
# rounding errors.
_SOURCES_LAST_Z = 20
# The learning rate does not depend on the number of epochs, so training can be extended.
CONSTANT_RATE = {"learning_rate_schedule": "constant", "warmup_fraction": 0.0}


def _experiment(samples: int, workers: int) -> ExperimentConfig:
    options = {"train_fraction": samples / 160}
    return from_mapping({"rounds": 20, "workers": workers, "epochs": 50, "options": options})


def _train(config: ExperimentConfig, folder: Path) -> tuple[npt.NDArray[np.float64], checkpoints.Checkpoint]:
    data.save(data.generate(config), folder / "dataset")
    train(config.to_json(), *(str(folder / name) for name in ("dataset", "training", "logs")))
    with (folder / "training" / "history.csv").open() as file:
        losses = [[float(row["train_loss"]), float(row["val_loss"])] for row in csv.DictReader(file)]
    checkpoint = checkpoints.load_latest(folder / "training" / "checkpoints")
    assert checkpoint
    return np.array(losses), checkpoint


@pytest.mark.long
@pytest.mark.parametrize(("samples", "more_workers"), [(112, [2]), (101, [2]), (97, [2, 3])])
def test_number_of_workers_does_not_change_training(tmp_path: Path, samples: int, more_workers: list[int]) -> None:
    one_losses, one = _train(_experiment(samples, 1), tmp_path / "1")
    assert one_losses[-1, 0] < 0.5 * one_losses[0, 0]
    for workers in more_workers:
        losses, several = _train(_experiment(samples, workers), tmp_path / str(workers))
        np.testing.assert_allclose(losses[:10], one_losses[:10], rtol=1e-4)
        np.testing.assert_allclose(losses, one_losses, rtol=2e-3)
        quantum, others = (np.delete(run.line.weights[0], _SOURCES_LAST_Z) for run in (one, several))
        np.testing.assert_allclose(quantum, others, atol=1e-3)
        for weights, others in zip(one.line.weights[1:], several.line.weights[1:], strict=True):
            np.testing.assert_allclose(weights, others, atol=1e-3)


@pytest.mark.long
def test_training_of_two_workers_resumes_with_one(tmp_path: Path) -> None:
    two = from_mapping({"qubits": 4, "rounds": 20, "epochs": 2, "options": CONSTANT_RATE})
    _train(two, tmp_path / "two")
    four_epochs = two.model_copy(update={"epochs": 4, "workers": 1})
    names = ("dataset", "training", "logs")
    train(four_epochs.to_json(), *(str(tmp_path / "two" / name) for name in names))
    losses, _ = _train(four_epochs, tmp_path / "one")
    with (tmp_path / "two" / "training" / "history.csv").open() as file:
        continued = [[float(row["train_loss"]), float(row["val_loss"])] for row in csv.DictReader(file)]
    np.testing.assert_allclose(continued, losses, rtol=1e-4)


@pytest.mark.long
def test_shots_do_not_depend_on_number_of_workers(tmp_path: Path) -> None:
    """Compare three workers, resumed by two, with one. The last batch is smaller."""
    options = {"shots": 20, "train_fraction": 0.625, "profile_batches": "", **CONSTANT_RATE}
    one = from_mapping({"qubits": 4, "rounds": 10, "epochs": 4, "batch_size": 8, "workers": 1, "options": options})
    _train(one.model_copy(update={"workers": 3, "epochs": 2}), tmp_path / "several")
    names = ("dataset", "training", "logs")
    two = one.model_copy(update={"workers": 2})
    train(two.to_json(), *(str(tmp_path / "several" / name) for name in names))
    several = checkpoints.load_latest(tmp_path / "several" / "training" / "checkpoints")
    assert several
    alone = loop.train(one.model_copy(update={"strategy": "none"}), data.generate(one), tmp_path / "one")
    losses, expected = ([(epoch.train_loss, epoch.val_loss) for epoch in run] for run in (several.history, alone))
    # A difference of one shot would change the loss by 1e-4.
    np.testing.assert_allclose(losses, expected, rtol=1e-9)


def test_failed_worker_fails_the_step_with_its_reason(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    experiment = from_mapping({"strategy": "none", "workers": 1}).to_json()
    with pytest.raises(SystemExit) as stopped:
        in_component(train, experiment, str(tmp_path / "missing"), str(tmp_path / "training"), str(tmp_path / "logs"))
    assert stopped.value.code == 2
    assert error_line(capfd).startswith("error: dataset: dataset.json is missing. Given: ")
    assert not list(tmp_path.iterdir())


def test_failed_local_trial_succeeds_and_saves_the_reason(tmp_path: Path) -> None:
    experiment = from_mapping({"strategy": "none", "workers": 1})
    outputs = [str(tmp_path / name) for name in ("training", "logs")]
    train(experiment.to_json(), str(tmp_path / "missing"), *outputs, trial=True)
    failed = load_failure(tmp_path / "training")
    assert failed
    assert failed.experiment == experiment
    assert failed.reason.startswith("dataset: dataset.json is missing. Given: ")
