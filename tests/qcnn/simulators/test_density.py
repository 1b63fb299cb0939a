"""Simulator density, compared with Cirq for models, random circuits and every preparation."""

import functools

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf
from hypothesis import given, settings

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.noise import parse
from qcnn.circuits.preparation import EXCITATION, Kind, Preparation
from qcnn.circuits.sample_circuits import excitation, noisy_circuit, product
from qcnn.errors import ConfigError
from qcnn.simulators import ExcitationBatch, ProductStateBatch, Simulator, SimulatorLimits, StateBatch
from qcnn.simulators.costs import density as costs
from tests.qcnn.simulators.random_circuits import Floats, ansatzes, repeatable
from tests.qcnn.simulators.step import step

LIMITS = SimulatorLimits(memory=2**31, batch=32)
NOISE = parse("depolarizing.one=0.01,depolarizing.two=0.04,amplitude_damping=0.03,phase_damping.two=0.05,readout=0.02")


def by_cirq(ansatz: Ansatz, values: Floats, qubits: int, prepared: cirq.Circuit, state: Floats | None = None) -> Floats:
    """Return Z on the readouts of the noisy circuit of a sample, (readouts,)."""
    resolver = dict(zip(ansatz.symbols, values.tolist(), strict=True))
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    found = simulator.simulate_expectation_values(
        noisy_circuit(ansatz, prepared, NOISE),
        [cirq.Z(q) for q in ansatz.readouts],
        param_resolver=resolver,
        qubit_order=circuits.ring(qubits),
        initial_state=None if state is None else state.astype(np.complex128),
    )
    return np.real(np.array(found))


def create(ansatz: Ansatz, qubits: int, preparation: Preparation = EXCITATION) -> Simulator:
    return simulators.create("density", ansatz, circuits.ring(qubits), LIMITS, preparation, NOISE)


def excited(ansatz: Ansatz, values: Floats, qubits: int, batch: ExcitationBatch) -> Floats:
    pairs = zip(batch.qubit.numpy().tolist(), batch.angle.numpy().tolist(), strict=True)
    ring = circuits.ring(qubits)
    return np.array([by_cirq(ansatz, values, qubits, excitation(ring, q, angle)) for q, angle in pairs])


def assert_equals_cirq(ansatz: Ansatz, qubits: int, values: Floats, chosen: list[int], *, compiled: bool) -> None:
    """Compare the readouts of two excitations, and some derivatives of their weighted sum."""
    random = np.random.default_rng(qubits)
    batch = ExcitationBatch(tf.constant([0, qubits - 1]), tf.constant(random.uniform(-3, 3, 2).astype(np.float32)))
    weights = random.normal(size=(2, len(ansatz.readouts)))
    readouts, gradient = step(create(ansatz, qubits), values, batch, weights, compiled=compiled)
    np.testing.assert_allclose(readouts, excited(ansatz, values, qubits, batch), atol=1e-10)
    shift = 1e-4
    for along in shift * np.eye(len(values))[chosen]:
        above, below = (np.sum(weights * excited(ansatz, values + s * along, qubits, batch)) for s in (1, -1))
        assert gradient @ along / shift == pytest.approx((above - below) / (2 * shift), abs=1e-6)


@pytest.mark.parametrize(
    ("model", "qubits"),
    [
        *(("hybrid", 4), ("deep", 5)),
        *(pytest.param(model, n, marks=pytest.mark.long) for model in ("hybrid", "deep") for n in (6, 7, 8)),
    ],
)
def test_readouts_and_gradient_of_a_model_equal_cirq(model: str, qubits: int) -> None:
    ansatz = circuits.build(model, qubits)
    values = np.random.default_rng(qubits).uniform(0, 2, len(ansatz.symbols))
    assert_equals_cirq(ansatz, qubits, values, [8, 16] if qubits < 6 else [8], compiled=qubits in (4, 8))


@given(ansatzes(most=4, gates=8))
@settings(repeatable, max_examples=6)
def test_any_circuit_equals_cirq(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    values = np.random.default_rng(qubits).uniform(-2, 2, len(ansatz.symbols))
    assert_equals_cirq(ansatz, qubits, values, list(range(len(values)))[:2], compiled=False)


@functools.cache
def custom() -> tuple[Ansatz, Floats]:
    """Return a five-qubit circuit of two readouts, with cones of three and four qubits, and parameters."""
    ring, (s, t) = circuits.ring(5), sympy.symbols("s t")
    gates = [cirq.Y(ring[0]) ** s, cirq.CNOT(ring[1], ring[0]), cirq.XX(ring[1], ring[2]) ** t, cirq.X(ring[4]) ** t]
    gates += [cirq.CCX(ring[2], ring[4], ring[3]) ** s, cirq.YY(ring[1], ring[0]) ** (s - t)]
    return Ansatz(cirq.Circuit(gates), (s, t), (ring[0], ring[3])), np.array([0.3, 0.8])


@pytest.mark.parametrize("gradient", ["adjoint", "parameter_shift"])
def test_gradient_of_gate_with_irrational_phase_is_exact(gradient: str) -> None:
    ring, t = circuits.ring(2), sympy.Symbol("t")
    # The target is an eigenstate, so the gate's phase rotates the control about Z: <Z> = cos(pi t / 3).
    thirds = cirq.XPowGate(exponent=t, global_shift=1 / 3)(ring[1]).controlled_by(ring[0])
    ansatz = Ansatz(cirq.Circuit(cirq.H.on_each(*ring), thirds, cirq.H(ring[0])), (t,), (ring[0],))
    simulator = simulators.create("density", ansatz, ring, LIMITS, Preparation("rx", 1), gradient=gradient)
    values, batch = np.array([40.3]), ProductStateBatch(tf.constant([[0.0]]))
    readouts, slope = step(simulator, values, batch, np.ones((1, 1)))
    angle = np.pi * values / 3
    np.testing.assert_allclose(readouts[0], np.cos(angle), atol=1e-12)
    np.testing.assert_allclose(slope, -np.pi / 3 * np.sin(angle), atol=1e-12)


@pytest.mark.parametrize(("kind", "features"), [("rx", 5), ("ry", 4), ("rz", 2)])
def test_product_states_equal_cirq(kind: Kind, features: int) -> None:
    ansatz, values = custom()
    rows = np.random.default_rng(3).uniform(-3, 3, (3, features)).astype(np.float32)
    simulator = create(ansatz, 5, Preparation(kind, features))
    weights = np.array([[1.0, -2], [0.3, 1], [0, 1]])

    def expected(values: Floats) -> Floats:
        return np.array([by_cirq(ansatz, values, 5, product(kind, circuits.ring(5), row.tolist())) for row in rows])

    readouts, gradient = step(simulator, values, ProductStateBatch(tf.constant(rows)), weights, compiled=kind == "rz")
    np.testing.assert_allclose(readouts, expected(values), atol=1e-10)
    along = 1e-4 * np.eye(2)[0]
    slope = np.sum(weights * (expected(values + along) - expected(values - along))) / 2e-4
    assert gradient[0] == pytest.approx(slope, abs=1e-6)


def test_state_samples_equal_cirq() -> None:
    ansatz, values = custom()
    states = np.random.default_rng(4).normal(size=(3, 32))
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    simulator = create(ansatz, 5, Preparation("state"))
    batch = StateBatch(tf.constant(states.astype(np.float32)))
    readouts, gradient = step(simulator, values, batch, np.ones((3, 2)), compiled=True)
    expected = [by_cirq(ansatz, values, 5, cirq.Circuit(), state) for state in states]
    np.testing.assert_allclose(readouts, expected, atol=1e-6)
    plain, same = step(simulator, values, batch, np.ones((3, 2)))
    np.testing.assert_allclose(plain, readouts, atol=1e-12)
    np.testing.assert_allclose(same, gradient, atol=1e-12)


def test_table_equals_expectations_under_noise() -> None:
    ansatz, values = custom()
    simulator, random = create(ansatz, 5), np.random.default_rng(5)
    qubit, angle = random.integers(0, 5, 20), random.uniform(-np.pi, np.pi, 20).astype(np.float32)
    batch = ExcitationBatch(tf.constant(qubit, tf.int32), tf.constant(angle))
    expected = simulator.expectations(tf.constant(values), batch).numpy()
    table = simulator.table(tf.constant(values))
    assert table.still is not None
    # Under noise the readouts depend on the excited qubit, even at angle 0.
    assert np.abs(table.still).max() > 1e-3
    for sample, (excited, turn) in enumerate(zip(qubit, angle, strict=True)):
        change = (1 - np.cos(turn)) / 2 * table.flipped[excited] + np.sin(turn) / 2 * table.mixed[excited]
        readouts = table.unexcited + table.still[excited] + change
        np.testing.assert_allclose(readouts, expected[sample], atol=1e-12)


def test_density_without_noise_equals_statevector() -> None:
    ansatz = circuits.build("deep", 6)
    values = np.random.default_rng(6).uniform(0, 2, len(ansatz.symbols))
    batch = ExcitationBatch(tf.constant([1, 4]), tf.constant([0.4, -2.0]))
    results = [
        step(simulators.create(name, ansatz, circuits.ring(6), LIMITS), values, batch, np.array([[1.0], [-2]]))
        for name in ("density", "statevector")
    ]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_auto_with_noise_selects_density() -> None:
    ansatz, ring = circuits.build("hybrid", 4), circuits.ring(4)
    assert simulators.create("auto", ansatz, ring, LIMITS, noise=NOISE).name == "density"
    assert simulators.create("auto", ansatz, ring, LIMITS).name != "density"
    for name in ("lightcone", "statevector", "tfq"):
        with pytest.raises(ConfigError, match=f"^simulator: must be auto or density with noise, .* Given: {name}$"):
            simulators.create(name, ansatz, ring, LIMITS, noise=NOISE)


@pytest.mark.parametrize("name", ["auto", "density"])
def test_density_above_memory_limit_raises(name: str) -> None:
    network = create(circuits.build("deep", 6), 6).network
    need = costs.estimate(network, LIMITS).memory
    costs.check(network, SimulatorLimits(memory=need, batch=32))
    with pytest.raises(
        ConfigError, match=r"^qubits: .*density needs .*simulator_memory_gib.* Given: 6$|^qubits: no simulator"
    ):
        simulators.create(name, network.ansatz, network.ring, SimulatorLimits(memory=need - 1, batch=32), noise=NOISE)


def test_expectations_accept_any_batch_size() -> None:
    ansatz, values = custom()
    simulator = create(ansatz, 5)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32)])
    def of_any_size(qubit: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        return simulator.expectations(tf.constant(values), ExcitationBatch(qubit, angle))

    qubit, angle = tf.range(40) % 5, tf.linspace(-3.0, 3.0, 40)
    every = of_any_size(qubit, angle).numpy()
    for size in (0, 1, 39):
        np.testing.assert_allclose(of_any_size(qubit[:size], angle[:size]), every[:size], atol=1e-12)
