"""The data states of samples, however they are prepared."""

import math

import tensorflow as tf

from qcnn.trainer.quantum.preparation import Kind
from qcnn.trainer.simulators.excitations import flip_masks, sample_states
from qcnn.trainer.simulators.interface import Features, Inputs, States
from qcnn.trainer.simulators.structure.gates import Network
from qcnn.trainer.simulators.structure.ring import ring_edges


def data_states(network: Network, samples: Inputs, dtype: tf.DType) -> tf.Tensor:
    """Return the state of every sample, real and imaginary parts, (samples, 2^qubits, 2)."""
    qubits = network.qubits
    if isinstance(samples, States):
        real = tf.cast(samples.state, dtype)
        return tf.stack([real, tf.zeros_like(real)], axis=2)
    if isinstance(samples, Features):
        # Qubits without a feature are turned by nothing.
        angles = tf.pad(samples.features, [[0, 0], [0, qubits - network.preparation.features]])
        return product_states(network.preparation.kind, angles, dtype)
    edges = ring_edges(qubits)
    masks = tf.gather(flip_masks(qubits, edges, range(qubits)), samples.qubit)
    return sample_states(qubits, edges, masks, samples.angle, dtype)


def product_states(kind: Kind, angles: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return product states of turned qubits, real and imaginary parts, (samples, 2^qubits, 2).

    Of angles (samples, qubits), rad, about the axis that the kind of preparation names.
    """
    half = tf.cast(angles, dtype) / 2
    cos, sin, nothing = tf.cos(half), tf.sin(half), tf.zeros_like(half)
    if kind == "rx":
        real, imaginary = (cos, nothing), (nothing, -sin)
    elif kind == "ry":
        real, imaginary = (cos, sin), (nothing, nothing)
    else:
        root = math.sqrt(0.5)
        real, imaginary = (root * cos, root * cos), (-root * sin, root * sin)
    factors = tf.unstack(tf.complex(tf.stack(real, axis=2), tf.stack(imaginary, axis=2)), axis=1)
    while len(factors) > 1:
        pairs = zip(factors[0::2], factors[1::2], strict=False)
        factors = [*(_joined(*pair) for pair in pairs), *factors[len(factors) // 2 * 2 :]]
    return tf.stack([tf.math.real(factors[0]), tf.math.imag(factors[0])], axis=2)


def _joined(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    return tf.reshape(first[:, :, None] * second[:, None, :], [-1, first.shape[1] * second.shape[1]])
