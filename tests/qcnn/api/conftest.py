"""Small training run that several tests share."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import qcnn
from tests.forks import forked_training

SMALL: dict[str, Any] = {
    "qubits": 4,
    "rounds": 10,
    "epochs": 2,
    "batch_size": 8,
    "workers": 1,
    "strategy": "none",
    "profile_batches": "",
}


@pytest.fixture
def shared_server(fork_variables: Mapping[str, str]) -> Iterator[None]:
    """Use the shared fork server for the training runs of a test."""
    with forked_training(fork_variables):
        yield


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory, fork_variables: Mapping[str, str]) -> qcnn.Training:
    """Return a completed training run. Tests must not change it."""
    with forked_training(fork_variables):
        return qcnn.train(qcnn.Experiment(**SMALL), tmp_path_factory.mktemp("qcnn") / "first")
