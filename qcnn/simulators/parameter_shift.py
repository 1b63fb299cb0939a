"""Gradients by the parameter-shift rule, from exact readouts or estimates from shots."""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from qcnn.simulators.interface import Inputs, Simulator, StringCoefficients
from qcnn.simulators.structure.gates import CircuitIR
from qcnn.simulators.structure.shift_rules import shift_parameters
from qcnn.simulators.tensor_ops import as_input

# Maps exact readouts, (samples, readouts), and a shift point's number, int32 (), to estimates. Point 0 is unshifted.
Estimate: TypeAlias = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class ParameterShift:
    """Simulator with parameter-shift gradients.

    Wraps a simulator of the same network with one parameter per gate. A gradient evaluates every sample at each shift
    point of `ShiftedCircuit`, sequentially.
    """

    def __init__(self, network: CircuitIR, simulator: Simulator) -> None:
        self.network = network
        self.name, self.compiles, self.large = simulator.name, simulator.compiles, simulator.large
        self.rounding = simulator.rounding
        self._simulator = simulator
        self._points = shift_parameters(network)
        # Compiled separately: XLA cannot compile the sampling of shots.
        self._compiled = tf.function(simulator.expectations, jit_compile=simulator.compiles, autograph=False)

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return whether replicas should split a batch by qubit instead of by sample."""
        return self._simulator.shards_by_qubit(batch, replicas)

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of the Pauli strings, float64 (batch, strings)."""
        return self._differentiable(self._simulator.expectations, lambda values, _: values, parameters, batch)

    def estimates(self, parameters: tf.Tensor, batch: Inputs, estimate: Estimate) -> tf.Tensor:
        """Return estimates of the readouts, float64 (batch, readouts), with estimated gradients.

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            batch: Samples.
            estimate: Estimator of the readouts of all samples at a shift point.
        """
        return self._differentiable(self._compiled, estimate, parameters, batch)

    def table(self, parameters: tf.Tensor) -> StringCoefficients:
        """Return the coefficients of every possible excitation."""
        return self._simulator.table(self._exponents(parameters))

    def _differentiable(
        self,
        expectations: Callable[[tf.Tensor, Inputs], tf.Tensor],
        estimate: Estimate,
        parameters: tf.Tensor,
        batch: Inputs,
    ) -> tf.Tensor:
        points = self._points

        @tf.custom_gradient
        def run(parameters: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            exponents = self._exponents(parameters)

            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                def at(point: tuple[tf.Tensor, ...]) -> tf.Tensor:
                    occurrence, shift, factor, number = point
                    shifted = exponents + shift * tf.one_hot(occurrence, exponents.shape[0], dtype=tf.float64)
                    return factor * tf.reduce_sum(upstream * estimate(expectations(shifted, batch), number))

                every = [as_input(each) for each in (points.occurrence, points.shift, points.factor)]
                numbers = tf.range(1, 1 + len(points.shift))
                along = tf.map_fn(at, (*every, numbers), fn_output_signature=tf.float64)
                slopes = as_input(points.coefficients[points.occurrence])
                return tf.linalg.matvec(slopes, along, transpose_a=True)

            return estimate(expectations(exponents, batch), tf.constant(0)), gradient

        return run(parameters)

    def _exponents(self, parameters: tf.Tensor) -> tf.Tensor:
        return as_input(self._points.constants) + tf.linalg.matvec(as_input(self._points.coefficients), parameters)
