"""Predictions under noise for too many qubits for density matrices, estimated from noise trajectories."""

import dataclasses
import logging
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn import data
from qcnn.circuits.noise import Noise
from qcnn.data import Samples
from qcnn.experiment.config import TRAJECTORY_BYTES, ExperimentConfig
from qcnn.model.network import model_outputs
from qcnn.planning.training_estimate import format_duration
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.trajectories import Trajectories

Floats = npt.NDArray[np.float64]

logger = logging.getLogger("qcnn")

# Amplitudes of all trajectories in a chunk.
_AMPLITUDES = 2**20
# Seconds between progress messages.
_LOG_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class TrajectoryEstimate:
    """Predictions and their standard errors, (samples,), and the error of their mean squared error.

    `mse_error` is the root mean square deviation of the MSE. It includes the variance of the MSE, and its bias by the
    mean of the squared standard errors.
    """

    predictions: Floats
    errors: Floats
    mse_error: float


@dataclasses.dataclass(frozen=True)
class _StringMoments:
    """Means of the Pauli strings over trajectories, (samples, strings), and the covariances of these means."""

    means: Floats
    covariances: Floats


def predict_from_trajectories(
    model: tf_keras.Model, config: ExperimentConfig, samples: Samples, noise: Noise
) -> TrajectoryEstimate:
    """Return the predictions under noise of a model that was trained without noise.

    Trajectories are sampled from the seed, the index of the sample and the index of the trajectory, so results do not
    depend on the available memory. If readouts are centered, the unexcited state is an additional sample, whose error
    affects all predictions. Errors are first-order in those of the readouts, which is exact for linear dense layers.

    Args:
        model: Model without noise.
        config: Experiment.
        samples: Samples of the test split.
        noise: Noise of the circuit.
    """
    quantum = model.get_layer("quantum")
    network = quantum.simulator.network
    noisy = read_network(network.ansatz, network.ring, network.preparation, noise)
    logger.info("noise: %d trajectories for each of %d samples", config.options.trajectories, len(samples))
    strings = _estimate(noisy, quantum.parameters.numpy(), config, samples)
    unexcited = _StringMoments(0 * strings.means[:1], 0 * strings.covariances[:1])
    if quantum.centered:
        zeros = {name: np.zeros_like(values[:1]) for name, values in samples.inputs.items()}
        sample = Samples(zeros, samples.label[:1])
        unexcited = _estimate(noisy, quantum.parameters.numpy(), config, sample, first=len(samples))
    predictions, slopes = _outputs(model, strings.means - unexcited.means)
    own = np.einsum("si,sij,sj->s", slopes, strings.covariances, slopes)
    shared = np.einsum("si,ij,sj->s", slopes, unexcited.covariances[0], slopes)
    residuals = predictions - samples.label
    # The error of the subtracted readouts is common to all predictions.
    common = np.mean(2 * residuals[:, None] * slopes, axis=0)
    variance = np.mean(4 * residuals**2 * own + 2 * own**2) / len(samples) + common @ unexcited.covariances[0] @ common
    return TrajectoryEstimate(predictions, np.sqrt(own + shared), float(np.sqrt(variance + np.mean(own + shared) ** 2)))


def _outputs(model: tf_keras.Model, strings: Floats) -> tuple[Floats, Floats]:
    """Return predictions (samples,) and their slopes in the strings, (samples, strings)."""
    values = tf.constant(strings)
    with tf.GradientTape() as tape:
        tape.watch(values)
        outputs = model_outputs(model, values)
    return outputs.numpy()[:, 0], tape.gradient(outputs, values).numpy()


def _estimate(
    network: CircuitIR, parameters: Floats, config: ExperimentConfig, samples: Samples, first: int = 0
) -> _StringMoments:
    """Estimate the strings of samples, whose random streams are numbered from `first` on."""
    count, strings = len(samples), len(network.strings)
    moments = _StringMoments(np.empty((count, strings)), np.empty((count, strings, strings)))
    # Chunks must fit in memory. Smaller chunks, which fit in the cache, are faster. Measured with 11 to 16 qubits.
    fitting = int(config.options.simulator_memory_gib * 2**30 // (TRAJECTORY_BYTES * 2**network.qubits))
    chunk = max(1, min(fitting, _AMPLITUDES >> network.qubits))
    done, started, logged = 0, time.monotonic(), time.monotonic()
    for excited, indices in _by_qubit(samples):
        trajectories = Trajectories(network, parameters, excited)
        for part in np.array_split(indices, -(-len(indices) * config.options.trajectories // chunk)):
            for index, values in _readouts(trajectories, config, samples, part, chunk, first):
                moments.means[index] = values.mean(axis=0)
                moments.covariances[index] = np.cov(values.T, ddof=1).reshape(strings, strings) / len(values)
            done, now = done + len(part), time.monotonic()
            if now - logged >= _LOG_SECONDS:
                left = (now - started) * (count - done) / max(done, 1)
                logger.info("noise: %d of %d samples, about %s left", done, count, format_duration(left))
                logged = now
    return moments


def _readouts(
    trajectories: Trajectories,
    config: ExperimentConfig,
    samples: Samples,
    indices: npt.NDArray[np.int64],
    chunk: int,
    first: int,
) -> Iterator[tuple[int, Floats]]:
    """Yield the index of each sample and its strings, (trajectories, strings), computed in chunks."""
    count = config.options.trajectories
    pairs = [(int(index), number) for index in indices for number in range(count)]
    values = []
    for start in range(0, len(pairs), chunk):
        part = pairs[start : start + chunk]
        units = [data.trajectory_units(config.seed, first + index, each, trajectories.draws) for index, each in part]
        selected = [index for index, _ in part]
        inputs: dict[str, npt.NDArray[Any]] = {name: each[selected] for name, each in samples.inputs.items()}
        values.append(trajectories.values(inputs, np.array(units)))
    every = np.concatenate(values).reshape(len(indices), count, -1) if indices.size else ()
    yield from zip(indices.tolist(), every, strict=True)


def _by_qubit(samples: Samples) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield each excited qubit and the indices of its samples, which have the same circuit."""
    qubits = samples.inputs.get("qubit", np.zeros(len(samples), np.int32))
    for qubit in np.unique(qubits):
        yield int(qubit), np.flatnonzero(qubits == qubit)
