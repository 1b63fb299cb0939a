"""A small training that several tests look at."""

from typing import Any

import pytest

import qcnn

SMALL: dict[str, Any] = {
    "qubits": 4,
    "rounds": 10,
    "epochs": 2,
    "batch_size": 8,
    "workers": 1,
    "strategy": "none",
    "profile_batches": "",
}


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> qcnn.Training:
    """Read only."""
    return qcnn.train(qcnn.Experiment(**SMALL), tmp_path_factory.mktemp("qcnn") / "first")
