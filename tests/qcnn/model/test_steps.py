"""Training with several replicas in one process, which equals training with one."""

import json
from pathlib import Path

import pytest

from tests.forks import run

# Logical CPU devices can be configured only before TensorFlow initializes, hence the subprocess.
_PROGRAM = """
import dataclasses, json, sys
import numpy as np
import tensorflow as tf
from qcnn import data
from qcnn.experiment.parsing import from_mapping
from qcnn.trainer.tensorboard import BatchProfiler
from qcnn.trainer.state import TrainingState

words, replicas = json.loads(sys.argv[1]), int(sys.argv[2])
devices = [tf.config.LogicalDeviceConfiguration()] * replicas
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
config = from_mapping({**words, "workers": 1, "strategy": "none", "simulator": "statevector"})
dataset = data.generate(config)


def moved(samples):
    return data.Samples({**samples.inputs, "qubit": np.where(samples.qubit == 1, 0, samples.qubit)}, samples.label)


# No sample is on qubit 1.
dataset = dataclasses.replace(dataset, train=moved(dataset.train), validation=moved(dataset.validation))


def trained(strategy):
    training = TrainingState(config, dataset, None, strategy, None)
    epochs = [training.epoch(BatchProfiler(range(0), None))[0] for _ in range(3)]
    losses = [[epoch.train_loss, epoch.val_loss] for epoch in epochs]
    return np.array(losses), np.concatenate([v.numpy().ravel() for v in training.model.trainable_variables])


alone = trained(tf.distribute.get_strategy())
shared = trained(tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)]))
print(json.dumps([float(np.abs(one - other).max()) for one, other in zip(alone, shared)]))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "replicas"),
    [
        ({"qubits": 5, "rounds": 9}, 3),
        # More replicas than qubits, so some replicas have no samples.
        ({"qubits": 4, "rounds": 9, "model": "deep"}, 5),
    ],
)
@pytest.mark.usefixtures("forks")
def test_train_sharded_by_qubit_equals_one_replica(
    words: dict[str, object], replicas: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sharded.py").write_text(_PROGRAM)
    monkeypatch.chdir(tmp_path)
    result = run("-m", "sharded", json.dumps(words), str(replicas))
    assert result.returncode == 0, result.stderr
    losses, weights = json.loads(result.stdout.splitlines()[-1])
    assert losses < 1e-8
    assert weights < 1e-8
