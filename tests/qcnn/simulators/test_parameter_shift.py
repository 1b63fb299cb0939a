"""Parameter-shift gradients, compared with adjoint gradients."""

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.errors import ConfigError
from qcnn.simulators import ExcitationBatch, Simulator, SimulatorLimits
from qcnn.simulators.parameter_shift import ParameterShift
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.structure.shift_rules import shift_parameters, with_shift_rule
from qcnn.testing.simulators import Case
from qcnn.testing.steps import step

LIMITS = SimulatorLimits(memory=2**31, batch=32)
RING = circuits.ring(4)
S = sympy.Symbol("s")
# With gates of all types of shift rules.
ANSATZ = Case("shifts", 4).ansatz
BATCH = ExcitationBatch(tf.constant([0, 2, 3]), tf.constant([0.4, -2.0, 1.0]))
WEIGHTS = np.array([[1.0, -2], [0.5, 1], [0.3, 0]])


def create(name: str, gradient: str, ansatz: Ansatz = ANSATZ) -> Simulator:
    return simulators.create(name, ansatz, circuits.ring(4), LIMITS, gradient=gradient)


def test_parameter_shift_of_model_equals_adjoint() -> None:
    ansatz = circuits.build("hybrid", 4)
    values = np.random.default_rng(0).uniform(0, 2, len(ansatz.symbols))
    shifted, adjoint = (create("auto", gradient, ansatz) for gradient in ("parameter_shift", "adjoint"))
    assert isinstance(shifted, ParameterShift)
    for found, expected in zip(
        step(shifted, values, BATCH, WEIGHTS, compiled=True), step(adjoint, values, BATCH, WEIGHTS), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    for found, expected in zip(*(each.table(tf.constant(values))[:4] for each in (shifted, adjoint)), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_shift_parameters_gives_one_parameter_per_gate() -> None:
    network = read_network(circuits.build("hybrid", 4), circuits.ring(4))
    found = shift_parameters(network)
    # Four pairs of 15 gates, and two poolings of nine gates. Each is shifted up and down.
    assert (found.network.parameters, found.network.evaluations) == (78, 157)
    assert found.coefficients.shape == (78, 21)
    # The inverse of a pooling's basis change has the opposite sign.
    assert sorted(set(found.coefficients.ravel())) == [-1, 0, 1]
    np.testing.assert_allclose(np.abs(found.shift % 2), [0.5, 1.5] * 78)
    assert with_shift_rule(network, "adjoint") is network


@pytest.mark.parametrize(
    ("phases", "given"),
    [
        ((0, 1, 1.41, 0.2), "0, 0.2, 1, 1.41"),
        # Almost multiples, for which the shift rule would be inexact.
        ((0, 1, 2.000001, 3), "0, 1, 2, 3"),
    ],
)
def test_parameter_shift_without_rule_raises(phases: tuple[float, ...], given: str) -> None:
    class Odd(cirq.EigenGate):
        def _num_qubits_(self) -> int:
            return 2

        def _eigen_components(self) -> list[tuple[float, np.ndarray]]:
            return [(phase, np.diag(row)) for phase, row in zip(phases, np.eye(4), strict=True)]

    ansatz = Ansatz(cirq.Circuit(Odd(exponent=S)(*RING[:2])), (S,), (RING[0],))
    message = rf"^gradient: parameter_shift needs gates whose phases .* Given: phases {given} in units of pi$"
    with pytest.raises(ConfigError, match=message):
        create("auto", "parameter_shift", ansatz)
    create("auto", "adjoint", ansatz)


def test_parameter_shift_with_tfq_raises() -> None:
    with pytest.raises(ConfigError, match=r"^gradient: must be adjoint with simulator tfq, .* Given: parameter_shift$"):
        create("tfq", "parameter_shift")


def test_parameter_shift_without_parameters_has_empty_gradient() -> None:
    ansatz = Ansatz(cirq.Circuit(cirq.CNOT(RING[1], RING[0])), (), (RING[0],))
    readouts, gradient = step(create("auto", "parameter_shift", ansatz), np.zeros(0), BATCH, WEIGHTS[:, :1])
    assert (readouts.shape, gradient.shape) == ((3, 1), (0,))
