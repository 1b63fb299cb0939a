"""Pauli transfer matrices of gates and noise, and backward propagation of readouts.

A state is (1 / 2^n) sum r_P P over the products P of I, X, Y, Z on its qubits, in this order, with the first qubit most
significant. The coefficients r are real. A gate or channel multiplies r by a real matrix (Pauli transfer matrix).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qcnn.circuits.noise import GateNoise, Noise
from qcnn.simulators.structure.gate_fusion import Block, fuse
from qcnn.simulators.structure.gates import PHASE_ROUNDING
from qcnn.simulators.structure.network import CircuitIR, Complex, Gate
from qcnn.simulators.structure.pauli_strings import PauliString

Floats = npt.NDArray[np.float64]

PAULIS: Complex = np.array(
    [[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]], dtype=np.complex128
)


@dataclasses.dataclass(frozen=True, eq=False)
class PauliTransferTerms:
    """Transfer matrix of a gate and its noise: sum over k of cos(pi f_k t) C_k + sin(pi f_k t) S_k.

    Attributes:
        frequencies: The f_k, (terms,). The first one is 0.
        cosines: The C_k, (terms, 4^qubits, 4^qubits).
        sines: The S_k, (terms, 4^qubits, 4^qubits).
    """

    frequencies: Floats
    cosines: Floats
    sines: Floats

    def at(self, exponent: float) -> Floats:
        """Return the transfer matrix for an exponent t."""
        angles = np.pi * self.frequencies * exponent
        matrix: Floats = np.tensordot(np.cos(angles), self.cosines, 1) + np.tensordot(np.sin(angles), self.sines, 1)
        return matrix


def terms(gate: Gate) -> PauliTransferTerms:
    """Return the transfer matrix terms of a gate and the noise after it."""
    phases, projectors = gate.spectrum.phases, gate.spectrum.projectors
    qubits = len(gate.qubits)
    products = paulis(qubits)
    by_frequency: dict[float, list[Floats]] = {
        0.0: [np.zeros((4**qubits, 4**qubits)), np.zeros((4**qubits, 4**qubits))]
    }
    for (one, first), (other, second) in itertools.combinations_with_replacement(
        zip(phases.tolist(), projectors, strict=True), 2
    ):
        # The two orders of the projectors contribute complex conjugates.
        twice = 1 if first is second else 2
        mixed = twice * np.einsum("qij,jk,pkl,il->qp", products, first, products, second.conj(), optimize=True)
        sign = 1 if one >= other else -1
        difference = abs(one - other)
        frequency = next((known for known in by_frequency if abs(known - difference) <= PHASE_ROUNDING), difference)
        into = by_frequency.setdefault(frequency, [0 * by_frequency[0.0][0], 0 * by_frequency[0.0][0]])
        into[0] += mixed.real / 2**qubits
        into[1] += -sign * mixed.imag / 2**qubits
    channel = channel_matrix(gate.channel, qubits) if gate.channel else np.eye(4**qubits)
    parts = [np.array([pair[part] for pair in by_frequency.values()]) for part in (0, 1)]
    for place, probability in enumerate(gate.bit_flips):
        flip = _bit_flip(place, qubits)
        parts = [(1 - probability) * part + probability * flip @ part @ flip for part in parts]
    return PauliTransferTerms(np.array(list(by_frequency)), *(channel @ part for part in parts))


def _bit_flip(place: int, qubits: int) -> Floats:
    """Return the transfer matrix of X on one of the qubits, which is diagonal, (4^qubits, 4^qubits)."""
    signs = [np.array([1.0, 1.0, -1.0, -1.0]) if number == place else np.ones(4) for number in range(qubits)]
    return np.diag(functools.reduce(np.kron, signs))


def channel_matrix(channel: GateNoise, qubits: int) -> Floats:
    """Return the transfer matrix of noise on a number of qubits, (4^qubits, 4^qubits).

    Depolarizing applies each of the other 4^k - 1 products with the same probability. Since 4^k / 2 of them change the
    sign of a product, coefficients except that of the identity shrink by 1 - p 4^k / (4^k - 1).
    """
    size = 4**qubits
    shrunk = np.full(size, 1 - channel.depolarizing * size / (size - 1))
    shrunk[0] = 1
    damping, coherence = channel.amplitude_damping, math.sqrt(1 - channel.phase_damping)
    transverse = math.sqrt(1 - damping) * coherence
    each = np.diag([1, transverse, transverse, 1 - damping])
    each[3, 0] = damping
    matrix: Floats = functools.reduce(np.kron, [each] * qubits) * shrunk
    return matrix


@functools.cache
def paulis(qubits: int) -> Complex:
    """Return all products of Pauli matrices, complex128 (4^qubits, 2^qubits, 2^qubits)."""
    products: Complex = np.ones((1, 1, 1), np.complex128)
    for _ in range(qubits):
        products = np.kron(products, PAULIS).astype(np.complex128)
    return products


def coefficients(string: PauliString, noise: Noise) -> Floats:
    """Return the Pauli coefficients of a string as it is read out, (4^k,): each bit is flipped with `noise.readout`."""
    one = np.zeros((4,) * len(string.qubits))
    one[tuple("IXYZ".index(axis) for axis in string.axes)] = noise.visibility ** len(string.qubits)
    return one.ravel()


def apply_transfer(matrix: Floats, qubits: Sequence[int], state: Floats) -> Floats:
    """Apply a transfer matrix to some qubits of a state.

    Args:
        matrix: Transfer matrix, (4^k, 4^k).
        qubits: The k qubits that the matrix acts on.
        state: Pauli coefficients, (4,) * n.
    """
    count = len(qubits)
    bits = matrix.reshape((4,) * (2 * count))
    moved: Floats = np.tensordot(bits, state, (list(range(count, 2 * count)), list(qubits)))
    return np.moveaxis(moved, range(count), qubits)


def ground_state(qubits: int) -> Floats:
    """Return the Pauli coefficients of |0...0>, (4,) * qubits."""
    state = functools.reduce(np.multiply.outer, [np.array([1.0, 0.0, 0.0, 1.0])] * qubits)
    return np.asarray(state, np.float64)


@dataclasses.dataclass(frozen=True)
class HeisenbergStep:
    """Backward propagation of an observable through a block.

    Attributes:
        block: Block of gates.
        before: Qubits of the observable's axes before the step.
        new: Qubits of the block on which the observable was the identity.
    """

    block: Block
    before: tuple[int, ...]
    new: tuple[int, ...]

    @functools.cached_property
    def after(self) -> tuple[int, ...]:
        """Qubits of the axes after the step, with those of the block last."""
        return (*self.rest, *self.block.qubits)

    @property
    def rest(self) -> tuple[int, ...]:
        """Qubits of the observable outside of the block."""
        return tuple(qubit for qubit in self.before if qubit not in self.block.qubits)

    @property
    def held(self) -> tuple[int, ...]:
        """Qubits of the block on which the observable was not the identity."""
        return tuple(qubit for qubit in self.block.qubits if qubit not in self.new)


@dataclasses.dataclass(frozen=True)
class PropagatedObservable:
    """Pauli string, propagated from the end of the circuit to its beginning."""

    string: PauliString
    steps: tuple[HeisenbergStep, ...]

    @property
    def qubits(self) -> tuple[int, ...]:
        """Qubits of the light cone, in the order of the observable's axes."""
        return self.steps[-1].after if self.steps else self.string.qubits


# Cached, because the estimates for several batches and the simulator use the same result.
@functools.lru_cache(maxsize=1)
def propagate_readouts(network: CircuitIR) -> tuple[PropagatedObservable, ...]:
    """Return the backward propagation of each Pauli string of a network.

    A block on whose qubits the observable is the identity is skipped, including its noise, because channels preserve
    the trace.
    """
    blocks = fuse(gate for gate in network.gates if gate.qubits)
    return tuple(PropagatedObservable(string, _steps(blocks, string)) for string in network.strings)


def _steps(blocks: list[Block], string: PauliString) -> tuple[HeisenbergStep, ...]:
    steps: list[HeisenbergStep] = []
    order = string.qubits
    for block in reversed(blocks):
        if not set(order).isdisjoint(block.qubits):
            new = tuple(qubit for qubit in block.qubits if qubit not in order)
            steps.append(HeisenbergStep(block, order, new))
            order = steps[-1].after
    return tuple(steps)
