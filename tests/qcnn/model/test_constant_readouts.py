"""Readouts that do not depend on the samples."""

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import sympy
import tf_keras

from qcnn import data, simulators
from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.data import Samples
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.constant_readouts import check_readouts, constant_readouts
from qcnn.model.network import assemble, build_model
from tests.vanishing_circuits import partly_vanishing, vanishing

RING = circuits.ring(4)
A = sympy.Symbol("a")
LABELS = np.array([1, -1] * 4, np.int8)
FEATURES = np.random.default_rng(1).uniform(0, np.pi, (8, 4)).astype(np.float32)


def _rotated(*readouts: int) -> Ansatz:
    """Return a circuit that rotates qubit 0 and entangles it with qubit 1."""
    circuit = cirq.Circuit(cirq.X(RING[0]) ** A, cirq.CNOT(RING[0], RING[1]))
    return Ansatz(circuit, (A,), tuple(RING[readout] for readout in readouts))


def _model(ansatz: Ansatz, preparation: Preparation = EXCITATION) -> tf_keras.Model:
    config = _config()
    simulator = simulators.create("auto", ansatz, RING, config.limits, preparation)
    return assemble(config, ansatz, simulator)


def _config(**fields: object) -> ExperimentConfig:
    return from_mapping({"qubits": 4, "rounds": 2, "workers": 1, "strategy": "none", "batch_size": 4, **fields})


def _excitations() -> Samples:
    return data.generate(_config()).train


def _rotations(features: npt.NDArray[np.float32]) -> Samples:
    return Samples({"features": features}, LABELS[: len(features)])


def test_readout_that_vanishes_for_excitations_is_constant() -> None:
    assert constant_readouts(_model(vanishing(RING)), _excitations(), 4) == (1,)


def test_readouts_of_some_qubits_are_constant() -> None:
    assert constant_readouts(_model(partly_vanishing(RING)), _excitations(), 4) == (0, 3)


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_readouts_of_models_are_not_constant(model: str) -> None:
    assert constant_readouts(build_model(_config(model=model)), _excitations(), 4) == ()


@pytest.mark.parametrize(
    ("encoding", "readouts", "constant"), [("ry", (0, 1), ()), ("rz", (0, 1), (1,)), ("rx", (3,), ())]
)
def test_readouts_of_features_depend_on_encoding(
    encoding: str, readouts: tuple[int, ...], constant: tuple[int, ...]
) -> None:
    # With rz, qubit 1 is in a state with Z = 0 for all features, unless a gate rotates it.
    model = _model(_rotated(*readouts), Preparation(encoding, 4))  # type: ignore[arg-type]
    assert constant_readouts(model, _rotations(FEATURES), 4) == constant


def test_readout_that_differs_in_last_batch_is_not_constant() -> None:
    features = np.tile(FEATURES[:1], (8, 1))
    features[-1, 1] += 0.5
    model = _model(_rotated(0, 1), Preparation("ry", 4))
    assert constant_readouts(model, _rotations(features), 3) == (0,)


def test_readouts_of_a_single_sample_are_not_constant() -> None:
    model = _model(_rotated(0), Preparation("ry", 4))
    assert constant_readouts(model, _rotations(FEATURES[:1]), 4) == ()


def test_check_readouts_all_constant_raises() -> None:
    message = "^model: must have a readout that differs between samples.*; Z on qubit 1 is equal for all samples. Given"
    with pytest.raises(ConfigError, match=message):
        check_readouts(_config(), (1,), (1,))


@pytest.mark.parametrize(
    ("constant", "warning"),
    [
        ((), ""),
        ((2,), "1 of 8 readouts are equal for all samples, so nothing is learned from Z on qubit 2"),
        (
            tuple(range(7)),
            "7 of 8 readouts are equal for all samples, so nothing is learned from Z on qubit 0, 1, 2, 3, 4 and 2 more",
        ),
    ],
)
def test_check_readouts_some_constant_warns(constant: tuple[int, ...], warning: str) -> None:
    assert check_readouts(_config(), range(8), constant) == warning
