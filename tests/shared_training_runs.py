"""Small training runs that several test modules share.

TensorFlow is loaded on first use, because the pytest process that distributes the tests does not need it.
"""

import dataclasses
import functools
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from qcnn import data
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics
from qcnn.model.history_file import HISTORY

if TYPE_CHECKING:
    from qcnn.trainer.programs import CompiledFunctions

ROOT = Path(__file__).parents[1]
# No profile, which takes as long as several epochs.
SMALL: dict[str, Any] = {
    "qubits": 4,
    "rounds": 10,
    "epochs": 3,
    "batch_size": 8,
    "strategy": "none",
    "workers": 1,
    # A constant learning rate does not depend on the number of epochs, so that a run can be extended to more epochs.
    "learning_rate": 0.02,
    # A checkpoint after each epoch.
    "options": {
        "profile_batches": "",
        "learning_rate_schedule": "constant",
        "warmup_fraction": 0.0,
        "checkpoint_seconds": 1e-9,
    },
}


@functools.cache
def shared_programs() -> "CompiledFunctions":
    """Return the functions that single-device training runs of this process have compiled."""
    from qcnn.trainer.programs import CompiledFunctions

    return CompiledFunctions()


def train(config: ExperimentConfig, dataset: data.Dataset, workdir: Path, **more: Any) -> tuple[EpochMetrics, ...]:
    """Train with `qcnn.trainer.loop.train`, on a single device with functions that earlier tests have compiled.

    This does not change results (see tests/trainer/test_programs.py). Patches of a test have no effect on functions
    that were compiled earlier.

    Args:
        config: Experiment.
        dataset: Dataset of the experiment.
        workdir: Training folder.
        **more: Further arguments of `qcnn.trainer.loop.train`.
    """
    from qcnn.trainer import loop

    programs = shared_programs() if config.strategy == "none" else None
    return loop.train(config, dataset, workdir, programs=programs, **more)


def documents() -> str:
    """Return the text of all documentation pages."""
    return "\n".join(path.read_text() for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))))


def outcomes(history: Iterable[EpochMetrics]) -> list[tuple[float, ...]]:
    """Return the metrics of every epoch without the wall time."""
    return [dataclasses.astuple(dataclasses.replace(epoch, seconds=0.0)) for epoch in history]


def assert_same_training(one: Path, other: Path) -> None:
    """Assert that two training folders have bit-identical losses, weights and optimizer states."""
    first, second = (checkpoints.load_latest(folder / "checkpoints") for folder in (one, other))
    assert first
    assert second
    assert outcomes(first.history) == outcomes(second.history)
    for mine, its in zip(
        first.line.weights + first.line.optimizer, second.line.weights + second.line.optimizer, strict=True
    ):
        assert np.array_equal(mine, its)


def copy_checkpoint(trained: Path, epoch: int, folder: Path) -> None:
    """Copy the checkpoint of an epoch, one of the last two, and the history of all epochs to a training folder."""
    (folder / checkpoints.FOLDER).mkdir(parents=True, exist_ok=True)
    shutil.copy(trained / checkpoints.FOLDER / f"epoch-{epoch:06d}.npz", folder / checkpoints.FOLDER)
    shutil.copy(trained / HISTORY, folder)


@pytest.fixture(scope="session")
def small_config() -> ExperimentConfig:
    """Experiment that trains in a second: 28 samples on 4 qubits, with a smaller last batch."""
    return from_mapping(SMALL)


@pytest.fixture(scope="session")
def small_dataset(small_config: ExperimentConfig) -> data.Dataset:
    return data.generate(small_config)


@pytest.fixture(scope="session")
def trained(
    small_config: ExperimentConfig, small_dataset: data.Dataset, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Folder of a completed small training run. Tests must not change it."""
    workdir = tmp_path_factory.mktemp("trained")
    train(small_config, small_dataset, workdir)
    return workdir


@pytest.fixture(scope="session")
def continued(
    small_config: ExperimentConfig, small_dataset: data.Dataset, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Folder of the same training run, resumed after its first epoch. Tests must not change it."""
    workdir = tmp_path_factory.mktemp("continued")
    for epochs in (1, 3):
        train(small_config.model_copy(update={"epochs": epochs}), small_dataset, workdir)
    return workdir


@pytest.fixture(scope="session")
def model_folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folder of the completed small training run. Tests must not change it."""
    from qcnn.results import export

    folder = tmp_path_factory.mktemp("exported") / "model"
    export.export(trained, folder)
    return folder
