"""Predictions under noise above the qubits of density matrices: estimated from trajectories, with their errors."""

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
from qcnn.experiment import TRAJECTORY_BYTES, ExperimentConfig
from qcnn.model.network import model_outputs
from qcnn.planning.training_estimate import format_duration
from qcnn.simulators.structure.gates import CircuitIR, read_network
from qcnn.simulators.trajectories import Trajectories

Floats = npt.NDArray[np.float64]

logger = logging.getLogger("qcnn")

# Of the trajectories that are drawn at a time.
_AMPLITUDES = 2**20
# Seconds between two lines that say how far it is.
_SAID_EVERY = 30.0


@dataclasses.dataclass(frozen=True)
class TrajectoryEstimate:
    """Predictions (samples,) with their standard errors, and how far the mean squared error may be off by these.

    `mse_error` is the root of the expected square of that: of what scatters, and of the mean of the squared errors,
    which is what scatter adds to any mean squared error.
    """

    predictions: Floats
    errors: Floats
    mse_error: float


@dataclasses.dataclass(frozen=True)
class _ReadoutMoments:
    """Means over the trajectories of samples, (samples, readouts), and the covariances of the means."""

    means: Floats
    covariances: Floats


def predict_from_trajectories(
    model: tf_keras.Model, config: ExperimentConfig, samples: Samples, noise: Noise
) -> TrajectoryEstimate:
    """Return what a model that knows of no noise predicts under it.

    Each sample has `trajectories` of its own, drawn from the seed, the sample's place in the split and the number of
    the trajectory, so all numbers are the same whatever fits in memory. Where readouts are centred, those of the state
    that nothing turns are one sample more, whose error all predictions share. Errors are to first order in those of
    the readouts, which is exact where the dense layers are linear.
    """
    quantum = model.get_layer("quantum")
    network = quantum.simulator.network
    noisy = read_network(network.ansatz, network.ring, network.preparation, noise)
    logger.info("noise: %d trajectories of each of %d samples", config.options.trajectories, len(samples))
    readouts = _estimate(noisy, quantum.parameters.numpy(), config, samples)
    unturned = _ReadoutMoments(0 * readouts.means[:1], 0 * readouts.covariances[:1])
    if quantum.centered:
        nothing = {name: np.zeros_like(values[:1]) for name, values in samples.inputs.items()}
        zero = Samples(nothing, samples.label[:1])
        unturned = _estimate(noisy, quantum.parameters.numpy(), config, zero, first=len(samples))
    predictions, slopes = _outputs(model, readouts.means - unturned.means)
    own = np.einsum("si,sij,sj->s", slopes, readouts.covariances, slopes)
    shared = np.einsum("si,ij,sj->s", slopes, unturned.covariances[0], slopes)
    residuals = predictions - samples.label
    # All predictions move together by what is subtracted from all.
    together = np.mean(2 * residuals[:, None] * slopes, axis=0)
    variance = (
        np.mean(4 * residuals**2 * own + 2 * own**2) / len(samples) + together @ unturned.covariances[0] @ together
    )
    return TrajectoryEstimate(predictions, np.sqrt(own + shared), float(np.sqrt(variance + np.mean(own + shared) ** 2)))


def _outputs(model: tf_keras.Model, readouts: Floats) -> tuple[Floats, Floats]:
    """Return predictions (samples,) and their slopes in the readouts, (samples, readouts)."""
    values = tf.constant(readouts)
    with tf.GradientTape() as tape:
        tape.watch(values)
        outputs = model_outputs(model, values)
    return outputs.numpy()[:, 0], tape.gradient(outputs, values).numpy()


def _estimate(
    network: CircuitIR, parameters: Floats, config: ExperimentConfig, samples: Samples, first: int = 0
) -> _ReadoutMoments:
    """Estimate the readouts of samples, which are numbered from `first` on in what they are drawn from."""
    count, readouts = len(samples), len(network.readouts)
    found = _ReadoutMoments(np.empty((count, readouts)), np.empty((count, readouts, readouts)))
    # So many at a time fit in memory; fewer, in the processor's cache, are faster. Measured at 11 to 16 qubits.
    fitting = int(config.options.simulator_memory_gib * 2**30 // (TRAJECTORY_BYTES * 2**network.qubits))
    most = max(1, min(fitting, _AMPLITUDES >> network.qubits))
    done, started, said = 0, time.monotonic(), time.monotonic()
    for excited, places in _alike(samples):
        drawn = Trajectories(network, parameters, excited)
        for part in np.array_split(places, -(-len(places) * config.options.trajectories // most)):
            for place, values in _drawn(drawn, config, samples, part, most, first):
                found.means[place] = values.mean(axis=0)
                found.covariances[place] = np.cov(values.T, ddof=1).reshape(readouts, readouts) / len(values)
            done, now = done + len(part), time.monotonic()
            if now - said >= _SAID_EVERY:
                left = (now - started) * (count - done) / max(done, 1)
                logger.info("noise: %d of %d samples, about %s left", done, count, format_duration(left))
                said = now
    return found


def _drawn(
    drawn: Trajectories,
    config: ExperimentConfig,
    samples: Samples,
    places: npt.NDArray[np.int64],
    most: int,
    first: int,
) -> Iterator[tuple[int, Floats]]:
    """Yield each sample's place with its readouts, (trajectories, readouts), of which `most` are drawn at a time."""
    trajectories = config.options.trajectories
    pairs = [(int(place), number) for place in places for number in range(trajectories)]
    values = []
    for start in range(0, len(pairs), most):
        here = pairs[start : start + most]
        units = [data.trajectory_units(config.seed, first + place, number, drawn.draws) for place, number in here]
        index = [place for place, _ in here]
        inputs: dict[str, npt.NDArray[Any]] = {name: each[index] for name, each in samples.inputs.items()}
        values.append(drawn.readouts(inputs, np.array(units)))
    every = np.concatenate(values).reshape(len(places), trajectories, -1) if places.size else ()
    yield from zip(places.tolist(), every, strict=True)


def _alike(samples: Samples) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield what samples run through the same circuit, those of each qubit together: the qubit and their places."""
    qubits = samples.inputs.get("qubit", np.zeros(len(samples), np.int32))
    for qubit in np.unique(qubits):
        yield int(qubit), np.flatnonzero(qubits == qubit)
