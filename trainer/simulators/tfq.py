"""TensorFlow Quantum: the reference. One state vector a sample, adjoint gradient, CPU only."""

import math

import cirq
import sympy
import tensorflow as tf

from trainer.quantum.circuits import cluster_state
from trainer.simulators.costs.tfq import check, library
from trainer.simulators.interface import Batch, Limits, Table
from trainer.simulators.structure.gates import Network

_ANGLE = "excitation_angle"


def create(network: Network, limits: Limits) -> "TensorFlowQuantum":
    """Create the simulator.

    Raises:
        ConfigError: TensorFlow Quantum is not installed, lacks a gate, or takes it for another.
    """
    check(network, limits)
    return TensorFlowQuantum(network)


class TensorFlowQuantum:
    """The whole circuit of a sample, its angle a symbol, so that the n possible circuits are built once."""

    name = "tfq"
    compiles = False
    large = False

    def __init__(self, network: Network) -> None:
        tfq = library()
        self.network = network
        ansatz, qubits = network.ansatz, network.ring
        names = [symbol.name for symbol in ansatz.symbols]
        angle = sympy.Symbol(_ANGLE)
        while angle.name in names:
            angle = sympy.Symbol(f"{angle.name}_")
        preparation = cluster_state(qubits)
        self._circuits = tfq.convert_to_tensor(
            [preparation + cirq.Circuit(cirq.rx(angle)(qubit)) + ansatz.circuit for qubit in qubits]
        )
        self._names = tf.constant([angle.name, *names])
        self._readouts = tfq.convert_to_tensor([[1.0 * cirq.Z(qubit) for qubit in ansatz.readouts]])
        # Without the library's layers, which rebuild the circuits of every batch.
        self._expectation = tfq.differentiators.Adjoint().generate_differentiable_op(
            analytic_op=tfq.get_expectation_op()
        )

    def by_qubit(self, batch: int, replicas: int) -> bool:
        """Return False: it evolves every sample."""
        return False

    def expectations(self, parameters: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts)."""
        size = tf.shape(batch.qubit)[0]
        # Rounded after they are repeated: the gradient's sum over samples is then one of float64 numbers.
        repeated = tf.cast(tf.tile(parameters[None, :], [size, 1]), tf.float32)
        values = tf.concat([batch.angle[:, None], repeated], axis=1)
        circuits = tf.gather(self._circuits, batch.qubit)
        values = self._expectation(circuits, self._names, values, tf.tile(self._readouts, [size, 1]))
        return tf.cast(values, tf.float64)

    def table(self, parameters: tf.Tensor) -> Table:
        """Return what the readouts of every possible sample follow from; every qubit reaches all of them."""
        qubits, readouts = self._circuits.shape[0], self._readouts.shape[1]
        every = tf.tile(tf.range(qubits), [3])
        angles = tf.repeat(tf.constant([0.0, math.pi, math.pi / 2]), qubits)
        values = self.expectations(parameters, Batch(every, angles))
        at_zero, at_pi, between = tf.split(values, 3)
        reached = tf.tile(tf.range(readouts)[None, :], [qubits, 1])
        return Table(at_zero[0], reached, at_pi - at_zero, 2 * between - at_zero - at_pi)
