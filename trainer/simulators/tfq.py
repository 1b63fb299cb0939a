"""TensorFlow Quantum: the reference. One state vector a sample, adjoint gradient, CPU only."""

import cirq
import sympy
import tensorflow as tf
import tensorflow_quantum as tfq

from trainer.circuits import Ansatz, cluster_state
from trainer.errors import ConfigError
from trainer.simulators.interface import Batch

_ANGLE = sympy.Symbol("excitation_angle")


class TensorFlowQuantum:
    """The whole circuit of a sample, its angle a symbol, so that the n possible circuits are built once."""

    compiles = False
    large = False

    def __init__(self, ansatz: Ansatz, qubits: list[cirq.GridQubit]) -> None:
        if _ANGLE in ansatz.symbols:
            raise ConfigError(f"model: a symbol must not be named as the excitation is. Given: {_ANGLE}")
        preparation = cluster_state(qubits)
        try:
            self._circuits = tfq.convert_to_tensor(
                [preparation + cirq.Circuit(cirq.rx(_ANGLE)(qubit)) + ansatz.circuit for qubit in qubits]
            )
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"model: has a gate that TensorFlow Quantum lacks. Given: {reason}") from None
        self._names = tf.constant([_ANGLE.name, *(symbol.name for symbol in ansatz.symbols)])
        self._readouts = tfq.convert_to_tensor([[1.0 * cirq.Z(qubit) for qubit in ansatz.readouts]])
        # The lines above and this one are all that is needed of the library: its layers rebuild
        # the circuits of every batch.
        self._expectation = tfq.differentiators.Adjoint().generate_differentiable_op(
            analytic_op=tfq.get_expectation_op()
        )

    def expectations(self, parameters: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Return Z on the readouts, float32 (batch, readouts)."""
        size = tf.shape(batch.qubit)[0]
        # Rounded after they are repeated: the gradient's sum over samples is then one of float64 numbers.
        repeated = tf.cast(tf.tile(parameters[None, :], [size, 1]), tf.float32)
        values = tf.concat([batch.angle[:, None], repeated], axis=1)
        circuits = tf.gather(self._circuits, batch.qubit)
        return self._expectation(circuits, self._names, values, tf.tile(self._readouts, [size, 1]))


def create(ansatz: Ansatz, qubits: list[cirq.GridQubit]) -> TensorFlowQuantum:
    """Create the simulator for an ansatz on a ring of qubits."""
    return TensorFlowQuantum(ansatz, qubits)
