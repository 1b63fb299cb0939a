"""Gates and noise as real matrices on coefficients of Pauli products, which need no complex numbers.

A state is (1 / 2^n) sum r_P P over the products P of I, X, Y, Z on its qubits, in this order and the first qubit the
most significant; r is real. What a gate or a channel makes of it is a real matrix times r (its Pauli transfer matrix).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qcnn.circuits.noise import GateNoise
from qcnn.simulators.structure.gate_fusion import Block, fuse
from qcnn.simulators.structure.gates import PHASE_ROUNDING, CircuitIR, Complex, Gate

Floats = npt.NDArray[np.float64]

PAULIS: Complex = np.array(
    [[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]], dtype=np.complex128
)


@dataclasses.dataclass(frozen=True, eq=False)
class PauliTransferTerms:
    """A gate with the noise after it: sum over k of cos(pi f_k t) C_k + sin(pi f_k t) S_k, with t its exponent.

    `frequencies` (terms,), the first 0; `cosines` and `sines` (terms, 4^qubits, 4^qubits).
    """

    frequencies: Floats
    cosines: Floats
    sines: Floats

    def at(self, exponent: float) -> Floats:
        """Return the matrix for an exponent."""
        angles = np.pi * self.frequencies * exponent
        matrix: Floats = np.tensordot(np.cos(angles), self.cosines, 1) + np.tensordot(np.sin(angles), self.sines, 1)
        return matrix


def terms(gate: Gate) -> PauliTransferTerms:
    """Return a gate, and the noise that follows it, on the coefficients of its qubits."""
    phases, projectors = gate.spectrum.phases, gate.spectrum.projectors
    qubits = len(gate.qubits)
    products = paulis(qubits)
    found: dict[float, list[Floats]] = {0.0: [np.zeros((4**qubits, 4**qubits)), np.zeros((4**qubits, 4**qubits))]}
    for (one, first), (other, second) in itertools.combinations_with_replacement(
        zip(phases.tolist(), projectors, strict=True), 2
    ):
        # Either order of the two gives the conjugate of the other.
        twice = 1 if first is second else 2
        mixed = twice * np.einsum("qij,jk,pkl,il->qp", products, first, products, second.conj(), optimize=True)
        sign = 1 if one >= other else -1
        difference = abs(one - other)
        frequency = next((known for known in found if abs(known - difference) <= PHASE_ROUNDING), difference)
        into = found.setdefault(frequency, [0 * found[0.0][0], 0 * found[0.0][0]])
        into[0] += mixed.real / 2**qubits
        into[1] += -sign * mixed.imag / 2**qubits
    channel = channel_matrix(gate.channel, qubits) if gate.channel else np.eye(4**qubits)
    return PauliTransferTerms(
        np.array(list(found)), *(channel @ np.array([pair[part] for pair in found.values()]) for part in (0, 1))
    )


def channel_matrix(channel: GateNoise, qubits: int) -> Floats:
    """Return what noise makes of the coefficients of so many qubits, (4^qubits, 4^qubits).

    Depolarizing takes each of the other 4^k - 1 products with the same probability, half of which change a product's
    sign: what is not the identity shrinks by 1 - p 4^k / (4^k - 1).
    """
    size = 4**qubits
    shrunk = np.full(size, 1 - channel.depolarizing * size / (size - 1))
    shrunk[0] = 1
    damping, kept = channel.amplitude_damping, math.sqrt(1 - channel.phase_damping)
    transverse = math.sqrt(1 - damping) * kept
    each = np.diag([1, transverse, transverse, 1 - damping])
    each[3, 0] = damping
    matrix: Floats = functools.reduce(np.kron, [each] * qubits) * shrunk
    return matrix


@functools.cache
def paulis(qubits: int) -> Complex:
    """Return all products of Pauli matrices, complex128 (4^qubits, 2^qubits, 2^qubits)."""
    products = np.ones((1, 1, 1), np.complex128)
    for _ in range(qubits):
        products = np.kron(products, PAULIS)
    return products


def applied(matrix: Floats, qubits: Sequence[int], state: Floats) -> Floats:
    """Return a state's coefficients, (4,) * n, after a matrix on some of its qubits."""
    count = len(qubits)
    bits = matrix.reshape((4,) * (2 * count))
    moved: Floats = np.tensordot(bits, state, (list(range(count, 2 * count)), list(qubits)))
    return np.moveaxis(moved, range(count), qubits)


def ground_state(qubits: int) -> Floats:
    """Return the coefficients of |0...0>, (4,) * qubits."""
    state = functools.reduce(np.multiply.outer, [np.array([1.0, 0.0, 0.0, 1.0])] * qubits)
    return np.asarray(state, np.float64)


@dataclasses.dataclass(frozen=True)
class HeisenbergStep:
    """A block that an observable is pulled back through.

    The observable's axes come in the order `before` and go on in the order `after`, the block's last. Of the block's
    qubits, the observable was the identity on those of `new`.
    """

    block: Block
    before: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def after(self) -> tuple[int, ...]:
        """The qubits of the axes afterwards."""
        return (*self.rest, *self.block.qubits)

    @property
    def rest(self) -> tuple[int, ...]:
        """The qubits that the block leaves alone."""
        return tuple(qubit for qubit in self.before if qubit not in self.block.qubits)

    @property
    def held(self) -> tuple[int, ...]:
        """The block's qubits that the observable was not the identity on."""
        return tuple(qubit for qubit in self.block.qubits if qubit not in self.new)


@dataclasses.dataclass(frozen=True)
class PropagatedObservable:
    """A readout's observable: the steps from the circuit's end to its beginning, and its axes there."""

    readout: int
    steps: tuple[HeisenbergStep, ...]

    @property
    def qubits(self) -> tuple[int, ...]:
        """The qubits of its light cone, in the order of the observable's axes."""
        return self.steps[-1].after if self.steps else (self.readout,)


# Estimates for several batches, and the simulator itself, ask for the same.
@functools.lru_cache(maxsize=1)
def propagate_readouts(network: CircuitIR) -> tuple[PropagatedObservable, ...]:
    """Return how each readout of a network is pulled back.

    A block that the observable is the identity on leaves it so, noise included: channels keep the trace.
    """
    blocks = fuse(gate for gate in network.gates if gate.qubits)
    return tuple(PropagatedObservable(readout, _steps(blocks, readout)) for readout in network.readouts)


def _steps(blocks: list[Block], readout: int) -> tuple[HeisenbergStep, ...]:
    steps: list[HeisenbergStep] = []
    order: tuple[int, ...] = (readout,)
    for block in reversed(blocks):
        if not set(order).isdisjoint(block.qubits):
            new = tuple(qubit for qubit in block.qubits if qubit not in order)
            steps.append(HeisenbergStep(block, order, new))
            order = steps[-1].after
    return tuple(steps)
