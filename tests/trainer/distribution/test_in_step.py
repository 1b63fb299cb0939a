"""Strategies whose replicas share every batch end with the very numbers of a training on one device."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qcnn.model.optimizer import _OPTIMIZERS
from tests.small_trainings import ROOT, SMALL

# Devices are set up once in a process, so one process trains them all.
_PROGRAM = """
import json, sys
from pathlib import Path
from qcnn import data
from qcnn.experiment_io import from_mapping
from qcnn.trainer.distribution.strategies import set_up
from qcnn.model import checkpoints
from qcnn.trainer.loop import train

found = []
for number, trainings in enumerate(json.loads(sys.argv[1])):
    folder = Path(sys.argv[2], str(number))
    for words in trainings:
        config = from_mapping(words)
        set_up(config)
        train(config, data.generate(config), folder)
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


def _trained(folder: Path, *trainings: list[dict[str, Any]]) -> list[Numbers]:
    """Train in one process, each list of words one after the other in a folder; return losses and weights of each."""
    # The most devices first: they are made once.
    most = max(words["options"]["devices"] for training in trainings for words in training)
    first = [_words("mirrored", most, epochs=1)]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM), json.dumps([first, *trainings]), str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("found "))
    found = json.loads(line.removeprefix("found "))[1:]
    return [[np.array(losses), *map(np.array, weights)] for losses, weights in found]


def _assert_equal(found: list[Numbers], within: float = 1e-8) -> None:
    expected, *others = found
    for each in others:
        for mine, its in zip(each, expected, strict=True):
            np.testing.assert_allclose(mine, its, rtol=0, atol=within)


def test_devices_change_no_number_nor_does_a_restart(tmp_path: Path) -> None:
    once = [[_words(strategy, devices)] for strategy, devices in (("none", 0), ("mirrored", 2), ("central_storage", 3))]
    # Continued on other devices.
    again = [_words("mirrored", 2, epochs=1), _words("central_storage", 2, epochs=2), _words("mirrored", 3)]
    _assert_equal(_trained(tmp_path, *once, again))


_TRAINED: dict[str, dict[str, Any]] = {
    **{optimizer: {"optimizer": optimizer} for optimizer in _OPTIMIZERS},
    "deep": {"model": "deep", "simulator": "window"},
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
def test_whatever_is_trained(tmp_path: Path) -> None:
    ways = (("none", 0), ("mirrored", 2), ("central_storage", 2))
    trainings = [[_words(strategy, devices, **words)] for words in _TRAINED.values() for strategy, devices in ways]
    found = iter(_trained(tmp_path, *trainings))
    for name in _TRAINED:
        _assert_equal([next(found) for _ in ways], _WITHIN.get(name, 1e-8))


@pytest.mark.long
def test_whatever_the_reduction(tmp_path: Path) -> None:
    trainings = [
        [_words("mirrored", 4, options={"reduction": reduction})]
        for reduction in ("auto", "one_device", "hierarchical_copy")
    ]
    _assert_equal(_trained(tmp_path, [_words("none", 0)], *trainings))
