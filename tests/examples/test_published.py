"""Published network in examples/published.qasm, compared with the published construction in Cirq and with `hybrid`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import cirq
import numpy as np
import pytest
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.formats.loading import embed_file
from qcnn.simulators import ExcitationBatch, SimulatorLimits
from qcnn.testing.cirq_readouts import Floats

FILE = Path(__file__).parents[2] / "examples" / "published.qasm"
QUBITS = 23
RING = circuits.ring(QUBITS)
VALUES = np.random.default_rng(1).uniform(0, 2, 21)


def _rotations(qubit: cirq.Qid, exponents: Sequence[float]) -> list[cirq.Operation]:
    return [gate(qubit) ** power for gate, power in zip((cirq.X, cirq.Y, cirq.Z), exponents, strict=True)]


def _published(s: Sequence[float]) -> Iterator[cirq.Operation]:
    """Yield the operations, with the pairs of the convolution in the published code."""
    ring = list(RING)
    # The published code zips two lists. The shorter one ends the second half, which omits the closing pair.
    for a, b in [*zip(ring[0::2], ring[1::2], strict=False), *zip(ring[1::2], [*ring[2::2], ring[0]], strict=False)]:
        yield from (*_rotations(a, s[0:3]), *_rotations(b, s[3:6]))
        yield from (cirq.ZZ(a, b) ** s[6], cirq.YY(a, b) ** s[7], cirq.XX(a, b) ** s[8])
        yield from (*_rotations(a, s[9:12]), *_rotations(b, s[12:15]))
    for source, sink in zip(ring[:11], ring[11:], strict=False):
        change = _rotations(sink, s[15:18])
        yield from (*change, *_rotations(source, s[18:21]), cirq.CNOT(source, sink))
        yield from (cirq.inverse(operation) for operation in reversed(change))


def _readout(operations: Sequence[cirq.Operation], readout: cirq.Qid) -> float:
    """Return Z of a qubit, simulated by Cirq in its light cone, because 23 qubits take minutes."""
    reached, needed = {readout}, []
    for operation in reversed(operations):
        if reached.intersection(operation.qubits):
            reached.update(operation.qubits)
            needed.append(operation)
    simulator = cirq.Simulator(dtype=np.complex128)
    (value,) = simulator.simulate_expectation_values(cirq.Circuit(reversed(needed)), [cirq.Z(readout)])
    return float(np.real(value))


@pytest.fixture(scope="module")
def published() -> Ansatz:
    return circuits.build(embed_file(str(FILE)), QUBITS)


def _readouts(ansatz: Ansatz, excited: Sequence[int], angles: Sequence[float]) -> Floats:
    simulator = simulators.create("auto", ansatz, RING, SimulatorLimits(memory=2**31, batch=32))
    batch = ExcitationBatch(tf.constant(excited, tf.int32), tf.constant(angles, tf.float32))
    found: Floats = simulator.expectations(tf.constant(VALUES, tf.float64), batch).numpy()
    return found


def test_published_qasm_equals_published_code(published: Ansatz) -> None:
    excited, angle = 22, 0.75
    joined = [cirq.CZ(RING[number], RING[(number + 1) % QUBITS]) for number in range(QUBITS)]
    # In layers. In sequence, every readout would seem to depend on all gates.
    data = [*cirq.H.on_each(*RING), *joined[0:22:2], *joined[1::2], joined[22], cirq.rx(angle)(RING[excited])]
    operations = [*data, *_published(VALUES.tolist())]
    # Two readouts with the closing pair in their light cones, and one without.
    chosen = [0, 1, 11]
    expected = [_readout(operations, RING[11 + number]) for number in chosen]
    (found,) = _readouts(published, [excited], [angle])
    assert list(published.readouts) == list(RING[11:])
    np.testing.assert_allclose(found[chosen], expected, atol=1e-9)


def test_hybrid_closing_pair_changes_two_readouts(published: Ansatz) -> None:
    samples = [0, 4, 22], [0.75, -2.0, 3.0]
    difference = np.abs(_readouts(published, *samples) - _readouts(circuits.build("hybrid", QUBITS), *samples))
    np.testing.assert_allclose(difference[:, 1:11], 0, atol=1e-12)
    assert difference[:, 0].max() > 1e-3
    assert difference[:, 11].max() > 0.1
