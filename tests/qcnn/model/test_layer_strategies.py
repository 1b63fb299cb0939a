"""A Keras model with circuits trains equally under the strategies of TensorFlow."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.forks import run

# Devices are configured once per process.
_PROGRAM = """
import json
import numpy as np
import tensorflow as tf
import tf_keras

import qcnn

devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
strategies = {
    "none": tf.distribute.get_strategy(),
    "mirrored": tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    "central storage": tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0"),
}
random = np.random.default_rng(1)
# Keras averages the means of replicas, so that their shares of a batch must be equal.
rows = random.uniform(-1, 1, (16, 3))
labels = rows.sum(axis=1, keepdims=True) / 2
results = {}
for name, strategy in strategies.items():
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        inputs = tf_keras.Input(shape=(3,))
        angles = tf_keras.layers.Dense(4, activation="tanh")(inputs)
        parts = [
            qcnn.QuantumLayer("hybrid", 4, encoding="ry", simulator=simulator, seed=2)(angles)
            for simulator in ("statevector", "auto")
        ]
        outputs = tf_keras.layers.Dense(1)(tf_keras.layers.Concatenate()(parts))
        model = tf_keras.Model(inputs, outputs)
        model.compile(optimizer=tf_keras.optimizers.SGD(0.05), loss="mse")
    history = model.fit(rows, labels, batch_size=8, epochs=2, shuffle=False, verbose=0)
    weights = [weight.tolist() for weight in model.get_weights()]
    results[name] = [history.history["loss"], weights]
print("results", json.dumps(results))
"""


@pytest.mark.long
def test_strategies_train_equal_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    monkeypatch.chdir(tmp_path)
    done = run("-m", "program")
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("results "))
    results = json.loads(line.removeprefix("results "))
    losses, weights = results.pop("none")
    assert losses[1] < losses[0]
    assert len(results) == 2
    for other_losses, other_weights in results.values():
        # Keras sums the losses of replicas in float32.
        np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
        for found, expected in zip(other_weights, weights, strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
