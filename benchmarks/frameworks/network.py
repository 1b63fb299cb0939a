"""Network and training samples as NumPy arrays and gate lists, without Cirq and TensorFlow.

The gates are those of qcnn.circuits.circuits (tests/benchmarks/test_frameworks.py compares them). Both environments
import this module, so it imports only NumPy.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEARNING_RATE = 0.02
HIDDEN_UNITS = 8
# Steps of an epoch of 1,000 samples at batch size 32.
EPOCH_STEPS = 32
LAYERS, REUPLOADING_LAYERS = 6, 3
_CONVOLUTION_PARAMETERS = 15
_LAYER_PARAMETERS = 21


class Gate(NamedTuple):
    """Gate: H, CZ, CNOT, or X, Y, Z, XX, YY, ZZ to the power `sign` x parameter.

    P to the power t is exp(-i pi t P / 2) up to a global phase. With a feature, the power is parameter x feature / pi.
    """

    name: str
    qubits: tuple[int, ...]
    parameter: int = -1
    sign: int = 1
    feature: int = -1


class Block(NamedTuple):
    """Convolution or pooling of two qubits. Its gates have qubit indices 0 and 1 in this pair."""

    qubits: tuple[int, int]
    gates: tuple[Gate, ...]

    @property
    def placed(self) -> list[Gate]:
        """Gates with the qubit indices of the circuit."""
        return [gate._replace(qubits=tuple(self.qubits[qubit] for qubit in gate.qubits)) for gate in self.gates]


class Circuit(NamedTuple):
    """Gates of the cluster state, blocks after the excitation, readout qubits, and parameter count."""

    cluster: list[Gate]
    blocks: list[Block]
    readouts: list[int]
    parameters: int


class FeatureBatch(NamedTuple):
    """Samples: features (batch, qubits) in rad, which most models use as RY angles; label float32 (batch,)."""

    features: npt.NDArray[np.floating[Any]]
    label: npt.NDArray[np.float32]


class StateBatch(NamedTuple):
    """Samples: real amplitudes float32 (batch, 2^qubits), label float32 (batch,)."""

    state: npt.NDArray[np.float32]
    label: npt.NDArray[np.float32]


class Batch(NamedTuple):
    """Samples: excited qubit int32 (batch,), angle float32 (batch,) in rad, label float32 (batch,)."""

    qubit: npt.NDArray[np.int32]
    angle: npt.NDArray[np.float32]
    label: npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class StepTask:
    """Network and batches 0, 1, 2, ... of a benchmark of training steps.

    Samples are excitations of the cluster state, or have one feature per qubit, or are states. `weights` are the
    circuit parameters and, with several readouts or classes, kernel and bias of both dense layers. With classes, the
    loss is the cross-entropy.
    """

    model: str
    qubits: int
    batch_size: int
    features: bool = False
    amplitudes: bool = False
    classes: int = 0

    @property
    def circuit(self) -> Circuit:
        """Circuit of the model."""
        return circuit(self.model, self.qubits)

    @property
    def weights(self) -> list[Floats]:
        """Initial weights with the distributions of Keras, equal in every process."""
        random = np.random.default_rng(0)
        parameters, readouts = self.circuit.parameters, len(self.circuit.readouts)
        weights = [2 * math.pi * random.random(parameters)]
        if readouts > 1 or self.classes:
            for rows, columns in ((readouts, HIDDEN_UNITS), (HIDDEN_UNITS, self.classes or 1)):
                limit = math.sqrt(6 / (rows + columns))
                weights += [limit * (2 * random.random((rows, columns)) - 1), np.zeros(columns)]
        return weights

    def batch(self, index: int) -> Batch:
        """Return the samples of a batch, with qubits and angles from uniform distributions."""
        random = np.random.default_rng([1, index])
        angle = (math.pi * (2 * random.random(self.batch_size) - 1)).astype(np.float32)
        qubit = (self.qubits * random.random(self.batch_size)).astype(np.int32)
        return Batch(qubit, angle, np.where(np.abs(angle) <= math.pi / 2, 1, -1).astype(np.float32))

    def samples(self, index: int) -> Batch | FeatureBatch | StateBatch:
        """Return the samples of a batch."""
        if self.amplitudes:
            return self.state_batch(index)
        return self.feature_batch(index) if self.features else self.batch(index)

    def state_batch(self, index: int) -> StateBatch:
        """Return random real states, whose label is the sign of Z on the first qubit."""
        states = np.random.default_rng([3, index]).normal(size=(self.batch_size, 2**self.qubits))
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        first, second = np.split(states**2, 2, axis=1)
        label = np.where(first.sum(axis=1) >= second.sum(axis=1), 1, -1).astype(np.float32)
        return StateBatch(states.astype(np.float32), label)

    def feature_batch(self, index: int) -> FeatureBatch:
        """Return samples of one feature per qubit, whose label is the sign of the sum of their cosines, or a class."""
        random = np.random.default_rng([2, index])
        features = (math.pi * random.random((self.batch_size, self.qubits))).astype(np.float32)
        if self.model == "reuploading":
            # Simulators compute exponents in double precision.
            features = features.astype(np.float64)
        if self.classes:
            return FeatureBatch(features, random.integers(0, self.classes, self.batch_size).astype(np.float32))
        return FeatureBatch(features, np.where(np.cos(features).sum(axis=1) >= 0, 1, -1).astype(np.float32))


def circuit(model: str, qubits: int) -> Circuit:
    """Return the gates of model `hybrid`, `deep`, `layers` or `reuploading` in the order of their application."""
    if model == "layers":
        return layers(qubits)
    if model == "reuploading":
        return layers(qubits, REUPLOADING_LAYERS, reuploading=True)
    cluster = [Gate("H", (qubit,)) for qubit in range(qubits)]
    cluster += [Gate("CZ", (qubit, (qubit + 1) % qubits)) for qubit in range(qubits)]
    blocks: list[Block] = []
    active, first = list(range(qubits)), 0
    while len(active) > 1 and (model == "deep" or not blocks):
        count = len(active)
        convolution, pooling = _convolution(first), _pooling(first + _CONVOLUTION_PARAMETERS)
        for start in (*range(0, count - 1, 2), *range(1, count - 1, 2), count - 1):
            blocks.append(Block((active[start], active[(start + 1) % count]), convolution))
        sources, active = active[: count // 2], active[count // 2 :]
        blocks += [Block(pair, pooling) for pair in zip(sources, active, strict=False)]
        first += _LAYER_PARAMETERS
    return Circuit(cluster, blocks, active, first)


def layers(qubits: int, count: int = LAYERS, *, reuploading: bool = False) -> Circuit:
    """Return layers of RY, CNOT around the ring and RZ, with readouts on all qubits.

    A block has a CNOT and the rotations that can be next to it.

    Args:
        qubits: Number of qubits.
        count: Number of layers.
        reuploading: Whether RY rotates each qubit by a parameter times its feature.
    """
    blocks = []
    for layer in range(count):
        before = [
            Gate("Y", (number,), 2 * qubits * layer + number, feature=number if reuploading else -1)
            for number in range(qubits)
        ]
        after = [Gate("Z", (number,), 2 * qubits * layer + qubits + number) for number in range(qubits)]
        for first in range(qubits):
            second = (first + 1) % qubits
            gates = [before[number] for number in ((0, 1) if first == 0 else (second,)) if second]
            gates.append(Gate("CNOT", (first, second)))
            gates += [after[number] for number in (first, second) if first and (number == first or second == 0)]
            inside = {first: 0, second: 1}
            local = tuple(gate._replace(qubits=tuple(inside[qubit] for qubit in gate.qubits)) for gate in gates)
            blocks.append(Block((first, second), local))
    return Circuit([], blocks, list(range(qubits)), 2 * qubits * count)


def _basis(qubit: int, first: int) -> list[Gate]:
    return [Gate(name, (qubit,), first + index) for index, name in enumerate("XYZ")]


def _convolution(first: int) -> tuple[Gate, ...]:
    entangling = [Gate(name, (0, 1), first + 6 + index) for index, name in enumerate(("ZZ", "YY", "XX"))]
    return (
        *_basis(0, first),
        *_basis(1, first + 3),
        *entangling,
        *_basis(0, first + 9),
        *_basis(1, first + 12),
    )


def _pooling(first: int) -> tuple[Gate, ...]:
    """Return the pooling of qubit 0 into qubit 1."""
    basis = _basis(1, first)
    inverse = [gate._replace(sign=-1) for gate in reversed(basis)]
    return (*basis, *_basis(0, first + 3), Gate("CNOT", (0, 1)), *inverse)
