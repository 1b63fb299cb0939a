"""Simulator density: exact expectation values under noise, as real coefficients of Pauli products."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.circuits.circuits import cluster_state
from qcnn.simulators.costs.density import DECLARATION, samples_at_once
from qcnn.simulators.evolution import common_slices
from qcnn.simulators.input_exponents import InputExponents
from qcnn.simulators.interface import (
    ROUNDING,
    CircuitInputBatch,
    ExcitationBatch,
    Inputs,
    ProductStateBatch,
    SimulatorLimits,
    StateBatch,
    StringCoefficients,
)
from qcnn.simulators.structure import heisenberg
from qcnn.simulators.structure.gate_fusion import Block, expand_to_block
from qcnn.simulators.structure.gates import read_gates
from qcnn.simulators.structure.heisenberg import Floats, HeisenbergStep, PropagatedObservable, propagate_readouts, terms
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.tensor_ops import (
    GateExponents,
    as_input,
    gather_rows,
    map_in_chunks,
    padded_length,
    permute,
    product,
)


class Superoperators:
    """Pauli transfer matrices of distinct blocks, batched by the number of qubits."""

    def __init__(self, blocks: Iterable[Block], network: CircuitIR) -> None:
        by_size: dict[tuple[bool, int], dict[tuple[object, ...], Block]] = {}
        for block in blocks:
            by_size.setdefault((block.is_by_sample, len(block.qubits)), {})[block.key] = block
        self._batches = [_SameSizeBlocks(list(each.values()), network) for each in by_size.values()]
        every = [block.key for each in by_size.values() for block in each.values()]
        self._index = {key: number for number, key in enumerate(every)}

    def index(self, block: Block) -> int:
        """Return the index of the matrix of a block."""
        return self._index[block.key]

    def __call__(self, parameters: tf.Tensor, exponents: tf.Tensor | None = None) -> list[tf.Tensor]:
        """Return the matrices of the distinct blocks, float64 (4^qubits, 4^qubits) each.

        Those of blocks that depend on inputs are (samples, 4^qubits, 4^qubits).

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            exponents: Exponents by sample, float64 (samples, exponents), for a circuit with inputs.
        """
        return [matrix for batch in self._batches for matrix in tf.unstack(batch(parameters, exponents), axis=-3)]


class _SameSizeBlocks:
    """Transfer matrices of blocks on the same number of qubits, as gate products padded with identities."""

    def __init__(self, blocks: Sequence[Block], network: CircuitIR) -> None:
        size = 4 ** len(blocks[0].qubits)
        self._is_by_sample = blocks[0].is_by_sample
        every = [[terms(gate) for gate in block.gates] for block in blocks]
        depth = padded_length(max(map(len, every)))
        width = max(len(each.frequencies) for gates in every for each in gates)
        shape = (len(blocks), depth)
        self._frequencies = np.zeros((*shape, width))
        self._cosines, self._sines = np.zeros((*shape, width, size, size)), np.zeros((*shape, width, size, size))
        self._cosines[:, :, 0] = np.eye(size)
        self._exponents = GateExponents(shape, network.parameters, network.exponents_by_sample)
        for row, (block, gates) in enumerate(zip(blocks, every, strict=True)):
            for column, (gate, each) in enumerate(zip(block.gates, gates, strict=True)):
                count = len(each.frequencies)
                self._frequencies[row, column, :count] = each.frequencies
                self._cosines[row, column, :count] = expand_to_block(each.cosines, gate.qubits, block.qubits, levels=4)
                self._sines[row, column, :count] = expand_to_block(each.sines, gate.qubits, block.qubits, levels=4)
                self._exponents.set(gate.exponent, row, column)

    def __call__(self, parameters: tf.Tensor, exponents: tf.Tensor | None) -> tf.Tensor:
        """Return the matrices, float64 (blocks, 4^qubits, 4^qubits), or (samples, blocks, 4^qubits, 4^qubits)."""
        every = self._exponents(parameters, exponents if self._is_by_sample else None)
        angles = (np.pi * as_input(self._frequencies) * every[..., None])[..., None, None]
        both = tf.cos(angles) * as_input(self._cosines) + tf.sin(angles) * as_input(self._sines)
        return product(tf.reduce_sum(both, axis=-3))


# Qubits of an observable that are contracted at a time.
_PIECE = 2
# Elements of I, X, Y and Z, one matrix per row, without the factor i of Y.
_REAL = np.array([[1.0, 0, 0, 1], [0, 1, 1, 0], [0, -1, 1, 0], [1, 0, 0, -1]])


def create(network: CircuitIR, limits: SimulatorLimits) -> "DensitySimulator":
    """Create the simulator of a checked network."""
    return DensitySimulator(network, samples_at_once(network, limits))


class DensitySimulator:
    """Simulator of exact readouts under noise, which propagates observables backwards."""

    name = "density"
    compiles = DECLARATION.builtin_operations
    large = True
    rounding = ROUNDING[8]

    def __init__(self, network: CircuitIR, samples_at_once: int) -> None:
        self.network = network
        self._pulled = propagate_readouts(network)
        blocks = [step.block for pulled in self._pulled for step in pulled.steps]
        self._superoperators = Superoperators(blocks, network)
        match network.preparation.kind:
            case "excitation":
                cluster = _cluster(network)
                self._overlaps = [_Overlaps(pulled, cluster) for pulled in self._pulled]
                self._rotation = _rotation("rx", network)
            case "state":
                self._operators = [_Operator(pulled, network.qubits) for pulled in self._pulled]
            case "circuit":
                self._exponents, self._samples_at_once = InputExponents(network), samples_at_once
            case _:
                self._products = _ProductReadouts(network)

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False, because one observable per readout is used for all samples."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of the Pauli strings, float64 (batch, strings)."""
        match batch:
            case ExcitationBatch():
                return self._of_excitations(parameters, batch)
            case CircuitInputBatch():
                shape = (len(self._pulled),)
                return map_in_chunks(
                    self._of_inputs, parameters, tuple(batch), self._samples_at_once, shape, of_inputs=True
                )
            case ProductStateBatch():
                vectors = self._products(batch.features)
                columns = [_of_products(vectors, *each) for each in self._observables(parameters)]
            case StateBatch():
                state = tf.cast(batch.state, tf.float64)
                pairs = zip(self._operators, self._observables(parameters), strict=True)
                columns = [operator(observable, state) for operator, (_, observable) in pairs]
        return tf.stack(columns, axis=1)

    def table(self, parameters: tf.Tensor) -> StringCoefficients:
        """Return the coefficients of every possible excitation.

        Every qubit reaches all strings.
        """
        constant, cosine, sine = self._rows(parameters)
        still = constant + cosine
        reached = tf.tile(tf.range(still.shape[1])[None, :], [still.shape[0], 1])
        return StringCoefficients(still[0], reached, -2 * cosine, 2 * sine, still - still[0])

    def _of_excitations(self, parameters: tf.Tensor, batch: ExcitationBatch) -> tf.Tensor:
        rows = tf.concat(self._rows(parameters), axis=1)
        constant, cosine, sine = tf.split(gather_rows(rows, batch.qubit), 3, axis=1)
        angle = tf.cast(batch.angle, tf.float64)[:, None]
        return constant + cosine * tf.cos(angle) + sine * tf.sin(angle)

    def _of_inputs(self, parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        matrices = self._superoperators(parameters, self._exponents(parameters, features))
        # The coefficients of |0> are 1 for I and Z, and 0 for X and Y.
        columns = []
        for pulled in self._pulled:
            observable = self._propagate(pulled, matrices)
            axes = tf.reshape(observable, [-1, *[4] * len(pulled.qubits)])
            for axis in range(1, 1 + len(pulled.qubits)):
                axes = tf.gather(axes, [0, 3], axis=axis)
            values = tf.reduce_sum(tf.reshape(axes, [-1, 2 ** len(pulled.qubits)]), axis=1)
            columns.append(tf.broadcast_to(values, [tf.shape(features)[0]]))
        return tf.stack(columns, axis=1)

    def _rows(self, parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return a, b and c of the readouts a + b cos(angle) + c sin(angle), (qubits, readouts) each."""
        pairs = zip(self._overlaps, self._observables(parameters), strict=True)
        overlaps = tf.stack([each(observable) for each, (_, observable) in pairs], axis=1)
        constant, cosine, sine = (tf.reduce_sum(overlaps * part, axis=[2, 3]) for part in self._rotation)
        return constant, cosine, sine

    def _observables(self, parameters: tf.Tensor) -> list[tuple[PropagatedObservable, tf.Tensor]]:
        """Return the propagated observable of each Pauli string, float64 (1, 4^cone)."""
        matrices = self._superoperators(parameters)
        return [(pulled, self._propagate(pulled, matrices)) for pulled in self._pulled]

    def _propagate(self, pulled: PropagatedObservable, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return an observable, float64 (1, 4^cone), or (samples, 4^cone) if it depends on inputs."""
        observable = tf.constant(heisenberg.coefficients(pulled.string, self.network.noise))[None]
        for step in pulled.steps:
            matrix = _rows_of(matrices[self._superoperators.index(step.block)], step)
            # An observable that does not depend on inputs has one row, which is the fastest form of the product.
            samples = [] if observable.shape[0] == 1 and matrix.shape.rank == 2 else [-1]
            rows = tf.reshape(_move_axes(observable, step), [*samples, 4 ** len(step.rest), 4 ** len(step.held)])
            observable = tf.reshape(tf.matmul(rows, matrix), [*(samples or [1]), 4 ** len(step.after)])
        return observable


def _move_axes(observable: tf.Tensor, step: HeisenbergStep) -> tf.Tensor:
    """Move the axes that a block acts on to the end, with axes that stay adjacent as one."""
    after = (*step.rest, *step.held)
    if after == step.before:
        return observable
    slices = list(common_slices(step.before, after))
    before = sorted(slices, key=lambda run: step.before.index(run[0]))
    view = tf.reshape(observable, [-1, *(4 ** len(run) for run in before)])
    return tf.transpose(view, [0, *(1 + before.index(run) for run in slices)])


def _rows_of(matrix: tf.Tensor, step: HeisenbergStep) -> tf.Tensor:
    """Return the rows of a block's matrix with the identity on its new qubits, (..., 4^held, 4^block)."""
    if not step.new:
        return matrix
    samples = [-1] if matrix.shape.rank > 2 else []
    places = tuple(0 if qubit in step.new else slice(None) for qubit in step.block.qubits)
    bits = tf.reshape(matrix, [*samples, *(4,) * len(step.block.qubits), matrix.shape[-1]])
    return tf.reshape(bits[(..., *places, slice(None))], [*samples, 4 ** len(step.held), matrix.shape[-1]])


def _cluster(network: CircuitIR) -> Floats:
    """Return the Pauli coefficients of the cluster state prepared by noisy gates, (4,) * qubits."""
    gates = read_gates(cluster_state(network.ring).all_operations(), (), network.ring, network.noise)
    state = heisenberg.ground_state(network.qubits)
    for gate in gates:
        state = heisenberg.apply_transfer(heisenberg.terms(gate).at(gate.exponent.constant), gate.qubits, state)
    return state


def _rotation(kind: str, network: CircuitIR) -> tuple[Floats, Floats, Floats]:
    """Return A, B and C of the matrix A + B cos(angle) + C sin(angle) of a noisy rotation, (4, 4) each."""
    axis = {"rx": 1, "ry": 2, "rz": 3}[kind]
    one, other = 1 + axis % 3, 1 + (axis + 1) % 3
    constant, cosine, sine = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((4, 4))
    constant[0, 0] = constant[axis, axis] = 1
    cosine[one, one] = cosine[other, other] = 1
    sine[other, one], sine[one, other] = 1, -1
    channel = network.noise.channel(1)
    after = heisenberg.channel_matrix(channel, 1) if channel else np.eye(4)
    return after @ constant, after @ cosine, after @ sine


class _Overlaps:
    """Contractions of an observable with the cluster state over all qubits except one."""

    def __init__(self, pulled: PropagatedObservable, cluster: Floats) -> None:
        self._qubits, self._cone = cluster.ndim, pulled.qubits
        reduced = _on_cone(cluster, pulled.qubits)
        self._pieces = [range(at, min(at + _PIECE, reduced.ndim)) for at in range(0, reduced.ndim, _PIECE)]
        self._states = [_piece_last(reduced, piece) for piece in self._pieces]

    def __call__(self, observable: tf.Tensor) -> tf.Tensor:
        """Return for each qubit the contraction of observable and state over all others, (qubits, 4, 4).

        The rows are the observable's Pauli matrix on the qubit, the columns the state's.
        """
        overlaps = {}
        for piece, state in zip(self._pieces, self._states, strict=True):
            width = 4 ** len(piece)
            view = tf.reshape(observable, [4**piece.start, width, -1])
            rows = tf.reshape(tf.transpose(view, [0, 2, 1]), [-1, width])
            overlap = tf.reshape(tf.matmul(rows, as_input(state), transpose_a=True), [4] * (2 * len(piece)))
            for number, axis in enumerate(piece):
                rest = [k for k in range(len(piece)) if k != number]
                overlaps[self._cone[axis]] = _trace_out(overlap, number, rest)
        # Outside of the cone the observable is the identity, and the result is the trace for any state.
        outside = tf.pad(tf.linalg.trace(overlaps[self._cone[0]])[None, None], [[0, 3], [0, 3]])
        return tf.stack([overlaps.get(qubit, outside) for qubit in range(self._qubits)])


def _trace_out(overlap: tf.Tensor, number: int, rest: Sequence[int]) -> tf.Tensor:
    """Trace a piece's overlap, (4,) * 2 * qubits, over the qubits of `rest`."""
    count = len(overlap.shape) // 2
    moved = tf.transpose(overlap, [number, count + number, *rest, *(count + k for k in rest)])
    size = 4 ** len(rest)
    return tf.linalg.trace(tf.reshape(moved, [4, 4, size, size]))


def _on_cone(state: Floats, qubits: Sequence[int]) -> Floats:
    """Return the coefficients of the reduced state of some qubits, in the given order."""
    rest = [qubit for qubit in range(state.ndim) if qubit not in qubits]
    moved: Floats = np.transpose(state, [*rest, *qubits])[(0,) * len(rest)]
    return moved


def _piece_last(state: Floats, piece: range) -> Floats:
    rows = state.reshape(4**piece.start, 4 ** len(piece), -1).transpose(0, 2, 1)
    return np.ascontiguousarray(rows.reshape(-1, 4 ** len(piece)))


class _ProductReadouts:
    """Pauli coefficients of product states: for each rotation (A + B cos(feature) + C sin(feature)) x coefficients."""

    def __init__(self, network: CircuitIR) -> None:
        preparation = network.preparation
        ground, channel = np.array([1.0, 0.0, 0.0, 1.0]), network.noise.channel(1)
        if preparation.kind == "rz":
            # H transforms |0> into |+>.
            after = heisenberg.channel_matrix(channel, 1) if channel else np.eye(4)
            ground = after @ np.array([1.0, 1.0, 0.0, 0.0])
        axes = ("rx", "ry") if preparation.kind == "dense" else (preparation.kind,)
        first, *self._later = (_rotation(axis, network) for axis in axes)
        self._rotated = [matrix @ ground for matrix in first]
        self._ground, self._qubits = ground, network.qubits

    def __call__(self, features: tf.Tensor) -> list[tf.Tensor]:
        """Return each qubit's coefficients, float64 (samples, 4), or (1, 4) for qubits without a feature."""
        angles, qubits = tf.cast(features, tf.float64)[:, :, None], self._qubits
        rotated = _rotate(self._rotated, angles[:, :qubits])
        for number, rotation in enumerate(self._later, start=1):
            angle = angles[:, number * qubits : (number + 1) * qubits]
            before, rest = rotated[:, : angle.shape[1]], rotated[:, angle.shape[1] :]
            after = _rotate([tf.linalg.matvec(as_input(matrix), before) for matrix in rotation], angle)
            rotated = tf.concat([after, rest], axis=1)
        idle = [tf.constant(self._ground[None])] * (qubits - rotated.shape[1])
        return [*tf.unstack(rotated, axis=1), *idle]


def _rotate(parts: Sequence[tf.Tensor], angle: tf.Tensor) -> tf.Tensor:
    constant, cosine, sine = parts
    return constant + cosine * tf.cos(angle) + sine * tf.sin(angle)


def _of_products(vectors: Sequence[tf.Tensor], pulled: PropagatedObservable, observable: tf.Tensor) -> tf.Tensor:
    """Return the expectation values of an observable on product states, (samples,)."""
    half = len(pulled.qubits) // 2
    samples = tf.shape(vectors[0])[0]
    first, second = (
        _kronecker([vectors[qubit] for qubit in part], samples) for part in (pulled.qubits[:half], pulled.qubits[half:])
    )
    matrix = tf.reshape(observable, [4**half, -1])
    return tf.reduce_sum(tf.matmul(first, matrix) * second, axis=1)


def _kronecker(vectors: Sequence[tf.Tensor], samples: tf.Tensor) -> tf.Tensor:
    whole = tf.ones([samples, 1], tf.float64)
    for vector in vectors:
        size = 4 * whole.shape[1]
        whole = tf.reshape(whole[:, :, None] * vector[:, None, :], [samples, size])
    return whole


class _Operator:
    """Real part of an observable's matrix, for expectation values of real states.

    The imaginary part does not contribute to them.
    """

    def __init__(self, pulled: PropagatedObservable, qubits: int) -> None:
        count = len(pulled.qubits)
        self._size = 2**count
        self._sizes = [4 ** min(_PIECE, count - at) for at in range(0, count, _PIECE)]
        # Y is i times a real matrix: Pauli products with an odd number of Y are imaginary.
        number = np.zeros(1, np.int64)
        for _ in range(count):
            number = np.add.outer(number, [0, 0, 1, 0]).ravel()
        self._signs = np.array([1.0, 0.0, -1.0, 0.0])[number % 4]
        # Positions of the matrix elements, whose axes are the row and column bits qubit by qubit.
        self._places = _transposed_indices(2 * count, [*range(0, 2 * count, 2), *range(1, 2 * count, 2)])
        rest = [qubit for qubit in range(qubits) if qubit not in pulled.qubits]
        self._amplitudes = _transposed_indices(qubits, [*pulled.qubits, *rest])

    def __call__(self, observable: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Return the expectation values, (samples,), on real states, float64 (samples, 2^qubits)."""
        size, rest = self._size, len(self._amplitudes) // self._size
        matrix = tf.reshape(permute(self._elements(observable), self._places), [size, size])
        rows = tf.reshape(tf.gather(state, as_input(self._amplitudes), axis=1), [-1, size, rest])
        columns = tf.reshape(tf.transpose(rows, [1, 0, 2]), [size, -1])
        values = tf.reduce_sum(tf.matmul(matrix, columns) * columns, axis=0)
        return tf.reduce_sum(tf.reshape(values, [-1, rest]), axis=1)

    def _elements(self, observable: tf.Tensor) -> tf.Tensor:
        """Return the matrix elements, with the row and column bits qubit by qubit.

        Each product converts the first piece and moves it to the end, so that the pieces are finally in order.
        """
        values = observable * as_input(self._signs)
        for size in self._sizes:
            matrix = _REAL if size == len(_REAL) else np.kron(_REAL, _REAL)
            values = tf.matmul(tf.reshape(values, [size, -1]), as_input(matrix), transpose_a=True)
        return tf.reshape(values, [-1])


def _transposed_indices(bits: int, order: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return the original index of each entry of a (2,) * bits array after transposition."""
    places = np.arange(2**bits, dtype=np.int32).reshape((2,) * bits)
    return np.ascontiguousarray(places.transpose(order).ravel())
