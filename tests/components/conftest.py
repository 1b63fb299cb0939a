"""Fixtures for tests of the steps."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from qcnn.components.steps.dataset import generate_data
from qcnn.components.steps.evaluate import export_weights
from qcnn.components.steps.train_local import train
from qcnn.process.error_lines import one_line_errors
from tests.forks import forked_training


def error_line(capfd: pytest.CaptureFixture[str]) -> str:
    """Return the single line on stderr."""
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line]
    return line


@pytest.fixture(scope="session")
def trained_model(tmp_path_factory: pytest.TempPathFactory, fork_variables: Mapping[str, str]) -> Path:
    """Folder of a small exported model, next to the folder of its dataset."""
    folder = tmp_path_factory.mktemp("steps")
    fields = {"qubits": 4, "rounds": 10, "epochs": 1, "strategy": "none", "workers": 1, "baseline": 1}
    experiment, _ = generate_data(fields, str(folder / "dataset"))
    with forked_training(fork_variables):
        train(experiment, *(str(folder / name) for name in ("dataset", "training", "logs")))
    export_weights(str(folder / "training"), str(folder / "model"))
    return folder / "model"


def in_component(step: Callable[..., object], *arguments: Any, **named: Any) -> object:
    """Call a step as the body of its component does."""
    with one_line_errors():
        return step(*arguments, **named)
