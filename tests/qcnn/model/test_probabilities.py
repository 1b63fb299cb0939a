"""Joint probabilities of the readouts as class probabilities, compared with Cirq, exact and from shots."""

from pathlib import Path

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.circuits import circuits
from qcnn.circuits.noise import parse as parse_noise
from qcnn.circuits.sample_circuits import data_state, noisy_circuit
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.array_layers import joint_kernel
from qcnn.model.batches import shard
from qcnn.model.network import build_model
from qcnn.model.shots import sample_jointly
from qcnn.model.steps import gradient_of
from qcnn.results.serving import ServableModel
from tests.class_runs import rows_of

Floats = npt.NDArray[np.float64]
QUBITS = 6


def _config(path: Path, **fields: object) -> ExperimentConfig:
    names = ["a", "b", "c", "d", "e"]
    path.write_text(rows_of(names))
    base = {"qubits": QUBITS, "data": str(path), "encoding": "ry", "loss": "cross_entropy", "head": "probabilities"}
    config = from_mapping({**base, "num_initializations": 1, "max_samples": 150, **fields})
    return data.with_file_metadata(config, data.read(config))


def _probabilities(config: ExperimentConfig, parameters: Floats, features: Floats, noise: str = "") -> Floats:
    """Return the probabilities of the bit strings of the readouts by Cirq, (samples, 2^readouts)."""
    ansatz, ring = circuits.build(config.model, QUBITS), circuits.ring(QUBITS)
    found = []
    for row in features:
        prepared = data_state(config.preparation, ring, row.tolist())
        result = cirq.DensityMatrixSimulator(dtype=np.complex128).simulate(
            noisy_circuit(ansatz, prepared, parse_noise(noise)),
            dict(zip(ansatz.symbols, parameters.tolist(), strict=True)),
            qubit_order=ring,
        )
        density = result.final_density_matrix.reshape((2,) * (2 * QUBITS))
        axes = [number for readout in ansatz.readouts for number, qubit in enumerate(ring) if qubit == readout]
        diagonal = np.real(np.einsum(density, [*range(QUBITS), *range(QUBITS)], axes))
        found.append(diagonal.ravel())
    return np.array(found)


def _padded(config: ExperimentConfig, samples: data.Samples) -> Floats:
    features = samples.inputs["features"].astype(np.float64)
    assert features.shape[1] == config.preparation.features
    return features


@pytest.mark.parametrize("noise", ["", "depolarizing.two=0.05,readout=0.1"])
def test_class_probabilities_equal_those_of_bit_strings(tmp_path: Path, noise: str) -> None:
    config = _config(tmp_path / "rows.csv", noise=noise)
    dataset, model = data.read(config), build_model(config)
    samples = dataset.test
    outputs = model({name: tf.constant(values[:3]) for name, values in samples.inputs.items()}).numpy()
    expected = _probabilities(config, model.get_weights()[0], _padded(config, samples)[:3], noise)
    assert outputs.shape == (3, 5)
    assert expected.shape == (3, 8)
    np.testing.assert_allclose(outputs, expected[:, :5], atol=1e-6)


@pytest.mark.parametrize("temperature", [1, 0.5, 3.0])
def test_loss_and_gradient_equal_finite_differences_of_cirq(tmp_path: Path, temperature: float) -> None:
    config = _config(tmp_path / "rows.csv", temperature=temperature)
    dataset, model = data.read(config), build_model(config)
    samples = data.Samples({name: values[:4] for name, values in dataset.train.inputs.items()}, dataset.train.label[:4])
    features, labels = _padded(config, samples), samples.label.astype(int)

    def loss(parameters: Floats) -> float:
        powers = _probabilities(config, parameters, features) ** (1 / temperature)
        return float(np.mean(-np.log((powers / powers.sum(axis=1, keepdims=True))[np.arange(4), labels])))

    values = model.get_weights()[0]
    direction = np.random.default_rng(1).choice([-1.0, 1.0], len(values)) / np.sqrt(len(values))
    slope = (loss(values + 1e-4 * direction) - loss(values - 1e-4 * direction)) / 2e-4
    arrays = {name: tf.constant(array[0, 0]) for name, array in shard(samples, 4, 1).arrays.items()}
    *gradient, found, _ = gradient_of(model)([tf.constant(values)], **arrays).numpy()
    np.testing.assert_allclose(found, loss(values), rtol=1e-5)
    np.testing.assert_allclose(np.array(gradient) @ direction, slope, atol=1e-5)


@pytest.mark.parametrize(
    "fields",
    [
        {"qubits": 6, "head": "probabilities"},
        {"qubits": 6, "head": "probabilities", "temperature": 0.5},
        {"qubits": 4, "head": "softmax"},
        {"qubits": 4, "head": "softmax", "temperature": 0.2},
    ],
)
def test_table_of_excitations_equals_the_network(fields: dict[str, object]) -> None:
    fields = {"loss": "cross_entropy", "rounds": 10, **fields}
    config = from_mapping(fields)
    model = build_model(config)
    samples = data.generate(config).test
    inputs = {name: tf.constant(values[:7]) for name, values in samples.inputs.items()}
    served = ServableModel(model, classes=("-1", "+1"))
    found = served.predict(**inputs)["probabilities"].numpy()
    np.testing.assert_allclose(found, model(inputs).numpy(), atol=1e-6)


def test_shots_are_joint_counts_of_all_readouts() -> None:
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(8), size=3)
    kernel, _ = joint_kernel(7, 8)
    strings = tf.constant(probabilities @ (8 * kernel.T))
    shots, repetitions = 50, 4000
    draw = tf.constant([shots, 0, 5, 6], tf.int64)
    repeated = tf.repeat(strings, repetitions, axis=0)
    estimates = sample_jointly(repeated, draw).numpy()
    counts = (estimates @ kernel + 1 / 8) * shots
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)
    np.testing.assert_allclose(counts.sum(axis=1), shots)
    assert counts.min() > -1e-6
    for number, each in enumerate(probabilities):
        own = counts[number * repetitions : (number + 1) * repetitions]
        np.testing.assert_allclose(own.mean(axis=0) / shots, each, atol=5 * np.sqrt(0.25 / shots / repetitions))
        covariance = shots * (np.diag(each) - np.outer(each, each))
        np.testing.assert_allclose(np.cov(own.T), covariance, atol=0.06 * shots / 4)
    # Replicas draw the same numbers for their samples.
    later = sample_jointly(repeated[10:20], tf.constant([shots, 10, 5, 6], tf.int64)).numpy()
    np.testing.assert_array_equal(later, estimates[10:20])


def test_gradient_of_shots_is_that_of_the_expectation_values() -> None:
    strings = tf.constant(np.random.default_rng(0).uniform(-0.1, 0.1, (2, 3)))
    with tf.GradientTape() as tape:
        tape.watch(strings)
        total = tf.reduce_sum(sample_jointly(strings, tf.constant([10, 0, 1, 2], tf.int64)))
    np.testing.assert_array_equal(tape.gradient(total, strings), np.ones((2, 3)))


def test_probabilities_need_few_qubits_as_readouts(tmp_path: Path) -> None:
    message = (
        r"^head: must be auto or dense unless the readouts are 1 to 7 qubits\. Given: probabilities with 8 readouts"
    )
    with pytest.raises(ConfigError, match=message):
        build_model(_config(tmp_path / "rows.csv", qubits=16))
    with pytest.raises(ConfigError, match=r"^head: must be auto, expectation or dense unless loss is cross_entropy"):
        from_mapping({"head": "probabilities"})
