"""Small trainings that several test files look at."""

from pathlib import Path

import pytest

from trainer import data
from trainer.config import ExperimentConfig, from_mapping
from trainer.fit import train

SMALL = {"qubits": 4, "rounds": 10, "epochs": 3, "batch_size": 8, "strategy": "none", "workers": 1}


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
