"""Noise as random trajectories of state vectors, for more qubits than density matrices allow.

A trajectory is one state. Each channel applies one of its Kraus operators, sampled with its probability in that state
(Dalibard, Castin and Moelmer, Phys. Rev. Lett. 68, 580). The mean of a readout over trajectories is its value under
noise. The probabilities of a group of gates and channels depend only on the reduced state of the group's qubits.
Operators are therefore sampled from the reduced state, and the whole state is read and written once per group.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import sympy

from qcnn.circuits.circuits import cluster_state
from qcnn.circuits.noise import GateNoise
from qcnn.circuits.sample_circuits import product
from qcnn.simulators.structure.gate_fusion import Block, GateGroup, expand_to_block, fuse, group_blocks
from qcnn.simulators.structure.gates import read_gates
from qcnn.simulators.structure.heisenberg import Floats, paulis
from qcnn.simulators.structure.network import CircuitIR, Complex, Gate
from qcnn.simulators.structure.pauli_strings import PauliString


class Trajectories:
    """Noise trajectories of samples of a network.

    Excitation samples must all excite the same qubit.
    """

    def __init__(self, network: CircuitIR, parameters: Floats, excited: int = 0) -> None:
        self._network, self._parameters = network, parameters
        features = network.preparation.features if network.preparation.kind != "excitation" else 1
        symbols = sympy.symbols(f"p0:{len(parameters) + features}")
        operations = _preparation(network, symbols[len(parameters) :], excited)
        prepared = read_gates(operations, symbols, network.ring, network.noise)
        self._groups = group_blocks(fuse([*prepared, *(gate for gate in network.gates if gate.qubits)]))

    @property
    def draws(self) -> int:
        """Number of random numbers of a trajectory."""
        gates = [gate for group in self._groups for block in group.blocks for gate in block.gates]
        return sum(_draws(gate) + len(gate.bit_flips) for gate in gates)

    def values(self, inputs: Mapping[str, npt.NDArray[Any]], units: Floats) -> Floats:
        """Return the network's Pauli strings, (trajectories, strings), with one trajectory per sample.

        Args:
            inputs: Model inputs of the samples, by name.
            units: Uniform random numbers in [0, 1), (trajectories, draws).
        """
        network, count = self._network, len(units)
        angles = inputs.get("features", inputs.get("angle", np.zeros(count)))
        angles = angles.astype(np.float64).reshape(count, -1)
        states = np.zeros((count, 2**network.qubits), np.complex128)
        states[:, 0] = 1
        if "state" in inputs:
            states[:] = inputs["state"]
        order = tuple(range(network.qubits))
        columns = iter(units.T)
        for group in self._groups:
            order, rows = _last(states, order, group.qubits)
            operators = self._operators(group, angles, rows, columns)
            states = np.matmul(rows, operators.transpose(0, 2, 1)).reshape(count, -1)
        strings, weights = network.strings, np.square(states.real) + np.square(states.imag)
        values = [
            _z(weights, order.index(string.qubits[0])) if string.is_single_z else _overlap(states, string, order)
            for string in strings
        ]
        return np.stack(values, axis=1) * [network.noise.visibility ** len(string.qubits) for string in strings]

    def _operators(self, group: GateGroup, angles: Floats, rows: Complex, columns: Iterator[Floats]) -> Complex:
        """Return the sampled operators of a group, (trajectories, d, d)."""
        count, _, size = rows.shape
        # Only the probabilities of amplitude damping depend on the state.
        damped = any(map(_is_damped, group.blocks))
        density = np.matmul(rows.transpose(0, 2, 1), rows.conj()) if damped else None
        operators = np.tile(np.eye(size, dtype=np.complex128), (count, 1, 1))
        for block in group.blocks:
            unitaries = [_flipped(gate, self._unitary(gate, angles), columns) for gate in block.gates]
            reduced = None if density is None else _reduced_densities(density, group.qubits, block.qubits)
            sampled = _block_operators(block, unitaries, reduced, count, columns)
            wide = expand_to_block(sampled, block.qubits, group.qubits, levels=2)
            operators = np.matmul(wide, operators)
            if density is not None:
                density = np.matmul(np.matmul(wide, density), wide.conj().transpose(0, 2, 1))
        return operators

    def _unitary(self, gate: Gate, angles: Floats) -> Complex:
        """Return a gate's matrix, (d, d), or (trajectories, d, d) if the gate depends on the sample."""
        trainable = len(self._parameters)
        exponent: Any = gate.exponent.constant
        for index, factor in gate.exponent.coefficients:
            exponent = exponent + factor * (
                self._parameters[index] if index < trainable else angles[:, index - trainable]
            )
        phases = np.exp(1j * np.pi * np.multiply.outer(exponent, gate.spectrum.phases))
        matrix: Complex = np.tensordot(phases, gate.spectrum.projectors, 1)
        return matrix


def _flipped(gate: Gate, unitary: Complex, columns: Iterator[Floats]) -> Complex:
    """Return a gate's matrix with random flips of the bits that condition it, (trajectories, d, d) if there are any."""
    for place, probability in enumerate(gate.bit_flips):
        flips = next(columns) < probability
        unitary = np.array(np.broadcast_to(unitary, (len(flips), *unitary.shape[-2:])))
        order = np.arange(unitary.shape[1]) ^ (unitary.shape[1] >> (place + 1))
        unitary[flips] = unitary[flips][:, order][:, :, order]
    return unitary


def _preparation(network: CircuitIR, angles: Sequence[sympy.Symbol], excited: int) -> Iterator[cirq.Operation]:
    match network.preparation.kind:
        case "excitation":
            yield from cluster_state(network.ring).all_operations()
            yield cirq.rx(angles[0])(network.ring[excited])
        case "state":
            return
        case kind:
            yield from product(kind, network.ring, angles).all_operations()


def _last(states: Complex, order: tuple[int, ...], qubits: Sequence[int]) -> tuple[tuple[int, ...], Complex]:
    """Return the new order of axes, and states with the given qubits last, (trajectories, rest, 2^k)."""
    new = (*(qubit for qubit in order if qubit not in qubits), *qubits)
    bits = states.reshape(-1, *(2,) * len(order)).transpose(0, *(1 + order.index(qubit) for qubit in new))
    return new, bits.reshape(len(states), -1, 2 ** len(qubits))


def _is_damped(block: Block) -> bool:
    return any(gate.channel and gate.channel.amplitude_damping for gate in block.gates)


def _reduced_densities(density: Complex, group: Sequence[int], block: Sequence[int]) -> Complex:
    """Return the density matrices of a block's qubits, (trajectories, d, d), from those of its group."""
    count, size = len(group), len(block)
    order = [*(group.index(qubit) for qubit in block), *(k for k, qubit in enumerate(group) if qubit not in block)]
    bits = density.reshape(-1, *(2,) * (2 * count))
    moved = bits.transpose(0, *(1 + k for k in order), *(1 + count + k for k in order))
    reduced: Complex = np.einsum("bikjk->bij", moved.reshape(-1, *(2**size, 2 ** (count - size)) * 2))
    return reduced


def _block_operators(
    block: Block, unitaries: Sequence[Complex], density: Complex | None, count: int, columns: Iterator[Floats]
) -> Complex:
    """Return the sampled operators of a block, (trajectories, d, d), normalized if amplitudes are damped.

    Consumes one column of random numbers per draw.
    """
    operators: Complex = np.tile(np.eye(2 ** len(block.qubits), dtype=np.complex128), (count, 1, 1))
    for gate, unitary in zip(block.gates, unitaries, strict=True):
        operators = np.matmul(expand_to_block(unitary, gate.qubits, block.qubits, levels=2), operators)
        if gate.channel:
            draws = itertools.islice(columns, _draws(gate))
            operators = _noisy(gate.channel, gate.qubits, block.qubits, operators, density, draws)
    if density is not None and _is_damped(block):
        operators /= np.sqrt(_populations(operators, density).sum(axis=1))[:, None, None]
    return operators


def _draws(gate: Gate) -> int:
    """Return the number of random numbers of a gate's noise.

    Depolarizing noise needs one number, damping one per qubit.
    """
    if gate.channel is None:
        return 0
    damping = bool(gate.channel.amplitude_damping) + bool(gate.channel.phase_damping)
    return bool(gate.channel.depolarizing) + damping * len(gate.qubits)


def _noisy(
    channel: GateNoise,
    qubits: Sequence[int],
    block: Sequence[int],
    operators: Complex,
    density: Complex | None,
    columns: Iterator[Floats],
) -> Complex:
    """Return the operators multiplied by sampled Kraus operators of a gate's channel."""
    if channel.depolarizing:
        operators = _apply_depolarizing(channel.depolarizing, qubits, block, operators, next(columns))
    if density is not None and channel.amplitude_damping:
        for qubit in qubits:
            bit = block.index(qubit)
            operators = _apply_damping(channel.amplitude_damping, bit, operators, density, next(columns))
    if channel.phase_damping:
        # Phase damping is equivalent to Z with this probability.
        flips = (1 - np.sqrt(1 - channel.phase_damping)) / 2
        for qubit in qubits:
            view = _by_bit(operators, block.index(qubit))
            view[next(columns) < flips, :, 1] *= -1
    return operators


def _apply_depolarizing(
    probability: float, qubits: Sequence[int], block: Sequence[int], operators: Complex, units: Floats
) -> Complex:
    """Multiply a random non-identity Pauli product to the operators, with the given probability."""
    (hit,) = np.nonzero(units < probability)
    others = 4 ** len(qubits) - 1
    # A unit below the probability is uniform in [0, probability). Rounding may give `others`, hence the minimum.
    chosen = 1 + np.minimum((units[hit] / probability * others).astype(np.int64), others - 1)
    operators[hit] = np.matmul(expand_to_block(paulis(len(qubits))[chosen], qubits, block, levels=2), operators[hit])
    return operators


def _apply_damping(probability: float, bit: int, operators: Complex, density: Complex, units: Floats) -> Complex:
    """Apply amplitude damping to one qubit of the operators.

    With the given probability times the population of |1>, the qubit decays to |0>. Otherwise |1> is scaled.
    """
    weights = _by_bit(_populations(operators, density)[..., None], bit).sum(axis=(1, 3, 4))
    decays = units < probability * weights[:, 1] / weights.sum(axis=1)
    after = operators.copy()
    before, view = _by_bit(operators, bit), _by_bit(after, bit)
    view[:, :, 1] *= np.sqrt(1 - probability)
    view[decays, :, 0] = np.sqrt(probability) * before[decays, :, 1]
    view[decays, :, 1] = 0
    return after


def _populations(operators: Complex, density: Complex) -> Floats:
    """Return the unnormalized populations of the basis states after operators, (trajectories, d)."""
    populations: Floats = np.einsum("bij,bij->bi", np.matmul(operators, density), operators.conj()).real
    return populations


def _by_bit(operators: npt.NDArray[Any], bit: int) -> npt.NDArray[Any]:
    """Return a view, (trajectories, before, 2, after, columns), with one bit of the row index as an axis."""
    count, size, columns = operators.shape
    return operators.reshape(count, 2**bit, 2, size >> (bit + 1), columns)


def _z(weights: Floats, axis: int) -> Floats:
    """Return the expectation values of Z on an axis of probabilities, (trajectories,)."""
    both = weights.reshape(len(weights), 2**axis, 2, -1).sum(axis=(1, 3))
    values: Floats = both[:, 0] - both[:, 1]
    return values


def _overlap(states: Complex, string: PauliString, order: Sequence[int]) -> Floats:
    """Return the expectation values of a Pauli string, (trajectories,).

    Args:
        states: Normalized states, (trajectories, 2^qubits).
        string: Pauli string.
        order: Qubit of each bit of an amplitude's index.
    """
    bits = states.reshape(-1, *(2,) * len(order))
    for qubit, axis in zip(string.qubits, string.axes, strict=True):
        at = 1 + order.index(qubit)
        phases = {"X": (1, 1), "Y": (-1j, 1j), "Z": (1, -1)}[axis]
        flipped = bits if axis == "Z" else np.flip(bits, at)
        bits = flipped * np.reshape(phases, [2 if other == at else 1 for other in range(bits.ndim)])
    values: Floats = np.einsum("bi,bi->b", states.conj(), bits.reshape(states.shape)).real
    return values
