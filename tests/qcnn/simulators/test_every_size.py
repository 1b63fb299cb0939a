"""Amplitudes, dense encoding, measured pooling, Pauli strings and cross-entropy on 1 to 12 qubits, against Cirq.

Cirq simulates each outcome of the measurement as a separate branch, so that no controlled gate replaces it.
"""

import functools
import itertools
import math
from typing import Literal, NamedTuple

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import sympy
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError
from qcnn.simulators import Inputs, ProductStateBatch, SimulatorLimits, StateBatch, registry
from tests.qcnn.simulators.every import EVERY

Floats = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]
Kind = Literal["dense", "state"]

S, T, U = SYMBOLS = sympy.symbols("s t u")
VALUES = np.array([0.3, 0.7, 1.2])
DIRECTION = np.array([0.6, -0.64, 0.48])
# Step of numerical derivatives, whose error is of fourth order.
STEP = 1e-3
LIMITS = SimulatorLimits(memory=2**31, batch=1)


class Pooling(NamedTuple):
    """Gates before a measurement of the first qubit, gates for each outcome, and gates afterwards."""

    before: list[cirq.Operation]
    if_zero: list[cirq.Operation]
    if_one: list[cirq.Operation]
    after: list[cirq.Operation]


def _pooling(qubits: int) -> Pooling:
    q = ring(qubits)
    before = [cirq.Y(q[0]) ** S, cirq.X(q[0]) ** T]
    for one, other in itertools.pairwise(q):
        before += [cirq.ISWAP(one, other) ** U, cirq.YY(one, other) ** S, cirq.Z(other) ** T]
    if qubits == 1:
        return Pooling(before, [], [], [cirq.Y(q[0]) ** U])
    after = [cirq.CZ(one, other) ** T for one, other in itertools.pairwise(q)]
    pairs = [cirq.ZZ(q[1], q[-1]) ** U] if qubits > 2 else []
    return Pooling(before, [cirq.X(q[-1]) ** T], [cirq.Y(q[1]) ** S, *pairs], after)


def _readouts(qubits: int) -> list[cirq.PauliString[cirq.Qid]]:
    """Return Z on the first and the last qubit, their product, and a string in all axes on up to five qubits."""
    q = ring(qubits)
    if qubits == 1:
        return [cirq.PauliString({q[0]: cirq.Z}), cirq.PauliString({q[0]: cirq.Y})]
    axes = dict(zip(q[1:6], (cirq.X, cirq.Y, cirq.Z, cirq.X, cirq.Y), strict=False))
    ends = {q[0]: cirq.Z, q[-1]: cirq.Z}
    return [cirq.PauliString(each) for each in ({q[0]: cirq.Z}, {q[-1]: cirq.Z}, ends, axes)]


def _ansatz(qubits: int) -> Ansatz:
    parts, q = _pooling(qubits), ring(qubits)
    circuit = cirq.Circuit(parts.before)
    if qubits > 1:
        circuit += cirq.Circuit(cirq.measure(q[0], key="c"))
        circuit += cirq.Circuit(gate.with_classical_controls("c") for gate in parts.if_one)
        zero = sympy.Eq(sympy.Symbol("c"), 0)
        circuit += cirq.Circuit(gate.with_classical_controls(zero) for gate in parts.if_zero)
    return Ansatz(circuit + cirq.Circuit(parts.after), SYMBOLS, tuple(_readouts(qubits)))


def _sample(qubits: int, kind: Kind) -> Floats:
    """Return one row of float32 numbers: angles, or normalized amplitudes with zeros appended."""
    random = np.random.default_rng(qubits)
    row = random.normal(size=2 * qubits if kind == "dense" else max(1, 2**qubits - 1))
    if kind == "state":
        row = np.pad(row / np.linalg.norm(row), (0, 2**qubits - len(row)))
    return row.astype(np.float32).astype(np.float64)


def _loss(probability: Floats, string: Floats) -> Floats:
    return -np.log(probability) + 0.5 * string


@functools.cache
def _by_cirq(qubits: int, kind: Kind) -> tuple[Floats, float]:
    """Return the readouts, and the derivative of the loss along the direction."""
    q, parts, row = ring(qubits), _pooling(qubits), _sample(qubits, kind)
    place: dict[cirq.Qid, int] = {qubit: number for number, qubit in enumerate(q)}
    strings = _readouts(qubits)
    if kind == "dense":
        rotations = [cirq.rx(row[k])(q[k]) for k in range(qubits)]
        rotations += [cirq.ry(row[qubits + k])(q[k]) for k in range(qubits)]
        prepared = cirq.Circuit(rotations).final_state_vector(qubit_order=q, dtype=np.complex128)
    else:
        prepared = (row / np.linalg.norm(row)).astype(np.complex128)

    def run(gates: list[cirq.Operation], values: Floats, state: Complex) -> Complex:
        circuit = cirq.Circuit(gates, cirq.I.on_each(*q))
        resolved = cirq.resolve_parameters(circuit, dict(zip(SYMBOLS, values.tolist(), strict=True)))
        return np.asarray(resolved.final_state_vector(initial_state=state, qubit_order=q, dtype=np.complex128))

    def readouts(values: Floats) -> Floats:
        state, total = run(parts.before, values, prepared), np.zeros(len(strings))
        outcomes: list[tuple[int | None, list[cirq.Operation]]] = [(0, parts.if_zero), (1, parts.if_one)]
        if qubits == 1:
            outcomes = [(None, [])]
        for outcome, gates in outcomes:
            branch = state.reshape(2, -1).copy()
            if outcome is not None:
                branch[1 - outcome] = 0
            weight = np.linalg.norm(branch) ** 2
            final = run([*gates, *parts.after], values, branch.ravel() / math.sqrt(weight))
            total += [weight * each.expectation_from_state_vector(final, place).real for each in strings]
        return total

    def loss(values: Floats) -> float:
        found = readouts(values)
        return float(_loss(found[:-1] @ _signs(qubits) + 1 / 2 ** min(qubits, 2), found[-1]))

    near, far = (loss(VALUES + k * STEP * DIRECTION) - loss(VALUES - k * STEP * DIRECTION) for k in (1, 2))
    return readouts(VALUES), (8 * near - far) / (12 * STEP)


def _signs(qubits: int) -> Floats:
    """Return the factors of Z strings in the probability of the bit string 1, or 01 of the first and last qubit."""
    return np.array([-0.5]) if qubits == 1 else np.array([1, -1, -1]) / 4


@pytest.mark.parametrize("kind", ["dense", "state"])
@pytest.mark.parametrize("qubits", range(1, 13))
@pytest.mark.parametrize("simulator", EVERY)
def test_pooling_strings_and_cross_entropy_equal_cirq(simulator: str, qubits: int, kind: Kind) -> None:
    states = "of the test" if kind == "state" else ""
    if reason := registry.unsupported_reason(simulator, qubits, noise=False, shifts=False, states=states, strings=True):
        pytest.skip(reason)
    preparation = Preparation("state") if kind == "state" else Preparation("dense", 2 * qubits)
    try:
        created = simulators.create(simulator, _ansatz(qubits), ring(qubits), LIMITS, preparation)
    except ConfigError as error:
        # A light cone may be too wide, and TensorFlow Quantum supports fewer gates.
        pytest.skip(str(error))
    expected, slope = _by_cirq(qubits, kind)
    row = tf.constant(_sample(qubits, kind)[None], tf.float32)
    batch: Inputs = StateBatch(row) if kind == "state" else ProductStateBatch(row)
    parameters = tf.constant(VALUES)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        (readouts,) = tf.unstack(created.expectations(parameters, batch), axis=0)
        probability = tf.reduce_sum(readouts[:-1] * _signs(qubits)) + 1 / 2 ** min(qubits, 2)
        loss = -tf.math.log(probability) + 0.5 * readouts[-1]
    gradient = tape.gradient(loss, parameters).numpy()
    tolerance = 1e-5 if simulator == "tfq" else max(1e-6, created.rounding)
    np.testing.assert_allclose(readouts.numpy(), expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(gradient @ DIRECTION, slope, rtol=0, atol=1e-2 if simulator == "tfq" else 20 * tolerance)
