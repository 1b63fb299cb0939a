"""Random trajectories with fixed seeds, compared with density matrices within their standard errors."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits import circuits, observables
from qcnn.circuits.noise import parse
from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.simulators import SimulatorLimits, batch_of
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.structure.heisenberg import Floats
from qcnn.simulators.trajectories import Trajectories

LIMITS = SimulatorLimits(memory=2**31, batch=32)
QUBITS, COUNT = 4, 4000
SAMPLES: list[tuple[Preparation, dict[str, npt.NDArray[Any]]]] = [
    (EXCITATION, {"qubit": np.array([2], np.int32), "angle": np.array([0.7], np.float32)}),
    (Preparation("rz", 3), {"features": np.array([[0.3, 0.5, 0.6]], np.float32)}),
    (Preparation("state"), {"state": np.eye(1, 16, 3).astype(np.float32)}),
]


def drawn(
    preparation: Preparation, inputs: dict[str, npt.NDArray[Any]], noise: str, count: int, readouts: str = ""
) -> tuple[Floats, Floats]:
    """Return readouts of trajectories of a sample, (count, readouts), and exact readouts, (readouts,)."""
    ansatz = circuits.build("hybrid", QUBITS)
    if readouts:
        ansatz = dataclasses.replace(ansatz, readouts=observables.parse(readouts))
    network = read_network(ansatz, circuits.ring(QUBITS), preparation, parse(noise))
    random = np.random.default_rng(1)
    parameters = random.uniform(0, 2, len(ansatz.symbols))
    trajectories = Trajectories(network, parameters, excited=int(inputs.get("qubit", [0])[0]))
    repeated = {name: np.repeat(values, count, axis=0) for name, values in inputs.items()}
    exact = simulators.create("density", ansatz, circuits.ring(QUBITS), LIMITS, preparation, parse(noise))
    batch = batch_of(preparation, {name: tf.constant(values) for name, values in inputs.items()})
    expected: Floats = exact.expectations(tf.constant(parameters), batch).numpy()[0]
    return trajectories.values(repeated, random.random((count, trajectories.draws))), expected


@pytest.mark.parametrize(
    ("sample", "noise"),
    [
        *((0, "depolarizing.one=0.05"), (1, "depolarizing.two=0.1"), (0, "amplitude_damping=0.1")),
        *((1, "phase_damping=0.1"), (2, "depolarizing=0.02,amplitude_damping=0.05,phase_damping=0.03,readout=0.1")),
        (0, "depolarizing=0.02,amplitude_damping.one=0.05,phase_damping.two=0.03"),
    ],
)
def test_trajectory_mean_equals_density_within_standard_error(sample: int, noise: str) -> None:
    readouts, exact = drawn(*SAMPLES[sample], noise, COUNT)
    error = readouts.std(axis=0, ddof=1) / np.sqrt(COUNT)
    assert (np.abs(readouts.mean(axis=0) - exact) < 3 * error).all()
    assert (error > 0).all()
    # The exact readouts with and without noise differ by more than the error.
    plain, _ = drawn(*SAMPLES[sample], "", 1)
    assert (np.abs(plain[0] - exact) > 5 * error).any()


def test_strings_of_trajectories_equal_density_within_standard_error() -> None:
    """Every bit of a string is flipped."""
    noise, strings = "depolarizing=0.02,amplitude_damping=0.05,readout=0.1", "Z0, X1, Z0*Z2, X0*Y1*Z3, Y0*Y1*Y2*X3"
    for sample in SAMPLES:
        values, exact = drawn(*sample, noise, COUNT, strings)
        error = values.std(axis=0, ddof=1) / np.sqrt(COUNT)
        assert (np.abs(values.mean(axis=0) - exact) < 4 * error).all()
        values, exact = drawn(*sample, "", 2, strings)
        np.testing.assert_allclose(values, [exact, exact], atol=1e-10)


def test_trajectory_error_scales_with_inverse_square_root() -> None:
    readouts, exact = drawn(*SAMPLES[0], "depolarizing=0.03,amplitude_damping=0.05", 6400)
    away = []
    for count in (25, 400):
        means = readouts.reshape(-1, count, readouts.shape[1]).mean(axis=1)
        away.append(np.sqrt(np.mean((means - exact) ** 2)))
    # The expected ratio is 4. The standard error of 16 means is about a fifth.
    assert 3 < away[0] / away[1] < 5.3


def test_trajectory_without_noise_equals_state() -> None:
    for preparation, inputs in SAMPLES:
        readouts, exact = drawn(preparation, inputs, "", 2)
        np.testing.assert_allclose(readouts, [exact, exact], atol=1e-10)


def test_trajectory_with_certain_damping_is_deterministic() -> None:
    """With damping probability 1, every qubit decays to |0>."""
    readouts, exact = drawn(*SAMPLES[0], "amplitude_damping=1", 20)
    np.testing.assert_allclose(readouts, np.tile(exact, (20, 1)), atol=1e-10)
