"""Small trainings that several test files look at.

TensorFlow is loaded by who asks for one: the process that only hands the tests to others has no use for it.
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
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics

if TYPE_CHECKING:
    from qcnn.trainer.programs import CompiledFunctions

ROOT = Path(__file__).parents[1]
# A profile takes as long as several epochs of these.
SMALL: dict[str, Any] = {
    "qubits": 4,
    "rounds": 10,
    "epochs": 3,
    "batch_size": 8,
    "strategy": "none",
    "workers": 1,
    # As published, so that a training can be continued to more epochs as if it had had them from the beginning.
    "learning_rate": 0.02,
    "options": {"profile_batches": "", "learning_rate_schedule": "constant", "warmup_fraction": 0.0},
}


@functools.cache
def shared_programs() -> "CompiledFunctions":
    """Return what trainings of this process on one device have compiled."""
    from qcnn.trainer.programs import CompiledFunctions

    return CompiledFunctions()


def train(config: ExperimentConfig, dataset: data.Dataset, workdir: Path, **more: Any) -> tuple[EpochMetrics, ...]:
    """Train as `qcnn.trainer.loop.train`, on one device by programs that earlier tests have compiled.

    No number depends on it, as tests/trainer/test_programs.py makes sure. What a test changes in the code is not in a
    program that was compiled before.
    """
    from qcnn.trainer import loop

    programs = shared_programs() if config.strategy == "none" else None
    return loop.train(config, dataset, workdir, programs=programs, **more)


def documents() -> str:
    """Return the text of all documents for users."""
    return "\n".join(path.read_text() for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))))


def outcomes(history: Iterable[EpochMetrics]) -> list[tuple[float, ...]]:
    """Return all that is known of every epoch but its seconds."""
    return [dataclasses.astuple(dataclasses.replace(epoch, seconds=0.0)) for epoch in history]


def assert_same_training(one: Path, other: Path) -> None:
    """Two folders hold the same training: losses, weights and optimizer, to the bit."""
    first, second = (checkpoints.load_latest(folder / "checkpoints") for folder in (one, other))
    assert first
    assert second
    assert outcomes(first.history) == outcomes(second.history)
    for mine, its in zip(
        first.line.weights + first.line.optimizer, second.line.weights + second.line.optimizer, strict=True
    ):
        assert np.array_equal(mine, its)


def copy_checkpoint(trained: Path, epoch: int, folder: Path) -> None:
    """Let a training in a new folder continue where another one was after an epoch, one of its last two."""
    (folder / checkpoints.FOLDER).mkdir(parents=True, exist_ok=True)
    shutil.copy(trained / checkpoints.FOLDER / f"epoch-{epoch:06d}.npz", folder / checkpoints.FOLDER)


@pytest.fixture(scope="session")
def small_config() -> ExperimentConfig:
    """A training of a second: 28 samples on 4 qubits, uneven in the last batch."""
    return from_mapping(SMALL)


@pytest.fixture(scope="session")
def small_dataset(small_config: ExperimentConfig) -> data.Dataset:
    return data.generate(small_config)


@pytest.fixture(scope="session")
def trained(
    small_config: ExperimentConfig, small_dataset: data.Dataset, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a finished small training; read only."""
    workdir = tmp_path_factory.mktemp("trained")
    train(small_config, small_dataset, workdir)
    return workdir


@pytest.fixture(scope="session")
def continued(
    small_config: ExperimentConfig, small_dataset: data.Dataset, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of the same training, started again after its first epoch; read only."""
    workdir = tmp_path_factory.mktemp("continued")
    for epochs in (1, 3):
        train(small_config.model_copy(update={"epochs": epochs}), small_dataset, workdir)
    return workdir


@pytest.fixture(scope="session")
def model_folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of the finished small training; read only."""
    from qcnn.results import export

    folder = tmp_path_factory.mktemp("exported") / "model"
    export.export(trained, folder)
    return folder
