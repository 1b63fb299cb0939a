"""Layers of circuits in Keras 3, and SavedModels of both releases of Keras."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cirq
import keras
import numpy as np
import pytest
import sympy
import tensorflow as tf
import tf_keras

import qcnn
import qcnn.keras
from qcnn.circuits.ansatz import ring
from qcnn.circuits.circuits import hybrid
from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError
from qcnn.testing.cirq_readouts import readouts_of_samples

ROWS = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
LABELS = (ROWS[:, 0] * ROWS[:, 1] > 0).astype(np.float32)


def _model(library: Any, layer: Any) -> Any:
    """Return a classical layer before two circuits: inputs of one, and amplitudes of the other."""
    given = library.Input((5,))
    angles = layer("hybrid", 4, encoding="ry", seed=1)(library.layers.Dense(4, kernel_initializer="ones")(given))
    states = layer("deep", 4, encoding="amplitude", seed=2)(library.layers.Dense(9, kernel_initializer="ones")(given))
    both = library.layers.Concatenate()([angles, states])
    model = library.Model(given, library.layers.Dense(1, kernel_initializer="ones")(both))
    model.compile("adam", "mse")
    return model


def test_readouts_of_keras_3_equal_cirq() -> None:
    layer = qcnn.keras.QuantumLayer("hybrid", 4, encoding="ry", precision="complex128", dtype="float64", seed=3)
    angles = np.random.default_rng(2).uniform(-3, 3, (3, 4))
    found = layer(angles)
    expected = readouts_of_samples(hybrid(ring(4)), 4, layer.parameters.numpy(), Preparation("ry", 4), angles)
    np.testing.assert_allclose(found, expected, atol=1e-12)


# Keras 3 converts TensorFlow's variables so.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_model_of_keras_3_is_trained_saved_and_loaded(tmp_path: Path) -> None:
    model = _model(keras, qcnn.keras.QuantumLayer)
    before = [weights.copy() for weights in model.get_weights()]
    losses = model.fit(ROWS, LABELS, epochs=3, batch_size=20, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    # The weights of the classical layers before the circuits have gradients, too.
    assert all(np.abs(new - old).max() > 0 for new, old in zip(model.get_weights(), before, strict=True))
    model.save(tmp_path / "model.keras")
    # The default of safe_mode allows the circuit, which is text.
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(ROWS, verbose=0), model.predict(ROWS, verbose=0))
    (layer, *_) = [each for each in model.layers if isinstance(each, qcnn.keras.CircuitLayer)]
    config = {**layer.get_config(), "circuit": "os:getcwd"}
    with pytest.raises((ConfigError, TypeError), match=r"circuit: must be the text of an embedded circuit"):
        qcnn.keras.CircuitLayer.from_config(config)


def test_gradients_of_both_releases_are_equal() -> None:
    x, w = sympy.symbols("x w")
    (qubit,) = cirq.LineQubit.range(1)
    circuit = qcnn.Ansatz(cirq.Circuit(cirq.rx(w * x)(qubit)), (w,), [qubit], (x,))
    for layer in (qcnn.keras.QuantumLayer(circuit, seed=1), qcnn.QuantumLayer(circuit, seed=1)):
        rows = tf.constant([[0.4], [1.5]], tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(rows)
            values = layer(rows)
        (value,), angles = layer.get_weights()[0], rows.numpy()
        np.testing.assert_allclose(values, np.cos(value * angles), atol=1e-6)
        np.testing.assert_allclose(tape.gradient(values, rows), -value * np.sin(value * angles), atol=1e-6)


@pytest.mark.long
def test_saved_models_predict_without_qcnn(tmp_path: Path) -> None:
    """The simulator of the layers has compiled kernels, which the loading process does not."""
    x, w = sympy.symbols("x w")
    one, other = cirq.LineQubit.range(2)
    gates = [cirq.ry(w)(one), cirq.CNOT(one, other)]
    with_input = qcnn.Ansatz(cirq.Circuit(cirq.rx(w * x)(other), gates), (w,), [other], (x,))
    of_states = qcnn.Ansatz(cirq.Circuit(gates), (w,), [other])
    models = {}
    for library, layer in ((keras, qcnn.keras.QuantumLayer), (tf_keras, qcnn.QuantumLayer)):
        dense = library.layers.Dense
        layers = [dense(3), layer(of_states, encoding="amplitude"), dense(1), layer(with_input), dense(1)]
        models[library.__name__] = library.Sequential([library.Input((5,)), *layers])
    np.save(tmp_path / "rows.npy", ROWS)
    for name, model in models.items():
        model.export(str(tmp_path / name / "export"))
        tf.saved_model.save(model, str(tmp_path / name / "save"))
    program = (
        "import sys, numpy, tensorflow as tf\n"
        "rows = tf.constant(numpy.load('rows.npy'))\n"
        "for name in sys.argv[1:]:\n"
        "    function = tf.saved_model.load(name).signatures['serving_default']\n"
        "    numpy.save(name.replace('/', '-'), list(function(rows).values())[0])\n"
        "assert 'qcnn' not in sys.modules\n"
    )
    saved = [f"{name}/{way}" for name in models for way in ("export", "save")]
    subprocess.run([sys.executable, "-c", program, *saved], cwd=tmp_path, check=True, capture_output=True)
    for each in saved:
        expected = models[each.split("/")[0]].predict(ROWS, verbose=0)
        np.testing.assert_allclose(np.load(tmp_path / f"{each.replace('/', '-')}.npy"), expected, atol=1e-5)


@pytest.mark.parametrize(("backend", "given"), [("numpy", "'numpy'"), ("nothing", "'nothing'")])
def test_another_backend_of_keras_is_one_clear_error(backend: str, given: str) -> None:
    program = "import qcnn\ntry:\n    qcnn.keras\nexcept qcnn.ConfigError as error:\n    print(error)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("KERAS_BACKEND: must be tensorflow")
    assert line.endswith(f"Given: {given}")
