"""Measurements in mid-circuit, whose bits condition gates, compared with sampled measurements of Cirq."""

import itertools
from typing import Any

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats import cirq_json, openqasm
from qcnn.circuits.noise import Noise
from qcnn.circuits.noise import parse as parse_noise
from qcnn.circuits.observables import parse
from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError
from qcnn.simulators import ProductStateBatch, SimulatorLimits, StateBatch
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.trajectories import Trajectories

Q = ring(4)
S, T = sympy.symbols("s t")
C = sympy.Symbol("c")
PREPARED = [cirq.X(Q[0]) ** S, cirq.Y(Q[1]) ** T, cirq.CNOT(Q[0], Q[1]), cirq.ry(0.4)(Q[2]), cirq.rx(1.1)(Q[3])]
MEASURED = cirq.measure(Q[0], key="c")
# Pooling: the outcome of one qubit selects the gate on another.
POOLING = cirq.Circuit(
    PREPARED,
    MEASURED,
    (cirq.Y(Q[2]) ** S).with_classical_controls("c"),
    (cirq.X(Q[3]) ** T).with_classical_controls(sympy.Eq(C, 0)),
    cirq.CZ(Q[0], Q[1]),
    cirq.measure(Q[2], key="d", invert_mask=(True,)),
    cirq.X(Q[3]).with_classical_controls("c", "d"),
)
VALUES = {"s": 0.3, "t": 0.7, "first": 0.3, "second": 0.7}
SOURCE = """OPENQASM 3.0;
include "stdgates.inc";
input float[64] first;
input float[64] second;
qubit[4] q;
bit c;
bit[1] d;
bit[2] out;
rx(first) q[0]; ry(second) q[1]; cx q[0], q[1]; ry(0.4) q[2]; rx(1.1) q[3];
c = measure q[0];
if (c == 1) { ry(first) q[2]; } else { rx(second) q[3]; }
cz q[0], q[1];
d[0] = measure q[2];
if (c) { if (d != 1) x q[3]; }
"""


def _sampled(circuit: cirq.Circuit, observables: list[cirq.PauliString[cirq.Qid]], branches: int = 400) -> list[float]:
    """Return the mean of expectation values over runs of Cirq that sample the measurements."""
    total = np.zeros(len(observables))
    for seed in range(branches):
        state = cirq.Simulator(dtype=np.complex128, seed=seed).simulate(circuit, VALUES, qubit_order=Q)
        place: dict[cirq.Qid, int] = {qubit: number for number, qubit in enumerate(Q)}
        total += [each.expectation_from_state_vector(state.final_state_vector, place).real for each in observables]
    return list(total / branches)


def _exact(ansatz: Ansatz) -> np.ndarray[Any, np.dtype[np.float64]]:
    simulator = simulators.create("auto", ansatz, Q, SimulatorLimits(2**30, 1), Preparation("ry", 4))
    names = [symbol.name for symbol in ansatz.symbols]
    parameters = tf.constant([VALUES[name] for name in names], tf.float64)
    (values,) = simulator.expectations(parameters, ProductStateBatch(tf.zeros([1, 4]))).numpy()
    return np.asarray(values)


def test_readouts_equal_the_mean_over_measurements() -> None:
    readouts = parse("Z3, X3*Z2, Z0, Y1*Z0*Z2")
    observables = [cirq.PauliString({Q[3]: "Z"}), cirq.X(Q[3]) * cirq.Z(Q[2]), cirq.PauliString({Q[0]: "Z"})]
    observables.append(cirq.Y(Q[1]) * cirq.Z(Q[0]) * cirq.Z(Q[2]))
    found = _exact(Ansatz(POOLING, (S, T), readouts))
    np.testing.assert_allclose(found, _sampled(POOLING, observables), atol=4 / np.sqrt(400))
    # Cirq's own deferral adds a qubit for each bit, and is exact.
    deferred = cirq.defer_measurements(POOLING)
    expected = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        cirq.Circuit(op for op in deferred.all_operations() if not cirq.is_measurement(op)), observables, VALUES
    )
    np.testing.assert_allclose(found, np.real(expected), atol=1e-6)


def test_openqasm_equals_cirq() -> None:
    found = openqasm.read(SOURCE + "out[0] = measure q[3]; out[1] = measure q[1];", "pooling.qasm")
    assert found.readouts == (Q[3], Q[1])
    rotations = {cirq.X: cirq.XPowGate, cirq.Y: cirq.YPowGate}
    circuit = cirq.Circuit(
        rotations[cirq.X](exponent=S, global_shift=-0.5)(Q[0]),
        rotations[cirq.Y](exponent=T, global_shift=-0.5)(Q[1]),
        *PREPARED[2:],
        MEASURED,
        cirq.YPowGate(exponent=S, global_shift=-0.5)(Q[2]).with_classical_controls("c"),
        cirq.XPowGate(exponent=T, global_shift=-0.5)(Q[3]).with_classical_controls(sympy.Eq(C, 0)),
        cirq.CZ(Q[0], Q[1]),
        cirq.measure(Q[2], key="d"),
        cirq.X(Q[3]).with_classical_controls("c", sympy.Eq(sympy.Symbol("d"), 0)),
    )
    np.testing.assert_allclose(_exact(found), _exact(Ansatz(circuit, (S, T), found.readouts)), atol=1e-6)


def test_openqasm_2_conditions_on_registers() -> None:
    head = 'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[3]; creg c[2]; creg d[1];\n'
    measured = "measure q[0] -> c[0]; measure q[1] -> c[1];"
    found = openqasm.read(f"{head}h q[0]; {measured} if (c==2) x q[2];", "a.qasm")
    expected = cirq.X(Q[2]).controlled_by(Q[0], Q[1], control_values=[0, 1])
    np.testing.assert_allclose(
        cirq.unitary(found.circuit), cirq.unitary(cirq.Circuit(cirq.H(Q[0]), expected)), atol=1e-9
    )
    assert found.readouts == (Q[2],)


def test_circuit_is_embedded_without_measurements() -> None:
    first = Ansatz(POOLING, (S, T), parse("Z3"))
    again = cirq_json.read(cirq_json.to_json(first), "pooling.json")
    assert again == first
    measured = POOLING + cirq.measure(Q[3], key="out")
    assert cirq_json.read(cirq.to_json(measured), "pooling.json") == first


def test_qubit_that_is_not_measured_at_the_end_is_no_readout() -> None:
    circuit = cirq.Circuit(*PREPARED, MEASURED, cirq.X(Q[2]).with_classical_controls("c"), cirq.reset(Q[1]))
    assert cirq_json.read(cirq.to_json(circuit), "a.json").readouts == (Q[2], Q[3])
    source = SOURCE + "reset q[1];"
    assert openqasm.read(source, "a.qasm").readouts == (Q[3],)


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        (
            [MEASURED, cirq.X(Q[1]).with_classical_controls("c"), cirq.H(Q[0])],
            r"may control .* Given: H\(q\(0, 0\)\) af",
        ),
        ([MEASURED, cirq.X(Q[1]).with_classical_controls("c"), cirq.CNOT(Q[1], Q[0])], r"may control .* Given: CNOT"),
        ([MEASURED, cirq.X(Q[0]).with_classical_controls("c")], r"may control .* is conditioned by the measurement of"),
        ([cirq.measure(Q[0], Q[1], key="c"), cirq.X(Q[2]).with_classical_controls("c")], "must be of one qubit"),
        ([MEASURED, cirq.X(Q[2]).with_classical_controls(C > 0)], "by bits that are 1, or equal 0 or 1. Given: c > 0"),
        ([MEASURED, cirq.X(Q[2]).with_classical_controls(sympy.Eq(C, 2))], "by bits that are 1, or equal 0 or 1"),
        ([cirq.X(Q[2]).with_classical_controls("c"), MEASURED], "measured before it conditions a gate. Given: c"),
        ([cirq.reset(Q[0]), cirq.X(Q[0])], r"must not be used after its reset, .* Given: q\(0, 0\)"),
        ([MEASURED, cirq.X(Q[2]) ** S], "a measurement must condition a gate"),
    ],
)
def test_use_against_the_rule_is_one_clear_error(operations: list[cirq.Operation], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^model: .*{message}"):
        Ansatz(cirq.Circuit(operations), (), (Q[2],))


def test_measured_qubit_is_read_out_in_z_only() -> None:
    with pytest.raises(ConfigError, match=r"^model: after a qubit is measured .* Given: readout X of q\(0, 0\)$"):
        Ansatz(POOLING, (S, T), parse("Z3, X0*Z3"))


NOISY = cirq.Circuit(
    PREPARED[:3],
    MEASURED,
    (cirq.Y(Q[2]) ** S).with_classical_controls(sympy.Eq(C, 0)),
    cirq.measure(Q[1], key="d"),
    (cirq.ISWAP(Q[2], Q[3]) ** T).with_classical_controls("d"),
)


def _by_density_matrix(noise: Noise, flipped: tuple[int, int]) -> float:
    """Return Z on the last qubit by Cirq, with bits that condition the opposite."""
    controls = [(Q[0], flipped[0]), (Q[1], 1 - flipped[1])]
    gates: list[cirq.Operation] = []
    for operation in PREPARED[:3]:
        gates += [operation, *_channel(noise, operation.qubits)]
    own = [cirq.Y(Q[2]) ** S, cirq.ISWAP(Q[2], Q[3]) ** T]
    for (control, outcome), operation in zip(controls, own, strict=True):
        gates += [operation.controlled_by(control, control_values=[outcome]), *_channel(noise, operation.qubits)]
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    (value,) = simulator.simulate_expectation_values(cirq.Circuit(gates), [cirq.Z(Q[3])], VALUES, qubit_order=Q)
    return float(np.real(value))


def _channel(noise: Noise, qubits: tuple[cirq.Qid, ...]) -> list[cirq.Operation]:
    channel = noise.channel(len(qubits))
    assert channel
    return [cirq.depolarize(channel.depolarizing, n_qubits=len(qubits))(*qubits)]


def test_noise_of_a_conditioned_gate_is_on_its_own_qubits_and_bits_are_flipped() -> None:
    noise, p = parse_noise("depolarizing.one=0.1,depolarizing.two=0.05,readout=0.15"), 0.15
    weights = {(0, 0): (1 - p) ** 2, (0, 1): p * (1 - p), (1, 0): p * (1 - p), (1, 1): p**2}
    # The readout itself is flipped, too.
    expected = (1 - 2 * p) * sum(weight * _by_density_matrix(noise, flipped) for flipped, weight in weights.items())
    ansatz = Ansatz(NOISY, (S, T), (Q[3],))
    simulator = simulators.create("density", ansatz, Q, SimulatorLimits(2**30, 1), Preparation("state"), noise)
    parameters = tf.constant([VALUES["s"], VALUES["t"]], tf.float64)
    ground = tf.constant(np.eye(1, 16), tf.float32)
    (value,) = simulator.expectations(parameters, StateBatch(ground)).numpy()
    np.testing.assert_allclose(value, [expected], atol=1e-9)
    count = 20_000
    trajectories = Trajectories(read_network(ansatz, Q, Preparation("state"), noise), parameters.numpy())
    units = np.random.default_rng(0).random((count, trajectories.draws))
    sampled = trajectories.values({"state": np.tile(np.eye(1, 16), (count, 1))}, units)[:, 0]
    assert abs(sampled.mean() - expected) < 4 * sampled.std() / np.sqrt(count)


# Gates that measured bits condition: of the first qubit three, of the second two, once both.
SHARED: list[tuple[cirq.Operation, dict[cirq.Qid, int]]] = [
    (cirq.Y(Q[2]) ** S, {Q[0]: 0}),
    (cirq.ISWAP(Q[2], Q[3]) ** T, {Q[1]: 1}),
    (cirq.X(Q[3]) ** S, {Q[0]: 1}),
    (cirq.X(Q[2]) ** T, {Q[0]: 1, Q[1]: 0}),
]


def _flipped_by_density_matrix(noise: Noise, flips: dict[cirq.Qid, int]) -> float:
    """Return Z on the last qubit by Cirq, with flips of the bits."""
    gates: list[cirq.Operation] = []
    for operation in PREPARED[:3]:
        gates += [operation, *_channel(noise, operation.qubits)]
    for operation, bits in SHARED:
        outcomes = [outcome ^ flips[qubit] for qubit, outcome in bits.items()]
        gates += [operation.controlled_by(*bits, control_values=outcomes), *_channel(noise, operation.qubits)]
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    (value,) = simulator.simulate_expectation_values(cirq.Circuit(gates), [cirq.Z(Q[3])], VALUES, qubit_order=Q)
    return float(np.real(value))


@pytest.mark.parametrize("p", [0.15, 0.7])
def test_several_gates_see_the_same_flip_of_their_bit(p: float) -> None:
    noise = parse_noise(f"depolarizing.one=0.1,depolarizing.two=0.05,readout={p}")
    expected = (1 - 2 * p) * sum(
        (p if first else 1 - p)
        * (p if second else 1 - p)
        * _flipped_by_density_matrix(noise, {Q[0]: first, Q[1]: second})
        for first, second in itertools.product((0, 1), repeat=2)
    )
    keys: dict[cirq.Qid, str] = {Q[0]: "c", Q[1]: "d"}
    conditions = [
        [sympy.Eq(sympy.Symbol(keys[qubit]), outcome) for qubit, outcome in bits.items()] for _, bits in SHARED
    ]
    gates = [operation.with_classical_controls(*each) for (operation, _), each in zip(SHARED, conditions, strict=True)]
    measured = [cirq.measure(qubit, key=key) for qubit, key in keys.items()]
    ansatz = Ansatz(cirq.Circuit(PREPARED[:3], measured, gates), (S, T), (Q[3],))
    simulator = simulators.create("density", ansatz, Q, SimulatorLimits(2**30, 1), Preparation("state"), noise)
    parameters = tf.constant([VALUES["s"], VALUES["t"]], tf.float64)
    (value,) = simulator.expectations(parameters, StateBatch(tf.constant(np.eye(1, 16), tf.float32))).numpy()
    np.testing.assert_allclose(value, [expected], atol=1e-9)
    count = 5_000
    trajectories = Trajectories(read_network(ansatz, Q, Preparation("state"), noise), parameters.numpy())
    units = np.random.default_rng(0).random((count, trajectories.draws))
    sampled = trajectories.values({"state": np.tile(np.eye(1, 16), (count, 1))}, units)[:, 0]
    assert abs(sampled.mean() - expected) < 4 * sampled.std() / np.sqrt(count)


_TWICE = [cirq.X(Q[2]).with_classical_controls("c"), cirq.Y(Q[2]).with_classical_controls("c")]


@pytest.mark.parametrize(
    ("circuit", "readout", "given"),
    [
        (POOLING, Q[3], "readout=0.1 with CZ"),
        (cirq.Circuit(PREPARED[:1], MEASURED, _TWICE), Q[0], r"readout=0.1 with readout of q\(0, 0\)"),
        (
            cirq.Circuit(
                *(PREPARED[:1], MEASURED, _TWICE[0], cirq.measure(Q[0], key="d")),
                cirq.X(Q[2]).with_classical_controls("d"),
            ),
            Q[2],
            "readout=0.1 with CNOT",
        ),
    ],
    ids=["control", "readout", "measured again"],
)
def test_readout_flips_of_a_qubit_with_other_uses_are_one_clear_error(
    circuit: cirq.Circuit, readout: cirq.Qid, given: str
) -> None:
    symbols = tuple(sorted((sympy.Symbol(name) for name in cirq.parameter_names(circuit)), key=str))
    ansatz = Ansatz(circuit, symbols, (readout,))
    what = "a measured bit conditions several gates and its qubit controls a gate, is measured again or is read out"
    with pytest.raises(ConfigError, match=f"^noise: must have no readout errors if {what} afterwards. Given: {given}"):
        read_network(ansatz, Q, noise=parse_noise("readout=0.1"))
    assert read_network(ansatz, Q, noise=parse_noise("depolarizing=0.1")).gates
