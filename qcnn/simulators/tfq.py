"""Simulator tfq: TensorFlow Quantum, the reference, with one state vector per sample on CPU."""

import math
from collections.abc import Sequence

import cirq
import sympy
import tensorflow as tf

from qcnn.circuits.circuits import cluster_state
from qcnn.circuits.sample_circuits import product
from qcnn.simulators.costs.tfq import DECLARATION, library
from qcnn.simulators.interface import ROUNDING, ExcitationBatch, Inputs, SimulatorLimits, StringCoefficients
from qcnn.simulators.structure.network import CircuitIR

_ANGLE, _FEATURE = "excitation_angle", "feature"
# Period of a rotation's unitary in its angle, in radians.
_PERIOD = 4 * math.pi


def create(network: CircuitIR, _: SimulatorLimits) -> "TensorFlowQuantum":
    """Create the simulator of a checked network."""
    return TensorFlowQuantum(network)


class TensorFlowQuantum:
    """Simulator that runs the circuit of each sample with TensorFlow Quantum.

    Angles are symbols, so that circuits are built only once: one per qubit for excitations, and one for features.
    """

    name = "tfq"
    compiles = DECLARATION.builtin_operations
    large = False
    rounding = ROUNDING[4]

    def __init__(self, network: CircuitIR) -> None:
        tfq = library()
        self.network = network
        names = [symbol.name for symbol in network.ansatz.symbols]
        if network.preparation.kind == "excitation":
            angles = [_unused_symbol(names, _ANGLE)]
            prepared = [cluster_state(network.ring) + cirq.Circuit(cirq.rx(angles[0])(qubit)) for qubit in network.ring]
        else:
            angles = [_unused_symbol(names, f"{_FEATURE}{number}") for number in range(network.preparation.features)]
            prepared = [_product(network, angles)]
        self._circuits = tfq.convert_to_tensor([preparation + network.circuit for preparation in prepared])
        self._names = tf.constant([*(angle.name for angle in angles), *names])
        strings: list[cirq.PauliString[cirq.Qid]] = [
            cirq.PauliString(dict(zip((network.ring[qubit] for qubit in qubits), axes, strict=True)))
            for qubits, axes in network.strings
        ]
        self._strings = tfq.convert_to_tensor([strings])
        # The library's Keras layers would rebuild the circuits of every batch.
        self._expectation = tfq.differentiators.Adjoint().generate_differentiable_op(
            analytic_op=tfq.get_expectation_op()
        )

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False, because every sample is evolved."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of the Pauli strings, float64 (batch, strings)."""
        size = tf.shape(batch[0])[0]
        # Cast after tiling, so that the gradient sums over samples in float64.
        repeated = tf.cast(tf.tile(parameters[None, :], [size, 1]), tf.float32)
        if isinstance(batch, ExcitationBatch):
            angles, circuits = batch.angle[:, None], tf.gather(self._circuits, batch.qubit)
        else:
            angles, circuits = batch[0], tf.tile(self._circuits, [size])
        values = tf.concat([_reduce_angles(angles), repeated], axis=1)
        values = self._expectation(circuits, self._names, values, tf.tile(self._strings, [size, 1]))
        return tf.cast(values, tf.float64)

    def table(self, parameters: tf.Tensor) -> StringCoefficients:
        """Return the coefficients of every possible excitation.

        Every qubit reaches all strings.
        """
        qubits, strings = self._circuits.shape[0], self._strings.shape[1]
        every = tf.tile(tf.range(qubits), [3])
        angles = tf.repeat(tf.constant([0.0, math.pi, math.pi / 2]), qubits)
        values = self.expectations(parameters, ExcitationBatch(every, angles))
        at_zero, at_pi, between = tf.split(values, 3)
        reached = tf.tile(tf.range(strings)[None, :], [qubits, 1])
        return StringCoefficients(at_zero[0], reached, at_pi - at_zero, 2 * between - at_zero - at_pi)


def _product(network: CircuitIR, angles: Sequence[sympy.Symbol]) -> cirq.Circuit:
    """Return the circuit that prepares the product state of features, with a gate on every qubit."""
    idle = (cirq.I(qubit) for qubit in network.ring)
    return cirq.Circuit(idle, product(network.preparation.kind, network.ring, angles))


def _reduce_angles(angles: tf.Tensor) -> tf.Tensor:
    """Return equivalent angles in [-2 pi, 2 pi], float32, in radians.

    The library converts units in float32, which loses the digits of large angles.
    """
    exact = tf.cast(angles, tf.float64)
    return tf.cast(exact - _PERIOD * tf.round(exact / _PERIOD), tf.float32)


def _unused_symbol(names: Sequence[str], name: str) -> sympy.Symbol:
    """Return a symbol whose name the circuit does not use, by appending underscores."""
    while name in names:
        name += "_"
    return sympy.Symbol(name)
