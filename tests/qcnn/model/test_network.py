"""Sampled readouts: unbiased, reproducible, and independent of the number of replicas."""

import csv
import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import sympy
import tensorflow as tf
import tf_keras

from qcnn import data, simulators
from qcnn.circuits import circuits
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints, steps
from qcnn.model.batches import Shards, shard
from qcnn.model.network import assemble, build_model, dense_layers
from qcnn.model.optimizer import assign
from qcnn.model.shots import sample
from qcnn.model.steps import gradient_of
from qcnn.results import evaluate, export
from qcnn.trainer import loop
from qcnn.trainer.state import TrainingState
from tests import reference
from tests.shared_training_runs import SMALL, assert_same_training, copy_checkpoint, outcomes, train

Floats = npt.NDArray[np.float64]

QUBITS = 4
# Every qubit at five angles. All seeds are fixed, so bounds of 4 sigma are deterministic.
EXCITED = np.repeat(np.arange(QUBITS, dtype=np.int32), 5)
ANGLES = np.random.default_rng(1).uniform(-np.pi, np.pi, len(EXCITED)).astype(np.float32)
PARAMETERS = np.random.default_rng(2).uniform(0, 2, 21)


def _config(shots: int, **words: object) -> ExperimentConfig:
    return from_mapping({**SMALL, "options": {**SMALL["options"], "shots": shots}, **words})


_sample = tf.function(sample, reduce_retracing=True)


def _estimates(expectations: Floats, shots: int, seed: npt.NDArray[np.int64]) -> Floats:
    estimates: Floats = _sample(tf.constant(expectations), tf.constant([shots, 0, *seed], tf.int64)).numpy()
    return estimates


def _predictions(model: tf_keras.Model, samples: data.Samples, shots: int, seed: npt.NDArray[np.int64]) -> Floats:
    """Return predictions of a batch from sampled readouts, computed with NumPy."""
    readouts, unexcited = model.get_layer("quantum").strings(samples.inputs)
    values: Floats = _estimates(readouts.numpy(), shots, seed) - unexcited.numpy()
    for layer in dense_layers(model):
        values = values @ layer.kernel.numpy() + layer.bias.numpy()
    predictions: Floats = values[:, 0]
    return predictions


@pytest.fixture(scope="module")
def quantum() -> tf_keras.layers.Layer:
    words = {**SMALL, "qubits": QUBITS, "options": {"readout_normalization": "none"}}
    layer = build_model(from_mapping(words)).get_layer("quantum")
    layer.parameters.assign(PARAMETERS)
    return layer


@pytest.fixture(scope="module")
def exact() -> Floats:
    """Z on the readouts, computed by Cirq, (samples, readouts)."""
    samples = zip(EXCITED.tolist(), ANGLES.tolist(), strict=True)
    return np.array([reference.expectations("hybrid", QUBITS, PARAMETERS, q, angle) for q, angle in samples])


@pytest.mark.parametrize("shots", [1, 10, 100, 10**4, 10**6])
def test_sample_has_binomial_mean_and_variance(quantum: tf_keras.layers.Layer, exact: Floats, shots: int) -> None:
    repeated = np.tile(quantum({"qubit": EXCITED, "angle": ANGLES}).numpy(), (100, 1))
    seeds = data.shot_seeds("train", 0, 1, 50)
    drawn = np.array([_estimates(repeated, shots, seed).reshape(100, *exact.shape) for seed in seeds])
    drawn = drawn.reshape(-1, *exact.shape)
    variance = (1 - exact**2) / shots
    assert (np.abs(drawn.mean(axis=0) - exact) < 4 * np.sqrt(variance / len(drawn))).all()
    # Variance of the sample variance, from the fourth moment of the binomial distribution.
    kurtosis = (4 / (1 - exact**2) - 6) / shots
    spread = np.sqrt((2 + kurtosis) / len(drawn))
    assert (np.abs(((drawn - exact) ** 2).mean(axis=0) / variance - 1) < 4 * spread).all()


def test_sample_readouts_and_samples_are_independent() -> None:
    drawn = np.array([_estimates(np.zeros((3, 2)), 100, seed).ravel() for seed in data.shot_seeds("train", 0, 1, 2000)])
    correlation = np.corrcoef(drawn.T) - np.eye(6)
    assert np.abs(correlation).max() < 4 / np.sqrt(2000)


@pytest.mark.parametrize("shots", [1, 3, 1000, 10**9])
def test_sample_certain_readouts_beyond_1_are_exact(shots: int) -> None:
    certain = np.array([[1.0, -1.0], [1 + 1e-6, -1 - 1e-6]] * 100)
    np.testing.assert_allclose(_estimates(certain, shots, np.array([5, 6])), np.sign(certain), rtol=1e-15)
    near = np.array([[1 - 1e-7, -1 + 1e-7]] * 100)
    estimates = _estimates(near, shots, np.array([5, 6]))
    assert (np.abs(estimates) <= 1).all()
    np.testing.assert_allclose(estimates, near, atol=1e-6)


def test_sample_estimate_is_fraction_of_shots(exact: Floats) -> None:
    ones = (_estimates(exact, 7, np.array([1, 2])) + 1) * 7 / 2
    np.testing.assert_allclose(ones, np.round(ones), atol=1e-12)
    assert len(np.unique(np.round(ones))) > 3


def test_sample_gradient_equals_exact_gradient(quantum: tf_keras.layers.Layer) -> None:
    upstream = tf.constant(np.random.default_rng(3).normal(size=(len(EXCITED), 2)))
    gradients = []
    for shots in (0, 10):
        with tf.GradientTape() as tape:
            readouts = quantum({"qubit": EXCITED, "angle": ANGLES})
            if shots:
                readouts = sample(readouts, tf.constant([shots, 0, 1, 2], tf.int64))
            total = tf.reduce_sum(upstream * readouts)
        gradients.append(tape.gradient(total, quantum.parameters).numpy())
    assert np.abs(gradients[0]).max() > 0.1
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-12)


@pytest.mark.parametrize("replicas", [2, 3, 5])
@pytest.mark.parametrize("count", [6, 31, 97])
def test_sample_does_not_depend_on_replicas(count: int, replicas: int) -> None:
    samples = data.sample_excitations(count, 1, seed=0)
    # Readouts depend only on the sample, which its qubit identifies.
    readouts = np.random.default_rng(4).uniform(-1, 1, (count, 3))

    def drawn(replicas: int) -> Floats:
        result = np.full_like(readouts, np.nan)
        shards = shard(samples, 32, replicas)
        seeds = data.shot_seeds("train", 0, 1, len(shards.sizes))
        for qubit, _, _, weight, draw in zip(
            *(array.reshape(-1, array.shape[-1]) for array in shards.sampled(50, seeds).arrays.values()), strict=True
        ):
            real = weight > 0
            result[qubit[real]] = sample(tf.constant(readouts[qubit]), tf.constant(draw)).numpy()[real]
        return result

    np.testing.assert_array_equal(drawn(replicas), drawn(1))


def test_shot_seeds_differ_by_split_seed_epoch_and_batch() -> None:
    streams = itertools.product(("train", "validation", "test"), (0, 1), (0, 1, 2))
    seeds = np.concatenate([data.shot_seeds(split, seed, epoch, 10) for split, seed, epoch in streams])
    assert len({tuple(seed) for seed in seeds.tolist()}) == 180
    drawn = {tuple(_estimates(np.zeros((5, 1)), 10**6, seed).ravel()) for seed in seeds[::10]}
    assert len(drawn) == 18
    # The first seeds do not depend on the number of batches.
    np.testing.assert_array_equal(data.shot_seeds("train", 7, 3, 4), data.shot_seeds("train", 7, 3, 9)[:4])


def test_train_with_shots_has_losses_of_sampled_readouts(small_dataset: data.Dataset, tmp_path: Path) -> None:
    """One update is computed with NumPy from the seeds of the training and validation streams."""
    config = _config(20, epochs=1, batch_size=len(small_dataset.train), optimizer="sgd", learning_rate=0.1)
    (epoch,) = train(config, small_dataset, tmp_path)
    model = build_model(config)
    samples = small_dataset.train.take(data.epoch_order(config.seed, 1, len(small_dataset.train)))
    for split, batch, loss in (
        ("train", samples, epoch.train_loss),
        ("validation", small_dataset.validation, epoch.val_loss),
    ):
        predictions = _predictions(model, batch, 20, data.shot_seeds(split, config.seed, 1, 1)[0])
        assert loss == pytest.approx(np.mean((predictions - batch.label) ** 2), rel=1e-6)
        checkpoint = checkpoints.load_latest(tmp_path / "checkpoints")
        assert checkpoint
        assign(model.trainable_variables, checkpoint.line.weights)


def test_train_with_shots_samples_every_epoch_differently(small_dataset: data.Dataset, tmp_path: Path) -> None:
    """With constant weights, losses differ only by the sampled shots."""
    count = len(small_dataset.train)
    config = _config(20, batch_size=count, optimizer="sgd", learning_rate=1e-300)
    history = train(config, small_dataset, tmp_path)
    assert len({epoch.val_loss for epoch in history}) == 3
    model = build_model(config)
    for epoch in history:
        batch = small_dataset.train.take(data.epoch_order(config.seed, epoch.epoch, count))
        predictions = _predictions(model, batch, 20, data.shot_seeds("train", config.seed, epoch.epoch, 1)[0])
        assert epoch.train_loss == pytest.approx(np.mean((predictions - batch.label) ** 2), rel=1e-6)


@pytest.fixture(scope="module")
def sampled(small_dataset: data.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read-only folder of a training run with 20 shots."""
    folder = tmp_path_factory.mktemp("sampled")
    train(_config(20), small_dataset, folder)
    return folder


def _outcomes(folder: Path) -> list[tuple[float, ...]]:
    checkpoint = checkpoints.load_latest(folder / "checkpoints")
    assert checkpoint
    return outcomes(checkpoint.history)


def test_train_with_shots_resumes_bit_identically(small_dataset: data.Dataset, sampled: Path, tmp_path: Path) -> None:
    copy_checkpoint(sampled, 2, tmp_path)
    train(_config(20), small_dataset, tmp_path)
    assert_same_training(sampled, tmp_path)


def test_train_with_many_shots_approaches_exact_training(
    small_dataset: data.Dataset, trained: Path, sampled: Path, tmp_path: Path
) -> None:
    expected, few = ([loss for _, loss, *_ in _outcomes(folder)] for folder in (trained, sampled))
    # The loss is of 28 samples and 2 readouts, each accurate to 3e-5.
    many = [epoch.train_loss for epoch in train(_config(10**9), small_dataset, tmp_path)]
    np.testing.assert_allclose(many, expected, rtol=1e-4)
    assert np.abs(np.array(few) / expected - 1).max() > 1e-2


def test_train_with_shots_mirrored_equals_single(small_dataset: data.Dataset, sampled: Path, tmp_path: Path) -> None:
    mirrored = outcomes(train(_config(20, strategy="mirrored"), small_dataset, tmp_path))
    np.testing.assert_allclose(mirrored, _outcomes(sampled), rtol=1e-9)


def test_train_without_shots_does_not_sample(
    small_config: ExperimentConfig, small_dataset: data.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Any call of None fails.
    monkeypatch.setattr("qcnn.model.steps.sampled_outputs", None)
    # `loop.train` traces a new program.
    assert loop.train(small_config.model_copy(update={"epochs": 1}), small_dataset, tmp_path)
    assert len(shard(small_dataset.train, 8, 1).arrays) == 4


def test_train_with_shots_shards_by_sample(small_dataset: data.Dataset, tmp_path: Path) -> None:
    words = {**SMALL, "simulator": "statevector", "batch_size": 32}
    counted = {}
    for shots in (0, 50):
        config = from_mapping({**words, "options": {**SMALL["options"], "shots": shots}})
        training = TrainingState(config, small_dataset, None, tf.distribute.get_strategy(), None)
        counted[shots] = config.model_copy(update={"workers": 2}).limits
        shards_by_qubit = {
            replicas: training.make_shards(small_dataset.train, replicas).own is not None for replicas in (1, 2)
        }
        assert shards_by_qubit == {1: False, 2: not shots}
    assert (counted[0].batch, counted[0].replicas) == (32, 2)
    assert (counted[50].batch, counted[50].replicas) == (16, 1)


@pytest.mark.parametrize(("trained_with", "given"), [(20, 0), (20, 30), (0, 20)])
def test_resume_with_other_shots_raises(
    small_dataset: data.Dataset, trained: Path, tmp_path: Path, trained_with: int, given: int
) -> None:
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    checkpoints.save(
        dataclasses.replace(checkpoint.with_epochs(), config=_config(trained_with)), tmp_path / "checkpoints"
    )
    message = f"^shots: the folder's checkpoint was trained with {trained_with}; .* Given: {given}$"
    with pytest.raises(ArtifactError, match=message):
        train(_config(given), small_dataset, tmp_path)


@pytest.fixture(scope="module")
def measured(sampled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folder of a training run with shots."""
    folder = tmp_path_factory.mktemp("measured") / "model"
    export.export(sampled, folder)
    return folder


def test_evaluate_with_shots_has_sampled_and_exact_metrics(
    measured: Path, small_dataset: data.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two batches, the second with two samples.
    monkeypatch.setattr("qcnn.results.evaluate._BATCH", 4)
    evaluation = evaluate.evaluate(measured, small_dataset)
    model, description = export.load(measured)
    split = small_dataset.test
    parts = (split.take(np.arange(4)), split.take(np.arange(4, len(split))))
    seeds = data.shot_seeds("test", description["experiment"]["seed"], 0, 2)
    expected = [_predictions(model, part, 20, seed) for part, seed in zip(parts, seeds, strict=True)]
    np.testing.assert_allclose(evaluation.predictions, np.concatenate(expected), rtol=1e-9)
    exact = evaluate.predict(model, split)
    metrics = evaluation.metrics
    assert metrics["mse"] == pytest.approx(np.mean((evaluation.predictions - split.label) ** 2))
    assert metrics["accuracy"] == np.mean((evaluation.predictions >= 0) == (split.label > 0))
    assert metrics["exact_mse"] == pytest.approx(np.mean((exact - split.label) ** 2))
    assert metrics["exact_accuracy"] == np.mean((exact >= 0) == (split.label > 0))
    assert metrics["mse"] != pytest.approx(metrics["exact_mse"], rel=1e-3)
    assert evaluate.evaluate(measured, small_dataset).metrics == metrics
    evaluate.save_predictions(evaluation, tmp_path / "predictions")
    with (tmp_path / "predictions" / "predictions.csv").open() as file:
        saved = [float(row["prediction"]) for row in csv.DictReader(file)]
    assert saved == evaluation.predictions.tolist()


def test_saved_model_with_shots_is_exact(measured: Path, small_dataset: data.Dataset) -> None:
    model, _ = export.load(measured)
    split = small_dataset.test
    serve = tf.saved_model.load(str(measured / "saved_model")).signatures["serving_default"]
    served = serve(qubit=tf.constant(split.qubit), angle=tf.constant(split.angle))["prediction"]
    np.testing.assert_allclose(served, evaluate.predict(model, split), atol=1e-5)


def test_evaluate_without_shots_has_no_exact_metrics(model_folder: Path, small_dataset: data.Dataset) -> None:
    assert not [name for name in evaluate.evaluate(model_folder, small_dataset).metrics if "exact" in name]


@pytest.fixture(scope="module")
def shifted() -> tf_keras.Model:
    """Network of few gates with a parameter-shift gradient."""
    ring, (s, t) = circuits.ring(4), sympy.symbols("s t")
    # These gates leave the cluster state, in which all Z are 0.
    gates = [cirq.CZ(ring[1], ring[0]), cirq.CZ(ring[3], ring[0]), cirq.Y(ring[0]) ** s, cirq.Y(ring[2]) ** t]
    gates += [cirq.XX(ring[0], ring[2]) ** (2 * t - s), cirq.ISWAP(ring[0], ring[1]) ** s]
    ansatz = circuits.Ansatz(cirq.Circuit(gates), (s, t), (ring[0], ring[1]))
    config = _config(50)
    simulator = simulators.create("statevector", ansatz, ring, config.limits, gradient="parameter_shift")
    model = assemble(config, ansatz, simulator)
    model.get_layer("quantum").parameters.assign([0.3, 0.6])
    return model


def _gradients(model: tf_keras.Model, shards: Shards, replicas: int) -> Floats:
    """Return the sum over replicas of the gradient in the quantum parameters of each step, (steps, parameters)."""
    gradient = tf.function(gradient_of(model), autograph=False, reduce_retracing=True)
    weights = [tf.convert_to_tensor(variable) for variable in model.trainable_variables]
    arrays = shards.arrays
    return np.array(
        [
            sum(
                gradient(weights, **{name: array[step, row] for name, array in arrays.items()})[:2].numpy()
                for row in range(replicas)
            )
            for step in range(len(shards.sizes))
        ]
    )


def test_network_without_gradient_is_not_trained_silently(
    shifted: tf_keras.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a simulator that is no TensorFlow operation."""
    monkeypatch.setattr(steps, "_measures", lambda *_, **__: tf.constant([1.0, 1.0]))
    with pytest.raises(ValueError, match="None"):
        gradient_of(shifted)([tf.convert_to_tensor(variable) for variable in shifted.trainable_variables])


def test_parameter_shift_sampled_gradient_is_unbiased(shifted: tf_keras.Model) -> None:
    batch = data.sample_excitations(4, 2, seed=3)
    (exact,) = _gradients(shifted, shard(batch, 8, 1), 1)
    draws = 200
    # The same batch is repeated for each draw, with a different seed.
    shards = shard(batch.take(np.tile(np.arange(8), draws)), 8, 1)
    found = _gradients(shifted, shards.sampled(50, data.shot_seeds("train", 1, 1, draws)), 1)
    error = found.std(axis=0) / np.sqrt(draws)
    assert (np.abs(found.mean(axis=0) - exact) < 3 * error).all()
    # The error must be small relative to the gradient for the test to be significant.
    assert (error < 0.3 * np.abs(exact)).all()
    assert (found.std(axis=0) > 0.05 * np.abs(exact)).all()


@pytest.mark.parametrize("replicas", [2, 3])
def test_parameter_shift_does_not_depend_on_replicas(shifted: tf_keras.Model, replicas: int) -> None:
    batch, seeds = data.sample_excitations(4, 5, seed=3), data.shot_seeds("train", 1, 1, 3)
    alone, shared = (_gradients(shifted, shard(batch, 8, count).sampled(20, seeds), count) for count in (1, replicas))
    np.testing.assert_allclose(shared, alone, rtol=1e-9)
    # Another seed gives another gradient.
    others = _gradients(shifted, shard(batch, 8, 1).sampled(20, data.shot_seeds("train", 2, 1, 3)), 1)
    assert np.abs(others - alone).min() > 1e-6


def test_parameter_shift_without_shots_equals_adjoint(
    small_dataset: data.Dataset, trained: Path, tmp_path: Path
) -> None:
    config = from_mapping({**SMALL, "options": {**SMALL["options"], "gradient": "parameter_shift"}})
    found = outcomes(train(config, small_dataset, tmp_path))
    np.testing.assert_allclose(found, _outcomes(trained), rtol=1e-5)


@pytest.mark.long
def test_parameter_shift_with_shots_is_reproducible(small_dataset: data.Dataset, tmp_path: Path) -> None:
    words = {"gradient": "parameter_shift", "shots": 20}
    config = from_mapping({**SMALL, "epochs": 1, "options": {**SMALL["options"], **words}})
    one, other = (outcomes(train(config, small_dataset, tmp_path / name)) for name in ("one", "other"))
    assert one == other
    adjoint = outcomes(train(_config(20, epochs=1), small_dataset, tmp_path / "adjoint"))
    # The first training loss has the same samples, but the validation loss follows different updates.
    assert one[0][1:] != adjoint[0][1:]


@pytest.fixture(autouse=True)
def _no_graphs_left() -> Iterator[None]:
    yield
    tf_keras.backend.clear_session()
