"""Contract of simulators: readouts and gradients that are equal to those of Cirq."""

import dataclasses
import functools
import itertools
from typing import NamedTuple

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits import circuits, observables
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.noise import NOISELESS, Noise, parse
from qcnn.circuits.preparation import EXCITATION, Kind, Preparation
from qcnn.errors import ConfigError
from qcnn.simulators import (
    AmplitudeBatch,
    CircuitInputBatch,
    ExcitationBatch,
    Inputs,
    ProductStateBatch,
    Simulator,
    SimulatorLimits,
    StateBatch,
    StringCoefficients,
    registry,
)
from qcnn.simulators.structure.gates import read_network
from qcnn.testing.cirq_readouts import Floats, readouts_of_batch
from qcnn.testing.steps import step

LIMITS = SimulatorLimits(memory=2**31, batch=32)
NOISE = parse("depolarizing.one=0.01,depolarizing.two=0.04,amplitude_damping=0.03,phase_damping.two=0.05,readout=0.02")
KINDS: tuple[Kind, ...] = ("excitation", "rx", "ry", "rz", "dense", "state")
# Step of numerical derivatives, whose error is of fourth order.
_STEP = 1e-3
# Error of numerical derivatives, and of states, whose float32 amplitudes are not exactly normalized.
_MIN_ERROR = 1e-6


# A gate has at most this number of qubits: longer strings are evaluated in another way.
_WIDE = 4


class Case(NamedTuple):
    """Circuit, samples and noise.

    Attributes:
        circuit: Name of a model, or `shifts`: four qubits with all types of shift rules, or `cones`: five qubits with
            two readouts, whose light cones have three and four qubits, or `strings`: `deep` with Pauli strings on one
            to five qubits as readouts, or `few`: one to three qubits, or `inputs`: gates that depend on inputs.
        qubits: Number of qubits.
        kind: Type of the samples.
        features: Number of features of product states.
        is_noisy: Whether the circuit has noise.
        batch_size: Number of samples. 0: for excitations, one on every qubit and one more; otherwise 3.
    """

    circuit: str
    qubits: int
    kind: Kind = "excitation"
    features: int = 0
    is_noisy: bool = False
    batch_size: int = 0

    @property
    def preparation(self) -> Preparation:
        """Preparation of the samples."""
        if self.kind == "excitation":
            return EXCITATION
        if self.kind == "circuit":
            return Preparation(self.kind, len(self.ansatz.inputs))
        return Preparation(self.kind) if self.kind == "state" else Preparation(self.kind, self.features)

    @property
    def noise(self) -> Noise:
        """Noise of the circuit."""
        return NOISE if self.is_noisy else NOISELESS

    @property
    def ansatz(self) -> Ansatz:
        """Trainable circuit."""
        if self.circuit == "strings":
            return _with_strings(self.qubits)
        if self.circuit == "few":
            return _with_few_qubits(self.qubits)
        if self.circuit == "inputs":
            return _with_inputs(self.qubits)
        build = {"shifts": _with_all_shift_rules, "cones": _with_two_cones}.get(self.circuit)
        return build() if build else circuits.build(self.circuit, self.qubits)

    @property
    def values(self) -> Floats:
        """Circuit parameters, (parameters,)."""
        return np.random.default_rng(self.qubits).uniform(0, 2, len(self.ansatz.symbols))

    @property
    def batch(self) -> Inputs:
        """Samples, whose angles and amplitudes are float32."""
        random = np.random.default_rng(self.qubits)
        if self.kind == "excitation":
            excited = random.integers(0, self.qubits, self.batch_size) if self.batch_size else [*range(self.qubits), 1]
            angles = random.uniform(-np.pi, np.pi, len(excited))
            return ExcitationBatch(tf.constant(excited, tf.int32), tf.constant(angles, tf.float32))
        count = self.batch_size or 3
        if self.kind == "state":
            states = random.normal(size=(count, 2**self.qubits))
            return StateBatch(tf.constant(states / np.linalg.norm(states, axis=1, keepdims=True), tf.float32))
        if self.kind == "circuit":
            return CircuitInputBatch(tf.constant(random.uniform(-1, 1, (count, len(self.ansatz.inputs)))))
        return ProductStateBatch(tf.constant(random.uniform(-np.pi, np.pi, (count, self.features)), tf.float32))

    @property
    def weights(self) -> Floats:
        """Weights of the differentiated sum of readouts, (samples, readouts). All but two samples have weight 0."""
        weights = np.zeros((self.batch[0].shape[0], len(self.ansatz.readouts)))
        weighed = [0, -2] if len(weights) > 1 else [0]
        weights[weighed] = np.random.default_rng(self.qubits).normal(size=(len(weighed), weights.shape[1]))
        return weights

    def create(self, simulator: str, gradient: str = "adjoint", limits: SimulatorLimits = LIMITS) -> Simulator:
        """Return the simulator, or skip the test if its declaration excludes the case, or it rejects a gate."""
        reason = registry.unsupported_reason(
            simulator,
            self.qubits,
            noise=self.is_noisy,
            shifts=gradient != "adjoint",
            states="of the test" if self.kind == "state" else "",
            strings=self.circuit == "strings",
            inputs=self.kind == "circuit",
        )
        if reason:
            pytest.skip(reason)
        ring = circuits.ring(self.qubits)
        try:
            return simulators.create(simulator, self.ansatz, ring, limits, self.preparation, self.noise, gradient)
        except ConfigError as error:
            if not str(error).startswith("model: "):
                raise
            pytest.skip(str(error))


def _with_all_shift_rules() -> Ansatz:
    """Return gates with two phases, with three equidistant phases, with factors, and with one phase only."""
    ring, (s, t) = circuits.ring(4), sympy.symbols("s t")
    gates = [cirq.Y(ring[0]) ** s, cirq.rx(0.7 * s - t)(ring[1]), cirq.CNOT(ring[1], ring[0])]
    gates += [cirq.ISWAP(ring[1], ring[2]) ** (0.5 * t), cirq.FSimGate(s, t)(ring[0], ring[2])]
    gates += [cirq.ry(t)(ring[3]).controlled_by(ring[2]), cirq.CCX(ring[3], ring[2], ring[1]) ** s]
    return Ansatz(cirq.Circuit(gates, cirq.XX(ring[0], ring[3]) ** s), (s, t), (ring[0], ring[1]))


def _with_two_cones() -> Ansatz:
    ring, (s, t) = circuits.ring(5), sympy.symbols("s t")
    gates = [cirq.Y(ring[0]) ** s, cirq.CNOT(ring[1], ring[0]), cirq.XX(ring[1], ring[2]) ** t, cirq.X(ring[4]) ** t]
    gates += [cirq.CCX(ring[2], ring[4], ring[3]) ** s, cirq.YY(ring[1], ring[0]) ** (s - t)]
    return Ansatz(cirq.Circuit(gates), (s, t), (ring[0], ring[3]))


def _with_strings(qubits: int) -> Ansatz:
    """Return `deep` with all kinds of strings: single operators, and products in one and in several bases."""
    ansatz, last = circuits.build("deep", qubits), qubits - 1
    texts = [f"Z{last}", "Y0", f"Z0*Z{last}", "X0*Y1*Z2", "*".join(f"Z{qubit}" for qubit in range(min(qubits, 5)))]
    if qubits > _WIDE:
        texts += ["*".join(f"{axis}{qubit}" for qubit, axis in enumerate(axes)) for axes in ("XYXZX", "YYZXY")]
    return dataclasses.replace(ansatz, readouts=observables.parse(", ".join(texts)))


def _with_few_qubits(qubits: int) -> Ansatz:
    """Return gates on at most three qubits, with Z on each as readouts."""
    ring, (s, t) = circuits.ring(qubits), sympy.symbols("s t")
    gates = [cirq.X(ring[0]) ** s, cirq.Y(ring[0]) ** t]
    for one, other in itertools.pairwise(ring):
        gates += [cirq.YY(one, other) ** s, cirq.CNOT(one, other), cirq.X(other) ** t]
    return Ansatz(cirq.Circuit(gates), (s, t), tuple(ring))


def _with_inputs(qubits: int) -> Ansatz:
    """Return a circuit with repeated inputs, products of inputs and parameters, and gates without inputs between."""
    ring, x = circuits.ring(qubits), sympy.symbols(f"x0:{qubits}")
    w = sympy.symbols(f"w0:{2 * qubits + 2}")
    gates: list[cirq.Operation] = []
    for layer in range(2):
        scale, bias = w[2 * qubits + layer], w[layer]
        for number, qubit in enumerate(ring):
            gates += [cirq.rx(x[number])(qubit), cirq.Y(qubit) ** w[2 * number], cirq.Z(qubit) ** w[2 * number + 1]]
            gates += [cirq.ry(scale * x[number - 1] + 0.3 * bias + 0.1)(qubit)]
        for (one, a), (other, b) in itertools.pairwise(zip(ring, x, strict=True)):
            gates += [cirq.CNOT(one, other), cirq.ZZ(one, other) ** ((sympy.pi - a) * (sympy.pi - b) / sympy.pi)]
            gates += [cirq.CZ(other, one) ** sympy.cos(a), cirq.ISWAP(one, other) ** (x[0] ** 2 / 2)]
    readouts = [cirq.Z(ring[0]), cirq.X(ring[-1]), *([cirq.Z(ring[0]) * cirq.Y(ring[1])] if qubits > 1 else [])]
    return Ansatz(cirq.Circuit(gates), w, readouts, x)


class Expected(NamedTuple):
    """Cirq's readouts of a case, and the derivative of their weighted sum along a direction in all parameters."""

    readouts: Floats
    direction: Floats
    slope: float


@functools.cache
def by_cirq(case: Case) -> Expected:
    """Simulate a case with Cirq, once for all simulators."""
    ansatz, values, batch, weights = case.ansatz, case.values, case.batch, case.weights
    weighed = np.flatnonzero(weights.any(axis=1))
    few = type(batch)(*(tf.gather(column, weighed) for column in batch if column is not None))

    def loss(values: Floats) -> float:
        found = readouts_of_batch(ansatz, case.qubits, values, case.preparation, few, case.noise)
        return float(np.sum(weights[weighed] * found))

    direction = np.random.default_rng(1).choice([-1.0, 1.0], len(values)) / np.sqrt(len(values))
    along = _STEP * direction
    near, far = (loss(values + steps * along) - loss(values - steps * along) for steps in (1, 2))
    readouts = readouts_of_batch(ansatz, case.qubits, values, case.preparation, batch, case.noise)
    return Expected(readouts, direction, (8 * near - far) / (12 * _STEP))


class SimulatorContract:
    """Tests of a simulator of the registry or of an installed plug-in. The fixture `simulator` is its name."""

    @pytest.fixture
    def simulator(self) -> str:
        """Name of the simulator, which a subclass returns."""
        raise NotImplementedError

    def readout_error(self, simulator: Simulator) -> float:
        """Return the allowed error of a readout."""
        is_state = simulator.network.preparation.kind == "state"
        return max(simulator.rounding, _MIN_ERROR if is_state else 0.0)

    def gradient_error(self, simulator: Simulator) -> float:
        """Return the allowed error of a derivative."""
        return max(10 * simulator.rounding, _MIN_ERROR)

    def test_limits_are_declared_and_checked(self, simulator: str) -> None:
        """Estimate, check and create the simulator, with enough memory and with one byte."""
        network, costs = read_network(circuits.build("hybrid", 4), circuits.ring(4)), registry.costs_of(simulator)
        need = costs.estimate(network, LIMITS).memory
        assert 0 < need < LIMITS.memory
        costs.check(network, LIMITS)
        assert registry.load(simulator).create(network, LIMITS).name == simulator

    def test_too_little_memory_is_one_clear_error(self, simulator: str) -> None:
        """Reject a network that needs more memory than the limit."""
        network, limits = read_network(circuits.build("hybrid", 4), circuits.ring(4)), SimulatorLimits(1.0, batch=4)
        messages = []
        for function in (registry.check, registry.create):
            with pytest.raises(ConfigError, match=rf"^qubits: .*simulator {simulator}.* Given: 4$") as error:
                function(simulator, network, limits)
            messages.append(str(error.value))
        assert messages[0] == messages[1]

    @pytest.mark.parametrize("qubits", range(4, 13))
    @pytest.mark.parametrize("model", ["hybrid", "deep"])
    def test_excitations_equal_cirq(self, simulator: str, model: str, qubits: int) -> None:
        """Compare readouts and gradients on odd and even rings, compiled as in training for some."""
        self.assert_equals_cirq(simulator, Case(model, qubits), compiled=qubits in (5, 12))

    @pytest.mark.parametrize(
        ("model", "qubits", "features", "compiled"),
        [("hybrid", 7, 7, True), ("deep", 6, 4, False), ("hybrid", 8, 1, False), ("deep", 5, 5, False)],
    )
    @pytest.mark.parametrize("kind", KINDS[1:])
    def test_features_and_states_equal_cirq(
        self, simulator: str, kind: Kind, model: str, qubits: int, features: int, compiled: bool
    ) -> None:
        """Compare readouts and gradients."""
        # One product state is enough, because all of them compile to the same operations.
        compiled = compiled and kind in ("ry", "state")
        self.assert_equals_cirq(simulator, Case(model, qubits, kind, features), compiled=compiled)

    @pytest.mark.parametrize("qubits", [1, 2, 3])
    @pytest.mark.parametrize("kind", KINDS)
    def test_few_qubits_equal_cirq(self, simulator: str, kind: Kind, qubits: int) -> None:
        """Compare readouts and gradients of circuits that are smaller than the built-in ones."""
        features = 2 * qubits if kind == "dense" else qubits
        self.assert_equals_cirq(simulator, Case("few", qubits, kind, features, batch_size=5), compiled=False)

    @pytest.mark.parametrize(
        ("qubits", "kind", "is_noisy"),
        [
            (4, "excitation", False),
            (4, "excitation", True),
            (6, "excitation", False),
            (5, "ry", False),
            (5, "state", False),
        ],
    )
    def test_pauli_strings_equal_cirq(self, simulator: str, qubits: int, kind: Kind, is_noisy: bool) -> None:
        """Compare Pauli strings and gradients."""
        case = Case("strings", qubits, kind, qubits, is_noisy)
        self.assert_equals_cirq(simulator, case, compiled=qubits == _WIDE and not is_noisy)

    @pytest.mark.parametrize("is_noisy", [False, True])
    @pytest.mark.parametrize("qubits", [1, 2, 4])
    def test_inputs_equal_cirq(self, simulator: str, qubits: int, is_noisy: bool) -> None:
        """Compare readouts of a circuit with inputs, and their gradients for parameters and inputs."""
        case = Case("inputs", qubits, "circuit", is_noisy=is_noisy)
        self.assert_equals_cirq(simulator, case, compiled=qubits == 2)
        created, features, weights = case.create(simulator), case.batch[0], tf.constant(case.weights)
        direction = np.random.default_rng(2).choice([-1.0, 1.0], features.shape)
        with tf.GradientTape() as tape:
            tape.watch(features)
            values = created.expectations(tf.constant(case.values), CircuitInputBatch(features))
            loss = tf.reduce_sum(values * weights)
        found = np.sum(tape.gradient(loss, features) * direction)

        def shifted(steps: int) -> float:
            moved = CircuitInputBatch(features + steps * _STEP * direction)
            readouts = readouts_of_batch(case.ansatz, qubits, case.values, case.preparation, moved, case.noise)
            return float(np.sum(case.weights * readouts))

        near, far = (shifted(steps) - shifted(-steps) for steps in (1, 2))
        expected = (8 * near - far) / (12 * _STEP)
        np.testing.assert_allclose(found, expected, rtol=0, atol=10 * self.gradient_error(created))

    @pytest.mark.parametrize(
        ("circuit", "qubits", "is_noisy", "gradient"),
        [
            ("strings", 5, False, "adjoint"),
            ("few", 3, True, "adjoint"),
            ("few", 2, False, "parameter_shift"),
        ],
    )
    def test_gradient_of_amplitudes_equals_cirq(
        self, simulator: str, circuit: str, qubits: int, is_noisy: bool, gradient: str
    ) -> None:
        """Compare the derivative of readouts in the amplitudes of unnormalized states, along one direction each."""
        case = Case(circuit, qubits, "state", is_noisy=is_noisy)
        created, weights = case.create(simulator, gradient), case.weights
        random = np.random.default_rng(3)
        rows, direction = (random.normal(size=(len(weights), 2**case.qubits)) for _ in range(2))

        def states(rows: tf.Tensor) -> tf.Tensor:
            return rows / tf.norm(rows, axis=1, keepdims=True)

        given = tf.constant(rows)
        with tf.GradientTape() as tape:
            tape.watch(given)
            values = created.expectations(tf.constant(case.values), AmplitudeBatch(states(given)))
            loss = tf.reduce_sum(values * weights)
        found = np.sum(tape.gradient(loss, given) * direction)

        def shifted(steps: int) -> float:
            moved = StateBatch(states(tf.constant(rows + steps * _STEP * direction)))
            readouts = readouts_of_batch(case.ansatz, case.qubits, case.values, case.preparation, moved, case.noise)
            return float(np.sum(weights * readouts))

        near, far = (shifted(steps) - shifted(-steps) for steps in (1, 2))
        expected = (8 * near - far) / (12 * _STEP)
        np.testing.assert_allclose(found, expected, rtol=0, atol=self.gradient_error(created))
        assert abs(expected) > 1e-3

    @pytest.mark.parametrize(
        ("circuit", "qubits", "kind"),
        [("hybrid", 4, "excitation"), ("deep", 5, "excitation"), *(("cones", 5, kind) for kind in KINDS)],
    )
    def test_noise_equals_cirq(self, simulator: str, circuit: str, qubits: int, kind: Kind) -> None:
        """Compare readouts and gradients of noisy circuits."""
        compiled = circuit == "hybrid" or kind in ("rz", "state")
        self.assert_equals_cirq(simulator, Case(circuit, qubits, kind, 4, is_noisy=True), compiled=compiled)

    def assert_equals_cirq(self, simulator: str, case: Case, *, compiled: bool) -> None:
        """Compare all readouts, and the derivative of a weighted sum along a direction in all parameters."""
        created, expected = case.create(simulator), by_cirq(case)
        readouts, gradient = step(created, case.values, case.batch, case.weights, compiled=compiled)
        np.testing.assert_allclose(readouts, expected.readouts, rtol=0, atol=self.readout_error(created))
        np.testing.assert_allclose(
            gradient @ expected.direction, expected.slope, rtol=0, atol=self.gradient_error(created)
        )

    @pytest.mark.parametrize(("circuit", "kind"), [("shifts", "excitation"), ("inputs", "circuit")])
    @pytest.mark.parametrize("is_noisy", [False, True])
    def test_parameter_shift_equals_adjoint(self, simulator: str, is_noisy: bool, circuit: str, kind: Kind) -> None:
        """Compare the gradients of shifted circuits with those of the simulator."""
        case = Case(circuit, 4 if kind == "excitation" else 2, kind, is_noisy=is_noisy)
        shifted, adjoint = (case.create(simulator, gradient) for gradient in ("parameter_shift", "adjoint"))
        assert shifted.name == adjoint.name == simulator
        found, expected = (step(each, case.values, case.batch, case.weights) for each in (shifted, adjoint))
        np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=2 * self.readout_error(adjoint))
        np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=self.gradient_error(adjoint))
        assert np.abs(expected[1]).min() > 0.005

    @pytest.mark.parametrize(
        "case",
        [Case(model, 7, batch_size=20) for model in ("hybrid", "deep")]
        + [Case("cones", 5, batch_size=20, is_noisy=is_noisy) for is_noisy in (False, True)]
        + [Case("strings", 6, batch_size=20)],
        ids=str,
    )
    def test_table_equals_expectations(self, simulator: str, case: Case) -> None:
        """Compare the coefficients of every excitation with its readouts."""
        created, batch = case.create(simulator), case.batch
        assert isinstance(batch, ExcitationBatch)
        expected = created.expectations(tf.constant(case.values), batch)
        found = _readouts_of_table(created.table(tf.constant(case.values)), batch)
        np.testing.assert_allclose(found, expected, rtol=0, atol=4 * self.readout_error(created))

    @pytest.mark.parametrize("kind", KINDS)
    def test_batch_size_does_not_change_readouts(self, simulator: str, kind: Kind) -> None:
        """Compare batches of static and of dynamic size, also without samples, and the gradient of the largest."""
        case = Case("hybrid", 5, kind, 4, batch_size=40)
        created, parameters = case.create(simulator), tf.constant(case.values)
        batch_type = type(case.batch)
        columns = [column for column in case.batch if column is not None]
        every = created.expectations(parameters, case.batch)
        few = created.expectations(parameters, batch_type(*(column[:3] for column in columns)))
        error = 2 * self.readout_error(created)
        np.testing.assert_allclose(few, every[:3], rtol=0, atol=error)
        shapes = [tf.TensorSpec([None, *column.shape[1:]], column.dtype) for column in columns]

        @tf.function(input_signature=shapes, autograph=False)
        def of_any_size(*columns: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape() as tape:
                tape.watch(parameters)
                readouts = created.expectations(parameters, batch_type(*columns))
            return readouts, tape.gradient(readouts, parameters)

        for size in (0, 1, 39, 40):
            readouts, gradient = of_any_size(*(column[:size] for column in columns))
            np.testing.assert_allclose(readouts, every[:size], rtol=0, atol=error)
        _, expected = step(created, case.values, case.batch, np.ones(every.shape))
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=64 * error)

    def test_replicas_that_split_by_qubit_add_up(self, simulator: str) -> None:
        """Compare the shares of replicas with the step of the whole batch."""
        case = Case("deep", 9, batch_size=64)
        created, batch = case.create(simulator), case.batch
        assert isinstance(batch, ExcitationBatch)
        if not created.shards_by_qubit(64, 2):
            pytest.skip("replicas split the batch by sample")
        weights = np.random.default_rng(0).normal(size=case.weights.shape)
        readouts, gradient = step(created, case.values, batch, weights)
        total = np.zeros_like(gradient)
        for own in ([0, 1, 2, 3, 4], [5, 6, 7, 8, -1]):
            mine = np.isin(batch.qubit, own)
            shared = batch._replace(own=tf.constant(own))
            found, part = step(created, case.values, shared, weights * mine[:, None])
            assert np.isfinite(found).all()
            np.testing.assert_allclose(found[mine], readouts[mine], rtol=0, atol=2 * self.readout_error(created))
            total += part
        np.testing.assert_allclose(total, gradient, rtol=0, atol=64 * self.readout_error(created))

    @pytest.mark.parametrize("kind", KINDS[1:])
    def test_features_and_states_are_split_by_sample(self, simulator: str, kind: Kind) -> None:
        """Only excitations can be split by qubit."""
        assert not Case("deep", 9, kind, 9).create(simulator).shards_by_qubit(64, 2)


def _readouts_of_table(table: StringCoefficients, batch: ExcitationBatch) -> Floats:
    """Return the readouts of excitations from coefficients, (samples, readouts)."""
    readouts = np.tile(table.unexcited.numpy(), (batch.qubit.shape[0], 1))
    for row, excited, angle in zip(readouts, batch.qubit.numpy(), batch.angle.numpy().astype(np.float64), strict=True):
        change = (1 - np.cos(angle)) / 2 * table.flipped[excited] + np.sin(angle) / 2 * table.mixed[excited]
        change += 0 if table.still is None else table.still[excited]
        # A readout may occur in several columns, of which only one is nonzero.
        np.add.at(row, table.reached[excited].numpy(), change.numpy())
    return readouts
