"""TensorFlow Quantum: the reference. One state vector a sample, adjoint gradient, CPU only."""

import math
from collections.abc import Sequence

import cirq
import sympy
import tensorflow as tf

from qcnn.circuits.circuits import cluster_state
from qcnn.simulators.costs.tfq import DECLARATION, library
from qcnn.simulators.interface import ExcitationBatch, Inputs, ReadoutCoefficients, SimulatorLimits
from qcnn.simulators.structure.gates import CircuitIR

_ANGLE, _FEATURE = "excitation_angle", "feature"
_TURNS = {"rx": cirq.rx, "ry": cirq.ry, "rz": cirq.rz}
# Rotations by an angle and by so much more are the same unitary, rad.
_PERIOD = 4 * math.pi


def create(network: CircuitIR, _: SimulatorLimits) -> "TensorFlowQuantum":
    """Create the simulator of a network that has been checked."""
    return TensorFlowQuantum(network)


class TensorFlowQuantum:
    """The whole circuit of a sample, its angles symbols, so that the possible circuits are built once.

    Of excitations there is one for each qubit, of features one for all samples.
    """

    name = "tfq"
    compiles = DECLARATION.own_operations
    large = False

    def __init__(self, network: CircuitIR) -> None:
        tfq = library()
        self.network = network
        names = [symbol.name for symbol in network.ansatz.symbols]
        if network.preparation.kind == "excitation":
            angles = [_unlike(names, _ANGLE)]
            prepared = [cluster_state(network.ring) + cirq.Circuit(cirq.rx(angles[0])(qubit)) for qubit in network.ring]
        else:
            angles = [_unlike(names, f"{_FEATURE}{number}") for number in range(network.preparation.features)]
            prepared = [_product(network, angles)]
        self._circuits = tfq.convert_to_tensor([preparation + network.circuit for preparation in prepared])
        self._names = tf.constant([*(angle.name for angle in angles), *names])
        self._readouts = tfq.convert_to_tensor([[1.0 * cirq.Z(qubit) for qubit in network.ansatz.readouts]])
        # Without the library's layers, which rebuild the circuits of every batch.
        self._expectation = tfq.differentiators.Adjoint().generate_differentiable_op(
            analytic_op=tfq.get_expectation_op()
        )

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: it evolves every sample."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts)."""
        size = tf.shape(batch[0])[0]
        # Rounded after they are repeated: the gradient's sum over samples is then one of float64 numbers.
        repeated = tf.cast(tf.tile(parameters[None, :], [size, 1]), tf.float32)
        if isinstance(batch, ExcitationBatch):
            angles, circuits = batch.angle[:, None], tf.gather(self._circuits, batch.qubit)
        else:
            angles, circuits = batch[0], tf.tile(self._circuits, [size])
        values = tf.concat([_reduced(angles), repeated], axis=1)
        values = self._expectation(circuits, self._names, values, tf.tile(self._readouts, [size, 1]))
        return tf.cast(values, tf.float64)

    def table(self, parameters: tf.Tensor) -> ReadoutCoefficients:
        """Return what the readouts of every possible excitation follow from; every qubit reaches all of them."""
        qubits, readouts = self._circuits.shape[0], self._readouts.shape[1]
        every = tf.tile(tf.range(qubits), [3])
        angles = tf.repeat(tf.constant([0.0, math.pi, math.pi / 2]), qubits)
        values = self.expectations(parameters, ExcitationBatch(every, angles))
        at_zero, at_pi, between = tf.split(values, 3)
        reached = tf.tile(tf.range(readouts)[None, :], [qubits, 1])
        return ReadoutCoefficients(at_zero[0], reached, at_pi - at_zero, 2 * between - at_zero - at_pi)


def _product(network: CircuitIR, angles: Sequence[sympy.Symbol]) -> cirq.Circuit:
    """Return what makes the product state of features; qubits without one are turned by nothing."""
    kind = network.preparation.kind
    begun = cirq.H.on_each(*network.ring) if kind == "rz" else []
    turns = zip([*angles, *[0.0] * (len(network.ring) - len(angles))], network.ring, strict=True)
    return cirq.Circuit(begun, (_TURNS[kind](angle)(qubit) for angle, qubit in turns))


def _reduced(angles: tf.Tensor) -> tf.Tensor:
    """Return angles of the same rotations in [-2 pi, 2 pi], float32, rad.

    The library converts angles to other units in float32, which loses the digits of large ones.
    """
    exact = tf.cast(angles, tf.float64)
    return tf.cast(exact - _PERIOD * tf.round(exact / _PERIOD), tf.float32)


def _unlike(names: Sequence[str], name: str) -> sympy.Symbol:
    """Return a symbol of a name that the circuit does not use."""
    while name in names:
        name += "_"
    return sympy.Symbol(name)
