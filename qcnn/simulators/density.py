"""Simulator density: expectation values under noise, by real matrices on coefficients of Pauli products."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.circuits.circuits import cluster_state
from qcnn.simulators.costs.density import DECLARATION
from qcnn.simulators.evolution import common_slices
from qcnn.simulators.interface import (
    ExcitationBatch,
    Inputs,
    ProductStateBatch,
    ReadoutCoefficients,
    SimulatorLimits,
    StateBatch,
)
from qcnn.simulators.structure import heisenberg
from qcnn.simulators.structure.gate_fusion import Block, expand_to_block
from qcnn.simulators.structure.gates import CircuitIR, LinearExponent, read_gates
from qcnn.simulators.structure.heisenberg import Floats, HeisenbergStep, PropagatedObservable, propagate_readouts, terms
from qcnn.simulators.tensor_ops import as_input, gather_rows, padded, permuted, product


class Superoperators:
    """The matrices of blocks, each kind once, those on as many qubits together."""

    def __init__(self, blocks: Iterable[Block], parameters: int) -> None:
        kinds: dict[int, dict[tuple[object, ...], Block]] = {}
        for block in blocks:
            kinds.setdefault(len(block.qubits), {})[block.key] = block
        self._alike = [_Alike(list(each.values()), parameters) for each in kinds.values()]
        every = [block.key for each in kinds.values() for block in each.values()]
        self._index = {key: number for number, key in enumerate(every)}

    def index(self, block: Block) -> int:
        """Return which of the matrices is the block's."""
        return self._index[block.key]

    def __call__(self, parameters: tf.Tensor) -> list[tf.Tensor]:
        """Return every kind's matrix, float64 (4^qubits, 4^qubits), for parameters float64 (parameters,)."""
        return [matrix for alike in self._alike for matrix in tf.unstack(alike(parameters))]


class _Alike:
    """Kinds of blocks on one number of qubits: products of their gates, padded with identities."""

    def __init__(self, blocks: Sequence[Block], parameters: int) -> None:
        size = 4 ** len(blocks[0].qubits)
        every = [[terms(gate) for gate in block.gates] for block in blocks]
        depth = padded(max(map(len, every)))
        most = max(len(each.frequencies) for gates in every for each in gates)
        shape = (len(blocks), depth)
        self._frequencies = np.zeros((*shape, most))
        self._cosines, self._sines = np.zeros((*shape, most, size, size)), np.zeros((*shape, most, size, size))
        self._cosines[:, :, 0] = np.eye(size)
        self._constants, self._coefficients = np.zeros(shape), np.zeros((*shape, parameters))
        for row, (block, gates) in enumerate(zip(blocks, every, strict=True)):
            for column, (gate, each) in enumerate(zip(block.gates, gates, strict=True)):
                count = len(each.frequencies)
                self._frequencies[row, column, :count] = each.frequencies
                self._cosines[row, column, :count] = expand_to_block(each.cosines, gate.qubits, block.qubits, levels=4)
                self._sines[row, column, :count] = expand_to_block(each.sines, gate.qubits, block.qubits, levels=4)
                self._set_exponent(gate.exponent, row, column)

    def _set_exponent(self, exponent: LinearExponent, row: int, column: int) -> None:
        self._constants[row, column] = exponent.constant
        for index, coefficient in exponent.coefficients:
            self._coefficients[row, column, index] = coefficient

    def __call__(self, parameters: tf.Tensor) -> tf.Tensor:
        """Return the matrices, float64 (kinds, 4^qubits, 4^qubits)."""
        exponents = as_input(self._constants) + tf.linalg.matvec(as_input(self._coefficients), parameters)
        angles = (np.pi * as_input(self._frequencies) * exponents[:, :, None])[..., None, None]
        both = tf.cos(angles) * as_input(self._cosines) + tf.sin(angles) * as_input(self._sines)
        return product(tf.reduce_sum(both, axis=2))


# Qubits of a piece of an observable that is taken at a time.
_PIECE = 2
# I, X, Y and Z as rows of elements, without the i of Y.
_REAL = np.array([[1.0, 0, 0, 1], [0, 1, 1, 0], [0, -1, 1, 0], [1, 0, 0, -1]])


def create(network: CircuitIR, _: SimulatorLimits) -> "DensitySimulator":
    """Create the simulator of a network that has been checked."""
    return DensitySimulator(network)


class DensitySimulator:
    """Evaluates the readouts of a circuit under the noise of its network."""

    name = "density"
    compiles = DECLARATION.own_operations
    large = True

    def __init__(self, network: CircuitIR) -> None:
        self.network = network
        self._pulled = propagate_readouts(network)
        blocks = [step.block for pulled in self._pulled for step in pulled.steps]
        self._superoperators = Superoperators(blocks, network.parameters)
        match network.preparation.kind:
            case "excitation":
                cluster = _cluster(network)
                self._overlaps = [_Overlaps(pulled, cluster) for pulled in self._pulled]
                self._turn = _turn("rx", network)
            case "state":
                self._operators = [_Operator(pulled, network.qubits) for pulled in self._pulled]
            case _:
                self._products = _ProductReadouts(network)

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: one observable a readout serves all samples."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts)."""
        match batch:
            case ExcitationBatch():
                return self._of_excitations(parameters, batch)
            case ProductStateBatch():
                vectors = self._products(batch.features)
                columns = [_of_products(vectors, *each) for each in self._observables(parameters)]
            case StateBatch():
                state = tf.cast(batch.state, tf.float64)
                pairs = zip(self._operators, self._observables(parameters), strict=True)
                columns = [operator(observable, state) for operator, (_, observable) in pairs]
        return tf.stack(columns, axis=1)

    def table(self, parameters: tf.Tensor) -> ReadoutCoefficients:
        """Return what the readouts of every possible sample follow from; every qubit reaches all of them."""
        constant, cosine, sine = self._rows(parameters)
        still = constant + cosine
        reached = tf.tile(tf.range(still.shape[1])[None, :], [still.shape[0], 1])
        return ReadoutCoefficients(still[0], reached, -2 * cosine, 2 * sine, still - still[0])

    def _of_excitations(self, parameters: tf.Tensor, batch: ExcitationBatch) -> tf.Tensor:
        rows = tf.concat(self._rows(parameters), axis=1)
        constant, cosine, sine = tf.split(gather_rows(rows, batch.qubit), 3, axis=1)
        angle = tf.cast(batch.angle, tf.float64)[:, None]
        return constant + cosine * tf.cos(angle) + sine * tf.sin(angle)

    def _rows(self, parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return a, b and c of a + b cos + c sin of the angle, each (qubits, readouts)."""
        pairs = zip(self._overlaps, self._observables(parameters), strict=True)
        overlaps = tf.stack([each(observable) for each, (_, observable) in pairs], axis=1)
        constant, cosine, sine = (tf.reduce_sum(overlaps * part, axis=[2, 3]) for part in self._turn)
        return constant, cosine, sine

    def _observables(self, parameters: tf.Tensor) -> list[tuple[PropagatedObservable, tf.Tensor]]:
        """Return each readout's observable before the circuit, float64 (4^cone,)."""
        matrices = self._superoperators(parameters)
        return [(pulled, self._pull(pulled, matrices)) for pulled in self._pulled]

    def _pull(self, pulled: PropagatedObservable, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
        observable = self.network.noise.visibility * tf.constant([0, 0, 0, 1], tf.float64)
        for step in pulled.steps:
            rows = tf.reshape(_moved(observable, step), [-1, 4 ** len(step.held)])
            observable = tf.matmul(rows, _rows_of(matrices[self._superoperators.index(step.block)], step))
        return tf.reshape(observable, [-1])


def _moved(observable: tf.Tensor, step: HeisenbergStep) -> tf.Tensor:
    """Bring the axes that a block acts on to the end; those that stay neighbours travel as one."""
    wanted = (*step.rest, *step.held)
    if wanted == step.before:
        return observable
    together = list(common_slices(step.before, wanted))
    before = sorted(together, key=lambda run: step.before.index(run[0]))
    view = tf.reshape(observable, [4 ** len(run) for run in before])
    return tf.transpose(view, [before.index(run) for run in together])


def _rows_of(matrix: tf.Tensor, step: HeisenbergStep) -> tf.Tensor:
    """Return the rows of a block's matrix for the identity on its new qubits, (4^held, 4^block)."""
    if not step.new:
        return matrix
    places = tuple(0 if qubit in step.new else slice(None) for qubit in step.block.qubits)
    bits = tf.reshape(matrix, [*(4,) * len(step.block.qubits), -1])
    return tf.reshape(bits[places], [4 ** len(step.held), -1])


def _cluster(network: CircuitIR) -> Floats:
    """Return the coefficients of the cluster state as its own noisy gates make it, (4,) * qubits."""
    gates = read_gates(cluster_state(network.ring).all_operations(), (), network.ring, network.noise)
    state = heisenberg.ground_state(network.qubits)
    for gate in gates:
        state = heisenberg.applied(heisenberg.terms(gate).at(gate.exponent.constant), gate.qubits, state)
    return state


def _turn(kind: str, network: CircuitIR) -> tuple[Floats, Floats, Floats]:
    """Return A, B and C of the matrix A + B cos + C sin, (4, 4), that a turn about an axis is, with its noise."""
    axis = {"rx": 1, "ry": 2, "rz": 3}[kind]
    one, other = 1 + axis % 3, 1 + (axis + 1) % 3
    kept, cosine, sine = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((4, 4))
    kept[0, 0] = kept[axis, axis] = 1
    cosine[one, one] = cosine[other, other] = 1
    sine[other, one], sine[one, other] = 1, -1
    channel = network.noise.channel(1)
    after = heisenberg.channel_matrix(channel, 1) if channel else np.eye(4)
    return after @ kept, after @ cosine, after @ sine


class _Overlaps:
    """What an observable gives for the cluster state with any one qubit in any other state."""

    def __init__(self, pulled: PropagatedObservable, cluster: Floats) -> None:
        self._qubits, self._cone = cluster.ndim, pulled.qubits
        own = _on_cone(cluster, pulled.qubits)
        self._pieces = [range(at, min(at + _PIECE, own.ndim)) for at in range(0, own.ndim, _PIECE)]
        self._states = [_piece_last(own, piece) for piece in self._pieces]

    def __call__(self, observable: tf.Tensor) -> tf.Tensor:
        """Return for each qubit the sum over all others of observable times state, (qubits, 4, 4).

        The rows are the observable's Pauli matrix on the qubit, the columns the state's.
        """
        found = {}
        for piece, state in zip(self._pieces, self._states, strict=True):
            width = 4 ** len(piece)
            view = tf.reshape(observable, [4**piece.start, width, -1])
            rows = tf.reshape(tf.transpose(view, [0, 2, 1]), [-1, width])
            own = tf.reshape(tf.matmul(rows, as_input(state), transpose_a=True), [4] * (2 * len(piece)))
            for number, axis in enumerate(piece):
                rest = [k for k in range(len(piece)) if k != number]
                found[self._cone[axis]] = _traced(own, number, rest)
        # On what is outside of the cone the observable is the identity: any state there gives its trace.
        outside = tf.pad(tf.linalg.trace(found[self._cone[0]])[None, None], [[0, 3], [0, 3]])
        return tf.stack([found.get(qubit, outside) for qubit in range(self._qubits)])


def _traced(own: tf.Tensor, number: int, rest: Sequence[int]) -> tf.Tensor:
    """Sum a piece's overlaps, rows and columns of each of its qubits, over the qubits of `rest`."""
    count = len(own.shape) // 2
    moved = tf.transpose(own, [number, count + number, *rest, *(count + k for k in rest)])
    size = 4 ** len(rest)
    return tf.linalg.trace(tf.reshape(moved, [4, 4, size, size]))


def _on_cone(state: Floats, qubits: Sequence[int]) -> Floats:
    """Return the coefficients on some qubits, in their order, the others traced out."""
    rest = [qubit for qubit in range(state.ndim) if qubit not in qubits]
    moved: Floats = np.transpose(state, [*rest, *qubits])[(0,) * len(rest)]
    return moved


def _piece_last(state: Floats, piece: range) -> Floats:
    rows = state.reshape(4**piece.start, 4 ** len(piece), -1).transpose(0, 2, 1)
    return np.ascontiguousarray(rows.reshape(-1, 4 ** len(piece)))


class _ProductReadouts:
    """The product states of samples: each qubit's coefficients as a + b cos + c sin of its feature."""

    def __init__(self, network: CircuitIR) -> None:
        preparation = network.preparation
        ground, channel = np.array([1.0, 0.0, 0.0, 1.0]), network.noise.channel(1)
        if preparation.kind == "rz":
            # H makes |+> of |0>.
            after = heisenberg.channel_matrix(channel, 1) if channel else np.eye(4)
            ground = after @ np.array([1.0, 1.0, 0.0, 0.0])
        self._turned = [matrix @ ground for matrix in _turn(preparation.kind, network)]
        self._idle = np.tile(ground, (network.qubits - preparation.features, 1))

    def __call__(self, features: tf.Tensor) -> list[tf.Tensor]:
        """Return each qubit's coefficients, float64 (samples, 4), or (1, 4) where all samples have the same."""
        angle = tf.cast(features, tf.float64)[:, :, None]
        constant, cosine, sine = self._turned
        turned = constant + cosine * tf.cos(angle) + sine * tf.sin(angle)
        return [*tf.unstack(turned, axis=1), *(tf.constant(row[None]) for row in self._idle)]


def _of_products(vectors: Sequence[tf.Tensor], pulled: PropagatedObservable, observable: tf.Tensor) -> tf.Tensor:
    """Return an observable's values, (samples,), on products of the qubits' states."""
    half = len(pulled.qubits) // 2
    samples = tf.shape(vectors[0])[0]
    first, second = (
        _joined([vectors[qubit] for qubit in part], samples) for part in (pulled.qubits[:half], pulled.qubits[half:])
    )
    matrix = tf.reshape(observable, [4**half, -1])
    return tf.reduce_sum(tf.matmul(first, matrix) * second, axis=1)


def _joined(vectors: Sequence[tf.Tensor], samples: tf.Tensor) -> tf.Tensor:
    joined = tf.ones([samples, 1], tf.float64)
    for vector in vectors:
        size = 4 * joined.shape[1]
        joined = tf.reshape(joined[:, :, None] * vector[:, None, :], [samples, size])
    return joined


class _Operator:
    """The real part of an observable as a matrix on states, which is all that real amplitudes see."""

    def __init__(self, pulled: PropagatedObservable, qubits: int) -> None:
        count = len(pulled.qubits)
        self._size = 2**count
        self._sizes = [4 ** min(_PIECE, count - at) for at in range(0, count, _PIECE)]
        # Y is i times a real matrix: products with an odd number of it are imaginary.
        number = np.zeros(1, np.int64)
        for _ in range(count):
            number = np.add.outer(number, [0, 0, 1, 0]).ravel()
        self._signs = np.array([1.0, 0.0, -1.0, 0.0])[number % 4]
        # Where a matrix's elements stand: row and column of one qubit after those of another.
        self._places = _transposed(2 * count, [*range(0, 2 * count, 2), *range(1, 2 * count, 2)])
        rest = [qubit for qubit in range(qubits) if qubit not in pulled.qubits]
        self._amplitudes = _transposed(qubits, [*pulled.qubits, *rest])

    def __call__(self, observable: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Return the observable's values, (samples,), on real states, float64 (samples, 2^qubits)."""
        size, rest = self._size, len(self._amplitudes) // self._size
        matrix = tf.reshape(permuted(self._elements(observable), self._places), [size, size])
        rows = tf.reshape(tf.gather(state, as_input(self._amplitudes), axis=1), [-1, size, rest])
        # All samples in one product.
        columns = tf.reshape(tf.transpose(rows, [1, 0, 2]), [size, -1])
        values = tf.reduce_sum(tf.matmul(matrix, columns) * columns, axis=0)
        return tf.reduce_sum(tf.reshape(values, [-1, rest]), axis=1)

    def _elements(self, observable: tf.Tensor) -> tf.Tensor:
        """Return the elements, row and column of each qubit: pieces go to the end in turn, until all are in order."""
        values = observable * as_input(self._signs)
        for size in self._sizes:
            matrix = _REAL if size == len(_REAL) else np.kron(_REAL, _REAL)
            values = tf.matmul(tf.reshape(values, [size, -1]), as_input(matrix), transpose_a=True)
        return tf.reshape(values, [-1])


def _transposed(bits: int, order: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return where the entries of an array of so many axes of length 2 stand once its axes are in another order."""
    places = np.arange(2**bits, dtype=np.int32).reshape((2,) * bits)
    return np.ascontiguousarray(places.transpose(order).ravel())
