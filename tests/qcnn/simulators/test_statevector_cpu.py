"""Simulator statevector_cpu in double precision, under a memory limit, and without its kernels."""

import dataclasses

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import sympy
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.observables import as_pauli_sum, parse
from qcnn.circuits.preparation import Kind, Preparation
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.model.network import build_model
from qcnn.simulators import (
    AmplitudeBatch,
    CircuitInputBatch,
    ExcitationBatch,
    Inputs,
    ProductStateBatch,
    Simulator,
    SimulatorLimits,
    StateBatch,
    costs,
    kernels,
    registry,
)
from qcnn.simulators.structure.gates import read_network
from qcnn.testing.steps import step

QUBITS = 9


def layered(qubits: int, layers: int) -> Ansatz:
    """Return layers of RY on each qubit, CNOT gates around the ring and RZ, with readouts on all qubits."""
    ring = circuits.ring(qubits)
    symbols = sympy.symbols(f"t0:{2 * qubits * layers}")
    circuit = cirq.Circuit()
    for layer in range(layers):
        first = 2 * qubits * layer
        circuit += [cirq.Y(qubit) ** symbols[first + number] for number, qubit in enumerate(ring)]
        circuit += [cirq.CNOT(ring[number], ring[(number + 1) % qubits]) for number in range(qubits)]
        circuit += [cirq.Z(qubit) ** symbols[first + qubits + number] for number, qubit in enumerate(ring)]
    return Ansatz(circuit, tuple(symbols), tuple(ring))


def with_inputs(qubits: int, layers: int) -> Ansatz:
    """Return layers of RX of an input and RY of a parameter times an input, and CNOT gates around the ring."""
    ring, x, w = circuits.ring(qubits), sympy.symbols(f"x0:{qubits}"), sympy.symbols(f"w0:{2 * qubits * layers}")
    circuit = cirq.Circuit()
    for layer in range(layers):
        scales, biases = w[2 * qubits * layer :][:qubits], w[2 * qubits * layer + qubits :][:qubits]
        circuit += [cirq.rx(each)(qubit) for each, qubit in zip(x, ring, strict=True)]
        circuit += [cirq.ry(a * each + b)(q) for a, b, each, q in zip(scales, biases, x, ring, strict=True)]
        circuit += [cirq.CNOT(ring[number], ring[(number + 1) % qubits]) for number in range(qubits)]
    return Ansatz(circuit, w, ring, x)


def create(ansatz: Ansatz, qubits: int, limits: SimulatorLimits, name: str = "statevector_cpu") -> Simulator:
    return simulators.create(name, ansatz, circuits.ring(qubits), limits, Preparation("ry", qubits))


def batch_of(qubits: int, samples: int) -> ProductStateBatch:
    angles = np.random.default_rng(1).uniform(-np.pi, np.pi, (samples, qubits))
    return ProductStateBatch(tf.constant(angles, tf.float32))


def by_cirq(
    ansatz: Ansatz, qubits: int, values: npt.NDArray[np.float64], angles: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    ring = circuits.ring(qubits)
    prepared = cirq.Circuit(cirq.ry(angle)(qubit) for angle, qubit in zip(angles, ring, strict=True))
    resolver = dict(zip(ansatz.symbols, values, strict=True))
    found = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        prepared + ansatz.circuit, list(map(as_pauli_sum, ansatz.readouts)), resolver, qubit_order=ring
    )
    return np.real(found)


@pytest.mark.parametrize("ansatz", [circuits.build("deep", QUBITS), layered(QUBITS, 3)], ids=["deep", "layered"])
def test_double_precision_equals_cirq(ansatz: Ansatz) -> None:
    random = np.random.default_rng(2)
    values = random.uniform(0, 2, len(ansatz.symbols))
    batch = batch_of(QUBITS, 3)
    angles = batch.features.numpy().astype(np.float64)
    weights = random.normal(size=(3, len(ansatz.readouts)))
    simulator = create(ansatz, QUBITS, SimulatorLimits(2**30, 3, real_bytes=8))
    readouts, gradient = step(simulator, values, batch, weights, compiled=True)

    def loss(values: npt.NDArray[np.float64]) -> float:
        return float(sum(np.sum(w * by_cirq(ansatz, QUBITS, values, a)) for w, a in zip(weights, angles, strict=True)))

    expected = [by_cirq(ansatz, QUBITS, values, each) for each in angles]
    np.testing.assert_allclose(readouts, expected, atol=1e-8)
    for number in random.permutation(len(values))[:4]:
        along = 1e-3 * np.eye(len(values))[number]
        near, far = (loss(values + scale * along) - loss(values - scale * along) for scale in (1, 2))
        np.testing.assert_allclose(gradient[number], (8 * near - far) / (12 * 1e-3), atol=1e-8)


@pytest.mark.parametrize("samples", [1, 8, 21])
def test_readouts_do_not_depend_on_other_samples(samples: int) -> None:
    ansatz = circuits.build("deep", QUBITS)
    values, batch = np.linspace(0, 2, len(ansatz.symbols)), batch_of(QUBITS, 21)
    simulator = create(ansatz, QUBITS, SimulatorLimits(2**30, 21))
    whole = simulator.expectations(tf.constant(values), batch)
    part = simulator.expectations(tf.constant(values), ProductStateBatch(batch.features[:samples]))
    assert np.array_equal(part, whole[:samples])


def test_two_steps_are_equal_to_the_bit() -> None:
    ansatz = layered(QUBITS, 2)
    values, batch = np.linspace(0, 2, len(ansatz.symbols)), batch_of(QUBITS, 40)
    simulator = create(ansatz, QUBITS, SimulatorLimits(2**30, 40))
    weights = np.ones((40, QUBITS))
    one, other = (step(simulator, values, batch, weights, compiled=True) for _ in range(2))
    assert np.array_equal(one[0], other[0])
    assert np.array_equal(one[1], other[1])


def test_gradient_without_kept_states_is_equal() -> None:
    ansatz = circuits.build("deep", QUBITS)
    values, batch = np.linspace(0, 2, len(ansatz.symbols)), batch_of(QUBITS, 40)
    whole = SimulatorLimits(2**30, 40)
    network = create(ansatz, QUBITS, whole).network
    plan = costs.statevector_cpu.plan_memory(network, whole)
    least = costs.statevector_cpu.plan_memory(network, SimulatorLimits(1, 40)).bytes
    assert plan.keep
    assert least < plan.bytes
    results = []
    for memory in (2**30, least):
        simulator = create(ansatz, QUBITS, SimulatorLimits(memory, 40))
        results.append(step(simulator, values, batch, np.ones((40, 1)), compiled=True))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    with pytest.raises(ConfigError, match=r"^qubits: simulator statevector_cpu needs at least .*Given: 9$"):
        create(ansatz, QUBITS, SimulatorLimits(least - 1, 40))


def with_strings(ansatz: Ansatz) -> Ansatz:
    """Return a circuit with readouts on one to six qubits, in several bases, also of qubits that the lanes hold."""
    last = len(ansatz.circuit.all_qubits()) - 1
    texts = [f"Z0*Z{last}", "X1", f"X0*Y3*Z5*Z9*X{last}", "Z2*Z3", "Y0*Y1*Y2*Y3*Y4*Y5", "Z7", f"Y{last}*X{last - 1}"]
    return dataclasses.replace(ansatz, readouts=parse(", ".join(texts)))


# Circuit and preparation of states that are evolved one at a time.
ONE_STATE = [
    pytest.param(with_strings(layered(15, 2)), Preparation("ry", 15), id="features-strings"),
    pytest.param(with_strings(circuits.build("deep", 14)), Preparation("excitation"), id="excitations-strings"),
    pytest.param(circuits.build("deep", 14), Preparation("ry", 14), id="features-deep"),
    # Readouts on registers with and without qubits in the lanes.
    pytest.param(circuits.build("hybrid", 14), Preparation("ry", 14), id="features-hybrid"),
    pytest.param(layered(15, 3), Preparation("ry", 15), id="features-layered"),
    pytest.param(circuits.build("deep", 15), Preparation("excitation"), id="excitations-deep"),
    pytest.param(layered(14, 2), Preparation("state"), id="states-layered"),
    pytest.param(with_inputs(14, 2), Preparation("circuit", 14), id="inputs"),
]


def samples_of(preparation: Preparation, qubits: int, samples: int) -> Inputs:
    random = np.random.default_rng(4)
    if preparation.kind == "excitation":
        angles = random.uniform(-np.pi, np.pi, samples)
        return ExcitationBatch(tf.constant(np.arange(samples), tf.int32), tf.constant(angles, tf.float32))
    if preparation.kind == "state":
        states = random.normal(size=(samples, 2**qubits))
        return StateBatch(tf.constant(states / np.linalg.norm(states, axis=1, keepdims=True), tf.float32))
    if preparation.kind == "circuit":
        return CircuitInputBatch(tf.constant(random.uniform(-1, 1, (samples, qubits))))
    return batch_of(qubits, samples)


@pytest.mark.parametrize("real_bytes", [4, 8])
def test_gates_with_inputs_in_tiles_equal_statevector(real_bytes: int) -> None:
    # More qubits than a tile has, and more samples than a bundle.
    qubits, ansatz, samples = 10, with_inputs(10, 3), 21
    values, weights = np.random.default_rng(5).uniform(0, 2, len(ansatz.symbols)), np.ones((samples, qubits))
    preparation, ring = Preparation("circuit", qubits), circuits.ring(qubits)
    batch, limits = samples_of(preparation, qubits, samples), SimulatorLimits(2**30, samples, real_bytes=real_bytes)
    reference, simulator = (
        simulators.create(name, ansatz, ring, dataclasses.replace(limits, real_bytes=size), preparation)
        for name, size in (("statevector", 8), ("statevector_cpu", real_bytes))
    )
    expected, gradient = step(reference, values, batch, weights)
    found = step(simulator, values, batch, weights, compiled=True)
    tolerance = 1e-12 if real_bytes == 8 else 1e-5
    np.testing.assert_allclose(found[0], expected, atol=tolerance)
    np.testing.assert_allclose(found[1], gradient, atol=20 * tolerance)


@pytest.mark.parametrize(("ansatz", "preparation"), ONE_STATE)
@pytest.mark.parametrize(("real_bytes", "tolerance"), [(8, 1e-12), (4, 1e-5)])
def test_states_one_at_a_time_equal_statevector(
    ansatz: Ansatz, preparation: Preparation, real_bytes: int, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs.statevector_cpu, "ONE_STATE_QUBITS", 14)
    qubits = len(ansatz.circuit.all_qubits())
    random = np.random.default_rng(5)
    values, weights = random.uniform(0, 2, len(ansatz.symbols)), random.normal(size=(3, len(ansatz.readouts)))
    batch, limits = samples_of(preparation, qubits, 3), SimulatorLimits(2**30, 3, real_bytes=8)
    ring = circuits.ring(qubits)
    reference = simulators.create("statevector", ansatz, ring, limits, preparation)
    # Not compiled, which takes less time for a single step.
    expected, gradient = step(reference, values, batch, weights)
    limits = dataclasses.replace(limits, real_bytes=real_bytes)
    simulator = simulators.create("statevector_cpu", ansatz, ring, limits, preparation)
    plan = costs.statevector_cpu.plan_memory(simulator.network, limits)
    assert plan.one_state
    assert plan.keep
    first, second = (step(simulator, values, batch, weights, compiled=True) for _ in range(2))
    np.testing.assert_allclose(first[0], expected, atol=tolerance)
    np.testing.assert_allclose(first[1], gradient, atol=tolerance)
    # The threads share every state, and add their sums in the same order.
    assert np.array_equal(first[1], second[1])
    least = dataclasses.replace(limits, memory=plan.bytes / 2)
    assert not costs.statevector_cpu.plan_memory(simulator.network, least).keep
    again = step(
        simulators.create("statevector_cpu", ansatz, ring, least, preparation), values, batch, weights, compiled=True
    )
    np.testing.assert_array_equal(again[0], first[0])
    # Given states are read in chunks, whose gradients are added in a different order.
    np.testing.assert_allclose(again[1], first[1], rtol=0, atol=1e-14 if preparation.kind == "state" else 0)


@pytest.mark.parametrize("real_bytes", [4, 8])
def test_gradient_of_amplitudes_of_one_state_at_a_time(real_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes hold qubits of the state: its gradient equals that of statevector."""
    monkeypatch.setattr(costs.statevector_cpu, "ONE_STATE_QUBITS", 14)
    qubits, ansatz = 14, circuits.build("deep", 14)
    values, random = np.random.default_rng(1).uniform(0, 2, len(ansatz.symbols)), np.random.default_rng(2)
    states = random.normal(size=(3, 2**qubits))
    given = tf.constant(states / np.linalg.norm(states, axis=1, keepdims=True))
    ring, preparation = circuits.ring(qubits), Preparation("state")
    found = []
    for name, size in (("statevector_cpu", real_bytes), ("statevector", 8)):
        limits = SimulatorLimits(2**30, 3, size)
        created = simulators.create(name, ansatz, ring, limits, preparation)
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(created.expectations(tf.constant(values), AmplitudeBatch(given)))
        found.append(tape.gradient(loss, given).numpy())
    network = read_network(ansatz, ring, preparation)
    assert costs.statevector_cpu.plan_memory(network, SimulatorLimits(2**30, 3, real_bytes)).one_state
    # Parallel to the state, the gradients differ: only one of the simulators divides by norms.
    along = [each - np.sum(each * given, axis=1, keepdims=True) * given for each in found]
    np.testing.assert_allclose(along[0], along[1], rtol=0, atol=1e-6 if real_bytes == 4 else 1e-12)
    assert np.abs(along[1]).max() > 1e-2


@pytest.mark.parametrize("kind", ["ry", "excitation"])
@pytest.mark.parametrize(("qubits", "gibibytes"), [(27, 2.1), (28, 4.1), (30, 16.1)])
def test_large_states_need_two_vectors(kind: Kind, qubits: int, gibibytes: float) -> None:
    network = read_network(circuits.build("deep", qubits), circuits.ring(qubits), Preparation(kind, qubits))
    plan = costs.statevector_cpu.plan_memory(network, SimulatorLimits(gibibytes * 2**30, 32))
    assert plan.one_state
    assert not plan.keep
    assert 2 * 2**qubits * 8 <= plan.bytes <= gibibytes * 2**30


def test_missing_kernels_are_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "missing_reason", lambda: "not compiled at installation, no C compiler (cc)")
    message = r"^simulator: statevector_cpu needs kernels, .*, no C compiler \(cc\)\. Given: statevector_cpu$"
    with pytest.raises(ConfigError, match=message):
        create(circuits.build("deep", 4), 4, SimulatorLimits(2**30, 8))
    network = read_network(circuits.build("deep", 4), circuits.ring(4))
    assert registry.estimate("statevector_cpu", network, SimulatorLimits(2**30, 8)).memory == float("inf")


def test_gpus_are_refused_and_auto_selects_another_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    config = from_mapping({"qubits": 16, "model": "deep", "workers": 1})
    assert build_model(config).get_layer("quantum").simulator.name == "statevector_cpu"
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [f"/physical_device:{kind}:0"])
    assert build_model(config).get_layer("quantum").simulator.name == "statevector"
    with pytest.raises(ConfigError, match=r"^simulator: must not be statevector_cpu where TensorFlow uses GPUs"):
        create(circuits.build("deep", QUBITS), QUBITS, SimulatorLimits(2**30, 3))


@pytest.mark.parametrize(
    ("qubits", "batch", "replicas", "splits", "bundles", "spanning"),
    [
        (16, 8, 1, False, 1, False),
        # 8 flipped states in each bundle.
        (16, 32, 1, False, 2, True),
        (16, 256, 1, False, 2, True),
        (16, 32, 2, True, 1, True),
        (16, 64, 2, True, 1, True),
        (16, 256, 4, True, 1, True),
        # The unexcited state and 7 flipped states in each bundle, which takes less time than 3 bundles of 8.
        (18, 256, 1, False, 3, True),
        # Short states: reading all samples in every replica costs more than splitting by qubit saves.
        (4, 10_000, 2, False, 2, True),
        # One state at a time: the unexcited state, and two for each qubit.
        (20, 256, 1, False, 41, True),
        (20, 256, 2, True, 21, True),
    ],
)
def test_replicas_split_by_qubit_if_they_evolve_fewer_bundles(
    qubits: int, batch: int, replicas: int, splits: bool, bundles: int, spanning: bool
) -> None:
    module = costs.statevector_cpu
    network = read_network(circuits.build("deep", qubits), circuits.ring(qubits))
    limits = SimulatorLimits(2**40, batch, replicas=replicas)
    samples = 1 if qubits >= 20 else module.samples_of_a_bundle(module.real_bytes(network, limits))
    assert module.shards_by_qubit(qubits, batch, replicas, samples) == splits
    plan = module.plan_memory(network, limits)
    assert plan.evolved == bundles * samples
    assert plan.spanning == spanning
    if not spanning:
        # A single sample is one bundle, or one state.
        single = module.estimate(network, SimulatorLimits(2**40, 1))
        assert module.estimate(network, limits).compiled_flops == bundles * single.compiled_flops


@pytest.mark.parametrize(
    ("qubits", "real_bytes", "tolerance"), [(9, 8, 1e-12), (13, 8, 1e-12), (13, 4, 1e-5), (15, 4, 1e-5), (16, 8, 1e-12)]
)
@pytest.mark.parametrize("layers", [0, 2])
def test_spanning_states_equal_statevector(qubits: int, real_bytes: int, tolerance: float, layers: int) -> None:
    assert_spanning_states_equal_statevector(
        layered(qubits, layers) if layers else circuits.build("deep", qubits), real_bytes, tolerance
    )


@pytest.mark.parametrize(("qubits", "real_bytes", "tolerance"), [(11, 8, 1e-12), (15, 4, 1e-5)])
def test_strings_of_spanning_states_equal_statevector(qubits: int, real_bytes: int, tolerance: float) -> None:
    """Strings in other bases are measured for the mixtures, too."""
    assert_spanning_states_equal_statevector(with_strings(layered(qubits, 1)), real_bytes, tolerance)


def assert_spanning_states_equal_statevector(ansatz: Ansatz, real_bytes: int, tolerance: float) -> None:
    """Compare readouts and gradient of more samples than qubits."""
    qubits = len(ansatz.circuit.all_qubits())
    random = np.random.default_rng(6)
    values, weights = random.uniform(0, 2, len(ansatz.symbols)), random.normal(size=(64, len(ansatz.readouts)))
    angles = random.uniform(-np.pi, np.pi, 64)
    batch = ExcitationBatch(tf.constant(random.integers(0, qubits, 64), tf.int32), tf.constant(angles, tf.float32))
    limits = SimulatorLimits(2**30, 64, real_bytes=real_bytes)
    simulator, reference = (
        simulators.create(name, ansatz, circuits.ring(qubits), limits) for name in ("statevector_cpu", "statevector")
    )
    assert costs.statevector_cpu.plan_memory(simulator.network, limits).spanning
    readouts, gradient = step(simulator, values, batch, weights, compiled=True)
    # Not compiled, which takes less time for a single step.
    expected, expected_gradient = step(reference, values, batch, weights)
    np.testing.assert_allclose(readouts, expected, atol=tolerance)
    np.testing.assert_allclose(gradient, expected_gradient, atol=10 * tolerance)


@pytest.mark.parametrize(("quota", "threads"), [(0, 64), (3, 3), (100, 64)])
def test_kernels_use_no_more_threads_than_cpu_quota(quota: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "cores_of_quota", lambda: quota)
    assert kernels.max_threads() == threads
