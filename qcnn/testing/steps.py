"""Readouts and gradient of a training step."""

import tensorflow as tf

from qcnn.simulators import Inputs, Simulator
from qcnn.testing.cirq_readouts import Floats


def step(
    simulator: Simulator, values: Floats, batch: Inputs, weights: Floats, *, compiled: bool = False
) -> tuple[Floats, Floats]:
    """Return the readouts and the gradient of their weighted sum.

    Args:
        simulator: Simulator.
        values: Circuit parameters, (parameters,).
        batch: Samples of the simulator's preparation.
        weights: Weights of the sum, (samples, readouts).
        compiled: Whether XLA compiles the step, if the simulator supports it.
    """

    def compute(parameters: tf.Tensor, batch: Inputs) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            readouts = simulator.expectations(parameters, batch)
            loss = tf.reduce_sum(readouts * tf.constant(weights, tf.float64))
        return readouts, tape.gradient(loss, parameters, unconnected_gradients="zero")

    program = tf.function(compute, jit_compile=True, autograph=False) if compiled and simulator.compiles else compute
    readouts, gradient = program(tf.constant(values, tf.float64), batch)
    assert readouts.dtype == tf.float64
    return readouts.numpy(), gradient.numpy()
