"""Gradients by the parameter-shift rule, from exact readouts or estimates from shots."""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from qcnn.simulators.input_exponents import InputExponents
from qcnn.simulators.interface import AmplitudeBatch, CircuitInputBatch, Inputs, Simulator, StringCoefficients
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.structure.shift_rules import shift_parameters
from qcnn.simulators.tensor_ops import as_input

# Maps exact readouts, (samples, readouts), and a shift point's number, int32 (), to estimates. Point 0 is unshifted.
Estimate: TypeAlias = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class ParameterShift:
    """Simulator with parameter-shift gradients.

    Wraps a simulator of the same network with one parameter per gate. A gradient evaluates every sample at each shift
    point of `ShiftedCircuit`, sequentially. Amplitudes have the gradient of the simulator.
    """

    def __init__(self, network: CircuitIR, simulator: Simulator) -> None:
        self.network = network
        self.name, self.compiles, self.large = simulator.name, simulator.compiles, simulator.large
        self.rounding = simulator.rounding
        self._simulator = simulator
        self._points = shift_parameters(network)
        self._by_sample = InputExponents(network) if network.inputs else None
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

        def slopes_at(exponents: tf.Tensor, batch: Inputs, upstream: tf.Tensor, *, by_sample: bool) -> tf.Tensor:
            """Return the share of each shift point in the derivative along its exponent, (points,) or by sample."""

            def at(point: tuple[tf.Tensor, ...]) -> tf.Tensor:
                occurrence, shift, factor, number = point
                shifted = exponents + shift * tf.one_hot(occurrence, exponents.shape[0], dtype=tf.float64)
                values = upstream * estimate(expectations(shifted, batch), number)
                return factor * (tf.reduce_sum(values, axis=1) if by_sample else tf.reduce_sum(values))

            every = [as_input(each) for each in (points.occurrence, points.shift, points.factor)]
            numbers = tf.range(1, 1 + len(points.shift))
            # There is no control flow to convert, and AutoGraph would log a warning.
            at_point = tf.autograph.experimental.do_not_convert(at)
            return tf.map_fn(at_point, (*every, numbers), fn_output_signature=tf.float64)

        slopes = as_input(points.coefficients[points.occurrence])

        @tf.custom_gradient
        def run(parameters: tf.Tensor, *states: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
            exponents = self._exponents(parameters)

            def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
                along = slopes_at(exponents, batch, upstream, by_sample=False)
                of_parameters = tf.linalg.matvec(slopes, along, transpose_a=True)

                def of_amplitudes(state: tf.Tensor) -> tf.Tensor:
                    with tf.GradientTape() as tape:
                        tape.watch(state)
                        values = expectations(exponents, AmplitudeBatch(state))
                    return tape.gradient(values, state, upstream)

                return [of_parameters, *map(of_amplitudes, states)]

            return estimate(expectations(exponents, batch), tf.constant(0)), gradient

        if isinstance(batch, AmplitudeBatch):
            return run(parameters, batch.state)
        if self._by_sample is None or not isinstance(batch, CircuitInputBatch):
            return run(parameters)

        @tf.custom_gradient
        def run_with_inputs(
            parameters: tf.Tensor, added: tf.Tensor
        ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
            exponents, samples = self._exponents(parameters), CircuitInputBatch(added)

            def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                along = slopes_at(exponents, samples, upstream, by_sample=True)
                columns = tf.one_hot(as_input(points.by_sample[points.occurrence]), added.shape[1], dtype=tf.float64)
                of_parameters = tf.linalg.matvec(slopes, tf.reduce_sum(along, axis=1), transpose_a=True)
                return of_parameters, tf.matmul(along, columns, transpose_a=True)

            return estimate(expectations(exponents, samples), tf.constant(0)), gradient

        # The exponents by sample are functions whose derivatives TensorFlow knows.
        return run_with_inputs(parameters, self._by_sample(parameters, batch.features))

    def _exponents(self, parameters: tf.Tensor) -> tf.Tensor:
        return as_input(self._points.constants) + tf.linalg.matvec(as_input(self._points.coefficients), parameters)
