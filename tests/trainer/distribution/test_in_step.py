"""Synchronous strategies give the same results as training on one device."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qcnn.model.optimizer import _OPTIMIZERS
from tests.forks import run
from tests.shared_training_runs import SMALL

# One process runs all training runs, because devices are configured once per process.
_PROGRAM = """
import json, sys
from pathlib import Path
import tensorflow as tf
from qcnn import data
from qcnn.experiment.parsing import from_mapping
from qcnn.trainer.distribution.strategies import set_up
from qcnn.model import checkpoints
from qcnn.trainer.loop import train
from qcnn.trainer.programs import CompiledFunctions

results, programs = [], {}
with_most_devices, *every = json.loads(sys.argv[1])
# Logical devices can be created only once.
set_up(from_mapping(with_most_devices))
tf.config.list_logical_devices()
for number, trainings in enumerate(every):
    folder = Path(str(number))
    for words in trainings:
        config = from_mapping(words)
        set_up(config)
        # A separate strategy object for each strategy and number of devices.
        shared = programs.setdefault((config.strategy, config.options.devices), CompiledFunctions())
        train(config, data.generate(config), folder, programs=shared)
    saved = checkpoints.load_latest(folder / checkpoints.FOLDER)
    losses = [(epoch.train_loss, epoch.train_accuracy, epoch.val_loss, epoch.val_accuracy) for epoch in saved.history]
    results.append([losses, [array.tolist() for array in saved.line.weights]])
print("results", json.dumps(results))
"""

Numbers = list[npt.NDArray[np.float64]]


def _words(strategy: str, devices: int, **words: Any) -> dict[str, Any]:
    # Batches of 7 are uneven for every number of devices.
    options = {**SMALL["options"], "devices": devices, **words.pop("options", {})}
    return {**SMALL, "batch_size": 7, "strategy": strategy, **words, "options": options}


Trained = Callable[..., list[Numbers]]


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None) -> Trained:
    """Function that trains lists of experiments in one process, each list successively in one folder."""
    (tmp_path / "program.py").write_text(_PROGRAM)
    monkeypatch.chdir(tmp_path)
    return _trained


def _trained(*trainings: list[dict[str, Any]]) -> list[Numbers]:
    every = [words for training in trainings for words in training]
    done = run("-m", "program", json.dumps([max(every, key=lambda words: words["options"]["devices"]), *trainings]))
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("results "))
    results = json.loads(line.removeprefix("results "))
    return [[np.array(losses), *map(np.array, weights)] for losses, weights in results]


def _assert_equal(results: list[Numbers], tolerance: float = 1e-8) -> None:
    expected, *others = results
    for numbers in others:
        for values, expected_values in zip(numbers, expected, strict=True):
            np.testing.assert_allclose(values, expected_values, rtol=0, atol=tolerance)


def test_devices_and_restarts_do_not_change_results(trained: Trained) -> None:
    # `test_strategies_agree_for_every_experiment` has two devices for each strategy.
    ways = (("none", 0), ("mirrored", 3), ("central_storage", 2))
    # Resumed with other strategies and numbers of devices, whose programs have been compiled.
    resumed = [_words(strategy, devices, epochs=epoch) for epoch, (strategy, devices) in enumerate(reversed(ways), 1)]
    _assert_equal(trained(*([_words(strategy, devices)] for strategy, devices in ways), resumed))


# Each optimizer, most of them with another property of an experiment.
_TRAINED: dict[str, dict[str, Any]] = {
    **{optimizer: {} for optimizer in _OPTIMIZERS},
    "adam": {"model": "deep", "simulator": "lightcone"},
    # The last batch has a single sample.
    "sgd": {"batch_size": 27},
    "rmsprop": {"options": {"shots": 50}},
    "adagrad": {"loss": "cross_entropy"},
    # By qubit.
    "adamax": {"simulator": "statevector"},
}
_WAYS = (("none", 0), ("mirrored", 2), ("central_storage", 2))


@pytest.mark.long
def test_strategies_agree_for_every_experiment(trained: Trained) -> None:
    trainings = [
        [_words(strategy, devices, optimizer=optimizer, **words)]
        for optimizer, words in _TRAINED.items()
        for strategy, devices in _WAYS
    ]
    results = iter(trained(*trainings))
    for _ in _TRAINED:
        _assert_equal([next(results) for _ in _WAYS], 1e-8)


@pytest.mark.tfq
def test_strategies_agree_with_tensorflow_quantum(trained: Trained) -> None:
    # Adam would amplify rounding noise where a gradient is zero.
    words = {"simulator": "tfq", "optimizer": "sgd"}
    results = trained(*([_words(strategy, devices, **words)] for strategy, devices in _WAYS))
    # TensorFlow Quantum computes float32 sums in any order.
    _assert_equal(results, 1e-5)


@pytest.mark.long
def test_reductions_agree(trained: Trained) -> None:
    trainings = [
        [_words("mirrored", 4, options={"reduction": reduction})]
        for reduction in ("auto", "one_device", "hierarchical_copy")
    ]
    _assert_equal(trained([_words("none", 0)], *trainings))
