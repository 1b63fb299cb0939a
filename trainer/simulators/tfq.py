"""TensorFlow Quantum: the reference. One state vector a sample, adjoint gradient, CPU only."""

import math
from collections.abc import Sequence
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import sympy
import tensorflow as tf

from trainer.config import TFQ_MAX_QUBITS
from trainer.errors import ConfigError, one_line
from trainer.quantum.circuits import cluster_state
from trainer.simulators.cost import Cost
from trainer.simulators.gates import Gate, Network, read_gates
from trainer.simulators.interface import Batch, Limits, Table

_ANGLE = "excitation_angle"
# What the library spends on a gate of a sample beside the arithmetic: it reads the circuit anew. Measured.
_KERNELS_OF_A_GATE = 1.5


class TensorFlowQuantum:
    """The whole circuit of a sample, its angle a symbol, so that the n possible circuits are built once."""

    name = "tfq"
    compiles = False
    large = False

    def __init__(self, network: Network) -> None:
        tfq = _library()
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


def estimate(network: Network, limits: Limits) -> Cost:
    """Return the cost of a training step: every gate of every sample, forward, back twice, and its gradient."""
    if network.qubits > TFQ_MAX_QUBITS:
        return Cost(memory=math.inf)
    amplitudes = 2.0**network.qubits
    circuit = Cost(
        flops=sum(8.0 * 2 ** len(gate.qubits) for gate in network.gates) * amplitudes,
        kernels=_KERNELS_OF_A_GATE * len(network.gates),
        memory=3 * 8 * amplitudes,
    )
    return circuit * (4 * limits.share)


def create(network: Network, _: Limits) -> TensorFlowQuantum:
    """Create the simulator, whatever memory it needs: the library decides that itself.

    Raises:
        ConfigError: TensorFlow Quantum is not installed, lacks a gate, or takes it for another.
    """
    tfq = _library()
    ansatz, qubits = network.ansatz, network.ring

    def runs(circuit: cirq.Circuit, gates: Sequence[Gate]) -> bool:
        # The library refuses most gates that it lacks and writes the others as another gate, so its text is read back.
        try:
            (written,) = tfq.from_tensor(tfq.convert_to_tensor([circuit]))
            taken = read_gates(written.all_operations(), ansatz.symbols, qubits)
        except (ValueError, TypeError, RuntimeError, ConfigError):
            return False
        return len(taken) == len(gates) and all(map(_nearly_equal, taken, gates))

    if not runs(ansatz.circuit, network.gates):
        for operation in ansatz.circuit.all_operations():
            if not runs(cirq.Circuit(operation), read_gates([operation], ansatz.symbols, qubits)):
                raise ConfigError(
                    "model: TensorFlow Quantum has no such gate, or not with such an exponent; the other simulators "
                    f"run it. Given: {one_line(operation)}"
                )
    return TensorFlowQuantum(network)


def _library() -> Any:
    """Return the module tensorflow_quantum, which takes a second to import and is not installed everywhere.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import tensorflow_quantum
    except ImportError as error:
        reason = one_line(error)
        raise ConfigError(f"simulator: TensorFlow Quantum is not installed here ({reason}). Given: tfq") from None
    return tensorflow_quantum


def _nearly_equal(one: Gate, other: Gate) -> bool:
    """Compare gates as far as numbers of 32 bits tell."""
    if one.qubits != other.qubits or one.spectrum.projectors.shape != other.spectrum.projectors.shape:
        return False
    pairs = (
        (one.spectrum.phases, other.spectrum.phases),
        (one.spectrum.projectors, other.spectrum.projectors),
        (_exponent(one), _exponent(other)),
    )
    return all(mine.shape == its.shape and np.allclose(mine, its, rtol=1e-6, atol=1e-6) for mine, its in pairs)


def _exponent(gate: Gate) -> npt.NDArray[np.float64]:
    """Return the constant, then index and coefficient of each parameter, (1 + parameters, 2)."""
    return np.array([(gate.exponent.constant, 0.0), *gate.exponent.coefficients])
