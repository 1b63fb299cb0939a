"""Cross-entropy of class probabilities and its gradient, compared with Cirq's readouts and with its formula."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.circuits import circuits
from qcnn.circuits.ansatz import ring
from qcnn.circuits.observables import parse
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.batches import shard
from qcnn.model.heads import head_of
from qcnn.model.losses import correct, losses
from qcnn.model.network import build_model
from qcnn.model.steps import gradient_of
from qcnn.simulators import batch_of
from qcnn.testing.cirq_readouts import readouts_of_batch

Floats = npt.NDArray[np.float64]


def _rows(path: Path, classes: list[str]) -> str:
    """Write rows of two features with random classes, and return the path."""
    random = np.random.default_rng(3)
    rows = enumerate(random.random((40, 2)))
    lines = [f"{x:.3f},{y:.3f},{classes[number % len(classes)]}" for number, (x, y) in rows]
    path.write_text("\n".join(["x,y,label", *lines]) + "\n")
    return str(path)


def _cross_entropy(config: ExperimentConfig, samples: data.Samples, weights: list[Floats]) -> float:
    """Return the mean cross-entropy, with readouts by Cirq."""
    ansatz = circuits.build(config.model, config.qubits)

    def readouts(inputs: dict[str, Any]) -> Floats:
        batch = batch_of(config.preparation, {name: tf.constant(values) for name, values in inputs.items()})
        return readouts_of_batch(ansatz, config.qubits, weights[0], config.preparation, batch)

    values = readouts(dict(samples.inputs))
    if config.options.head == "softmax":
        powers = np.exp(values / config.options.temperature)
        probabilities = powers / powers.sum(axis=1, keepdims=True)
    elif len(weights) == 1:
        probabilities = np.concatenate([1 - values, 1 + values], axis=1) / 2
    else:
        if config.preparation.kind != "state":
            values = values - readouts({name: np.zeros_like(each[:1]) for name, each in samples.inputs.items()})
        for kernel, bias in zip(weights[1::2], weights[2::2], strict=True):
            values = values @ kernel + bias
        powers = np.exp(values)
        probabilities = powers / powers.sum(axis=1, keepdims=True)
    return float(-np.log(probabilities[np.arange(len(samples)), samples.label]).mean())


@pytest.mark.parametrize(
    ("fields", "classes"),
    [
        ({"model": "deep", "rounds": 6}, []),
        ({"model": "hybrid", "rounds": 6}, []),
        ({"model": "deep", "encoding": "ry"}, ["cat", "dog"]),
        ({"model": "deep", "encoding": "ry"}, ["cat", "dog", "emu"]),
        ({"model": "hybrid", "encoding": "rx"}, ["3", "1", "2", "10"]),
        ({"model": "deep", "encoding": "amplitude"}, ["cat", "dog"]),
        ({"model": "hybrid", "encoding": "amplitude"}, ["cat", "dog", "emu"]),
        ({"model": "hybrid", "rounds": 6, "head": "softmax"}, []),
        ({"model": "hybrid", "encoding": "ry", "qubits": 6, "head": "softmax"}, ["cat", "dog", "emu"]),
        (
            {"model": "hybrid", "encoding": "ry", "qubits": 6, "head": "softmax", "temperature": 0.2},
            ["cat", "dog", "emu"],
        ),
    ],
)
def test_loss_and_gradient_equal_cirq(tmp_path: Path, fields: dict[str, Any], classes: list[str]) -> None:
    source = {"data": _rows(tmp_path / "rows.csv", classes)} if classes else {}
    config = from_mapping({"qubits": 4, "loss": "cross_entropy", "workers": 1, **fields, **source})
    dataset = data.generate(config)
    config = data.with_file_metadata(config, dataset)
    model, samples = build_model(config), dataset.train
    random = np.random.default_rng(1)
    weights = [random.normal(size=variable.shape) for variable in model.trainable_variables]
    arrays = {name: tf.constant(array[0, 0]) for name, array in shard(samples, len(samples), 1).arrays.items()}
    found = gradient_of(model)([tf.constant(each) for each in weights], **arrays).numpy()
    *gradient, loss, _ = found
    assert loss == pytest.approx(_cross_entropy(config, samples, weights), rel=1e-6)
    direction = [random.choice([-1.0, 1.0], each.shape) for each in weights]
    step = 1e-4

    def loss_at(steps: float) -> float:
        moved = [each + steps * step * along for each, along in zip(weights, direction, strict=True)]
        return _cross_entropy(config, samples, moved)

    near, far = (loss_at(steps) - loss_at(-steps) for steps in (1, 2))
    slope = np.concatenate([each.ravel() for each in direction]) @ np.array(gradient)
    assert slope == pytest.approx((8 * near - far) / (12 * step), rel=1e-5, abs=1e-6)


def test_probability_below_the_minimum_has_its_loss_and_no_gradient() -> None:
    probabilities = tf.Variable([[1 - 1e-12, 1e-12], [0.25, 0.75]], dtype=tf.float64)
    with tf.GradientTape() as tape:
        found = losses(tf.constant([1.0, 1.0], tf.float64), tf.convert_to_tensor(probabilities))
    np.testing.assert_allclose(found, -np.log(np.array([1e-9, 0.75])), rtol=1e-12)
    np.testing.assert_allclose(tape.gradient(found, probabilities), [[0.0, 0.0], [0.0, -4 / 3]], rtol=1e-12)


def test_undetermined_class_counts_as_wrong() -> None:
    outputs = tf.constant([[0.5, 0.5, 0.0], [0.4, 0.3, 0.3], [0.2, 0.4, 0.4]], tf.float64)
    label = tf.constant([0.0, 0.0, 2.0], tf.float64)
    assert correct(label, outputs, 1e-9).numpy().tolist() == [False, True, False]


ONE, FOUR = ring(1), ring(4)


def test_head_is_expectation_only_for_two_classes_and_one_readout() -> None:
    two, three = (
        from_mapping({"data": "a.csv", "encoding": "ry", "loss": "cross_entropy", "classes": count}) for count in (2, 3)
    )
    assert (head_of(two, ONE), head_of(two, FOUR), head_of(three, ONE)) == ("expectation", "dense", "dense")
    assert (head_of(from_mapping({}), ONE), head_of(from_mapping({}), FOUR)) == ("expectation", "dense")
    assert head_of(from_mapping({"head": "dense"}), ONE) == "dense"
    message = r"^head: must be auto or dense with the 4 readouts of model hybrid\. Given: expectation$"
    with pytest.raises(ConfigError, match=message):
        head_of(from_mapping({"head": "expectation"}), FOUR)


def test_sum_beyond_one_has_no_head_expectation_with_classes() -> None:
    fields = {"data": "a.csv", "encoding": "ry", "loss": "cross_entropy", "classes": 2}
    wide, narrow = parse("Z0 + 0.5*X1"), parse("0.4*Z0 + 0.6*X1")
    assert (head_of(from_mapping(fields), wide), head_of(from_mapping(fields), narrow)) == ("dense", "expectation")
    with pytest.raises(ConfigError, match=r"^head: must be auto or dense unless .* sum to at most 1"):
        head_of(from_mapping({**fields, "head": "expectation"}), wide)
    assert head_of(from_mapping({}), wide) == "expectation"


def test_more_classes_than_bit_strings_are_one_clear_error() -> None:
    fields = {"data": "a.csv", "encoding": "ry", "loss": "cross_entropy", "head": "probabilities"}
    assert head_of(from_mapping({**fields, "classes": 4}), ring(2)) == "probabilities"
    with pytest.raises(
        ConfigError, match=r"^head: must be auto or dense with 5 classes and 2 readouts .* 4 bit strings"
    ):
        head_of(from_mapping({**fields, "classes": 5}), ring(2))


def test_softmax_needs_a_readout_of_each_class() -> None:
    fields = {"data": "a.csv", "encoding": "ry", "loss": "cross_entropy", "head": "softmax"}
    # The number of classes is 0 until the file is read.
    assert head_of(from_mapping(fields), FOUR) == head_of(from_mapping({**fields, "classes": 4}), FOUR) == "softmax"
    message = (
        r"^head: must be auto, probabilities or dense unless model hybrid has one readout per class\. "
        r"Given: softmax with 3 classes and 4 readouts$"
    )
    with pytest.raises(ConfigError, match=message):
        head_of(from_mapping({**fields, "classes": 3}), FOUR)
    with pytest.raises(ConfigError, match=r"^head: must be auto, expectation or dense unless loss is cross_entropy"):
        from_mapping({"head": "softmax"})
