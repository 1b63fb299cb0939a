"""All simulators on large angles and random circuits, compared with Cirq, and samples in chunks."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.preparation import Kind, Preparation
from qcnn.errors import ConfigError
from qcnn.simulators import ProductStateBatch, Simulator, SimulatorLimits, StateBatch, costs, registry, statevector
from qcnn.simulators.evolution import evolve
from qcnn.simulators.structure.gates import read_model
from qcnn.testing.cirq_readouts import Floats, readouts_of_samples
from qcnn.testing.steps import step
from tests.qcnn.simulators.every import EVERY, GENERAL
from tests.qcnn.simulators.random_circuits import ansatzes, repeatable

LIMITS = SimulatorLimits(memory=2**31, batch=4)
KINDS: tuple[Kind, ...] = ("rx", "ry", "rz", "dense", "state")


class Case(NamedTuple):
    """Circuit, preparation, and samples rounded to float32."""

    ansatz: Ansatz
    qubits: int
    preparation: Preparation
    samples: Floats

    @property
    def inputs(self) -> ProductStateBatch | StateBatch:
        values = tf.constant(self.samples, tf.float32)
        return StateBatch(values) if self.preparation.kind == "state" else ProductStateBatch(values)

    @property
    def values(self) -> Floats:
        return np.random.default_rng(self.qubits).uniform(-2, 2, len(self.ansatz.symbols))

    def create(self, name: str, limits: SimulatorLimits = LIMITS) -> Simulator:
        return simulators.create(name, self.ansatz, circuits.ring(self.qubits), limits, self.preparation)

    def by_cirq(self, values: Floats) -> Floats:
        """Return Z on the readouts, (samples, readouts)."""
        return readouts_of_samples(self.ansatz, self.qubits, values, self.preparation, self.samples)


def case(ansatz: Ansatz, qubits: int, kind: Kind, features: int, count: int = 3) -> Case:
    """Return a case with random samples of up to `qubits` features, and as many more with `dense`."""
    random = np.random.default_rng(qubits)
    if kind == "state":
        drawn = random.normal(size=(count, 2**qubits))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        preparation = Preparation(kind)
    else:
        features += qubits if kind == "dense" else 0
        drawn = random.uniform(-np.pi, np.pi, (count, features))
        preparation = Preparation(kind, features)
    return Case(ansatz, qubits, preparation, drawn.astype(np.float32).astype(np.float64))


def assert_equals_cirq(name: str, case: Case, *, slopes: int, compiled: bool) -> None:
    """Compare the readouts of all samples, and some derivatives of their weighted sum."""
    random, values = np.random.default_rng(1), case.values
    expected = case.by_cirq(values)
    weights = random.normal(size=expected.shape)
    readouts, gradient = step(case.create(name), values, case.inputs, weights, compiled=compiled)
    # TensorFlow Quantum computes in float32, and differentiates gates numerically. The kernels use complex64.
    close, closer = {"tfq": (3e-3, 1e-5), "statevector_cpu": (1e-5, 1e-6)}.get(name, (1e-6, 1e-6))
    np.testing.assert_allclose(readouts, expected, atol=closer)
    for number in random.permutation(len(values))[:slopes]:
        along = 1e-3 * np.eye(len(values))[number]
        near, far = (case.by_cirq(values + step * along) - case.by_cirq(values - step * along) for step in (1, 2))
        # Fourth-order differences, because the error of second order exceeds the tolerance.
        slope = np.sum(weights * (8 * near - far)) / (12 * 1e-3)
        np.testing.assert_allclose(gradient[number], slope, atol=close)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", ["rx", "ry", "rz", "dense"])
def test_large_angles_equal_cirq(name: str, kind: Kind) -> None:
    every = case(circuits.build("hybrid", 4), 4, kind, 4)
    angles = np.random.default_rng(3).uniform(-1e4, 1e4, every.samples.shape).astype(np.float32).astype(np.float64)
    assert_equals_cirq(name, every._replace(samples=angles), slopes=0, compiled=kind == "ry")


def test_large_angles_in_complex64_equal_cirq() -> None:
    # Above 11 qubits states are complex64.
    every = case(circuits.build("hybrid", 12), 12, "ry", 12)
    angles = np.random.default_rng(3).uniform(-1e4, 1e4, (2, 12)).astype(np.float32).astype(np.float64)
    assert_equals_cirq("statevector", every._replace(samples=angles), slopes=0, compiled=True)


@pytest.mark.parametrize("name", GENERAL)
@given(drawn=ansatzes(), kind=st.sampled_from(KINDS), missing=st.integers(0, 3))
@settings(repeatable, max_examples=20)
def test_any_circuit_equals_cirq(name: str, drawn: tuple[Ansatz, int], kind: Kind, missing: int) -> None:
    ansatz, qubits = drawn
    assume(kind != "state" or registry.declaration(name).states)
    assert_equals_cirq(name, case(ansatz, qubits, kind, qubits - missing, 2), slopes=2, compiled=False)


@pytest.mark.parametrize(("kind", "compiled"), [("ry", True), ("state", False)])
def test_statevector_chunked_samples_equal_whole_batch(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, compiled: bool
) -> None:
    # Use complex64, as for many qubits.
    monkeypatch.setattr(costs.statevector, "FEW_AMPLITUDES", 0)
    sizes = []

    def evolve_and_count(places: object, states: tf.Tensor, *rest: object, **options: bool) -> tf.Tensor:
        sizes.append(states.shape[0])
        return evolve(places, states, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(statevector, "evolve", evolve_and_count)
    qubits, count = 5, 7
    every = case(circuits.build("hybrid", qubits), qubits, kind, qubits, count)
    network = every.create("statevector").network
    column = costs.statevector._column_bytes(network, LIMITS)
    given = count * 4 * 2**qubits if kind == "state" else 0
    limits = SimulatorLimits(memory=3 * column + given, batch=count)
    weights = np.random.default_rng(0).normal(size=(count, 3))
    readouts, gradient = step(
        every.create("statevector", limits), every.values, every.inputs, weights, compiled=compiled
    )
    assert set(sizes) == {3}
    assert costs.statevector.estimate(network, limits).memory == limits.memory
    whole = every.create("statevector", SimulatorLimits(memory=2**31, batch=count))
    expected_readouts, expected_gradient = step(whole, every.values, every.inputs, weights)
    assert sizes[-1] == count
    np.testing.assert_allclose(readouts, expected_readouts, atol=1e-6)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)
    np.testing.assert_allclose(readouts, every.by_cirq(every.values), atol=1e-5)
    with pytest.raises(ConfigError, match=r"^qubits: simulator statevector needs .*simulator_memory_gib allows"):
        every.create("statevector", SimulatorLimits(memory=column + given - 1, batch=count))


@pytest.mark.parametrize(("features", "memory"), [(20, 2**31), (3, 2**31), (20, 2**18)])
def test_lightcone_product_states_equal_statevector(features: int, memory: float) -> None:
    """Parts have many places. Samples are evolved at once and in chunks."""
    every = case(circuits.build("hybrid", 16), 16, "rx", min(features, 16), 2)
    weights = np.random.default_rng(0).normal(size=(2, 8))
    lightcone = every.create("lightcone", SimulatorLimits(memory, batch=2))
    readouts, gradient = step(lightcone, every.values, every.inputs, weights)
    vectors = every.create("statevector", SimulatorLimits(2**31, batch=2, real_bytes=8))
    expected_readouts, expected_gradient = step(vectors, every.values, every.inputs, weights)
    np.testing.assert_allclose(readouts, expected_readouts, atol=1e-9)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-8)


@pytest.mark.parametrize(
    ("model", "qubits", "kind", "selected"),
    [
        ("hybrid", 12, "ry", "lightcone"),
        ("hybrid", 40, "rx", "lightcone"),
        ("deep", 12, "rz", "statevector_cpu"),
        ("hybrid", 12, "state", "statevector_cpu"),
    ],
)
def test_auto_selects_cheapest_simulator_per_preparation(model: str, qubits: int, kind: Kind, selected: str) -> None:
    _, network = read_model(model, qubits, Preparation(kind, 8))
    limits = SimulatorLimits(memory=2**31, batch=32)
    assert registry.cheapest(registry.estimates(network, limits), network, limits).simulator == selected


@pytest.mark.parametrize("memory", [2**31, 2**15])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("statevector", "ry"),
        ("statevector", "state"),
        ("lightcone", "rz"),
        pytest.param("tfq", "rx", marks=pytest.mark.tfq),
    ],
)
def test_expectations_accept_dynamic_batch_size(name: str, kind: Kind, memory: float) -> None:
    qubits = 5
    every = case(circuits.build("hybrid", qubits), qubits, kind, 4, 9)
    simulator = every.create(name, SimulatorLimits(memory=memory, batch=1))
    parameters = tf.constant(every.values)
    expected = every.by_cirq(every.values)
    (values,), width = every.inputs, every.samples.shape[1]

    @tf.function(input_signature=[tf.TensorSpec([None, width], tf.float32)], autograph=False)
    def of_any_size(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            readouts = simulator.expectations(parameters, type(every.inputs)(values))
        return readouts, tape.gradient(readouts, parameters)

    gradients = []
    for size in (0, 1, 8, 9):
        readouts, gradient = of_any_size(values[:size])
        np.testing.assert_allclose(readouts, expected[:size], atol=1e-5)
        gradients.append(gradient)
    one = simulator.expectations(parameters, type(every.inputs)(values[8:]))
    np.testing.assert_allclose(one, expected[8:], atol=1e-5)
    assert np.abs(gradients[3] - gradients[2]).max() > 1e-3
    assert not gradients[0].numpy().any()


@pytest.mark.parametrize("kind", KINDS)
def test_product_states_are_split_by_sample(kind: Kind) -> None:
    """Excitations would be split by qubit."""
    _, network = read_model("hybrid", 12, Preparation(kind, 12))
    assert costs.statevector.shards_by_qubit(12, 32, 2)
    assert not statevector.create(network, LIMITS).shards_by_qubit(32, 2)
    costs_of = [
        costs.statevector.estimate(network, SimulatorLimits(2**33, 64, replicas=replicas)) for replicas in (1, 2)
    ]
    assert costs_of[0].flops == 2 * costs_of[1].flops


@pytest.mark.parametrize("name", ["lightcone", "tfq"])
def test_create_without_state_support_raises(name: str) -> None:
    states = case(circuits.build("hybrid", 4), 4, "state", 0)
    with pytest.raises(ConfigError, match=rf"^simulator: must be .* where samples are .*states. Given: {name}$"):
        states.create(name)
