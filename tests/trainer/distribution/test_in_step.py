"""Strategies whose replicas share every batch end with the very numbers of a training on one device."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qcnn.model.optimizer import _OPTIMIZERS
from tests.forks import run
from tests.small_trainings import SMALL

# Devices are set up once in a process, so one process trains them all.
_PROGRAM = """
import json, sys
from pathlib import Path
import tensorflow as tf
from qcnn import data
from qcnn.experiment_io import from_mapping
from qcnn.trainer.distribution.strategies import set_up
from qcnn.model import checkpoints
from qcnn.trainer.loop import train
from qcnn.trainer.programs import CompiledFunctions

found, programs = [], {}
most, *every = json.loads(sys.argv[1])
# Devices are made once.
set_up(from_mapping(most))
tf.config.list_logical_devices()
for number, trainings in enumerate(every):
    folder = Path(str(number))
    for words in trainings:
        config = from_mapping(words)
        set_up(config)
        # A strategy of its own for each kind and number of devices.
        shared = programs.setdefault((config.strategy, config.options.devices), CompiledFunctions())
        train(config, data.generate(config), folder, programs=shared)
    saved = checkpoints.load_latest(folder / checkpoints.FOLDER)
    losses = [(epoch.train_loss, epoch.train_accuracy, epoch.val_loss, epoch.val_accuracy) for epoch in saved.history]
    found.append([losses, [array.tolist() for array in saved.line.weights]])
print("found", json.dumps(found))
"""

Numbers = list[npt.NDArray[np.float64]]


def _words(strategy: str, devices: int, **words: Any) -> dict[str, Any]:
    # Two samples are missing in the last batch of 8, and batches of 7 are uneven on every number of devices.
    options = {**SMALL["options"], "devices": devices, **words.pop("options", {})}
    return {**SMALL, "batch_size": 7, "strategy": strategy, **words, "options": options}


Trained = Callable[..., list[Numbers]]


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None) -> Trained:
    """Train in one process, each list of words one after the other in a folder; return losses and weights of each."""
    (tmp_path / "program.py").write_text(_PROGRAM)
    monkeypatch.chdir(tmp_path)
    return _trained


def _trained(*trainings: list[dict[str, Any]]) -> list[Numbers]:
    most = max((words for training in trainings for words in training), key=lambda words: words["options"]["devices"])
    done = run("-m", "program", json.dumps([most, *trainings]))
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("found "))
    found = json.loads(line.removeprefix("found "))
    return [[np.array(losses), *map(np.array, weights)] for losses, weights in found]


def _assert_equal(found: list[Numbers], within: float = 1e-8) -> None:
    expected, *others = found
    for each in others:
        for mine, its in zip(each, expected, strict=True):
            np.testing.assert_allclose(mine, its, rtol=0, atol=within)


def test_devices_change_no_number_nor_does_a_restart(trained: Trained) -> None:
    once = [[_words(strategy, devices)] for strategy, devices in (("none", 0), ("mirrored", 2), ("central_storage", 3))]
    # Continued on other devices.
    again = [_words("mirrored", 2, epochs=1), _words("central_storage", 2, epochs=2), _words("mirrored", 3)]
    _assert_equal(trained(*once, again))


_TRAINED: dict[str, dict[str, Any]] = {
    **{optimizer: {"optimizer": optimizer} for optimizer in _OPTIMIZERS},
    "deep": {"model": "deep", "simulator": "lightcone"},
    # Adam would make drift of rounding noise where a gradient is zero.
    "tfq": {"simulator": "tfq", "optimizer": "sgd"},
    "shots": {"options": {"shots": 50}},
    # A single sample in the last batch.
    "few": {"batch_size": 27},
    "by qubit": {"model": "deep", "simulator": "statevector", "qubits": 10, "batch_size": 32},
}
# Computes with float32, in whatever order.
_WITHIN = {"tfq": 1e-5}


@pytest.mark.long
def test_whatever_is_trained(trained: Trained) -> None:
    ways = (("none", 0), ("mirrored", 2), ("central_storage", 2))
    trainings = [[_words(strategy, devices, **words)] for words in _TRAINED.values() for strategy, devices in ways]
    found = iter(trained(*trainings))
    for name in _TRAINED:
        _assert_equal([next(found) for _ in ways], _WITHIN.get(name, 1e-8))


@pytest.mark.long
def test_whatever_the_reduction(trained: Trained) -> None:
    trainings = [
        [_words("mirrored", 4, options={"reduction": reduction})]
        for reduction in ("auto", "one_device", "hierarchical_copy")
    ]
    _assert_equal(trained([_words("none", 0)], *trainings))
