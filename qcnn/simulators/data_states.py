"""Data states: graph states with one rotated qubit, product states, and given states.

rx(angle) on a qubit transforms the graph state |0> into cos(angle/2)|0> - i sin(angle/2)|flipped>. Every expectation
value is therefore a + b cos(angle) + c sin(angle). Three rows determine it: the values of the graph state, of the
flipped state, and of i|0><flipped| - i|flipped><0| (the mixed row).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.circuits.preparation import Edges, Kind, ring_edges, rotated_qubit
from qcnn.simulators.interface import CircuitInputBatch, ExcitationBatch, Inputs, ProductStateBatch, StateBatch
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.tensor_ops import gather_rows


def flip_masks(qubits: int, edges: Edges, flipped: Iterable[int]) -> npt.NDArray[np.int32]:
    """Return the bit masks of the neighbors of qubits, int32 (flipped,).

    X on a qubit changes the sign of the amplitudes whose masked bits have odd parity. X on a qubit and Z on its
    neighbors stabilize the graph state (Hein, Eisert and Briegel, arXiv:quant-ph/0307130, equation 4), so X alone acts
    as Z on the neighbors.

    Args:
        qubits: Number of qubits.
        edges: Edges of the graph.
        flipped: Qubits to return masks of.
    """
    masks = np.zeros(qubits, np.int32)
    for a, b in edges:
        masks[a] ^= 1 << (qubits - 1 - b)
        masks[b] ^= 1 << (qubits - 1 - a)
    return masks[list(flipped)]


def graph_state(qubits: int, edges: Edges, dtype: tf.DType) -> tf.Tensor:
    """Return the real amplitudes of the graph state, (2^qubits,).

    Args:
        qubits: Number of qubits.
        edges: Edges of the graph.
        dtype: Floating-point type of the amplitudes.
    """
    # One shift covers all edges of the same length. A ring has two edge lengths.
    lower: dict[int, int] = {}
    for a, b in edges:
        lower[abs(a - b)] = lower.get(abs(a - b), 0) ^ 1 << (qubits - 1 - max(a, b))
    index = tf.range(2**qubits, dtype=tf.int32)
    joined = tf.zeros_like(index)
    for distance, mask in lower.items():
        joined ^= index & tf.bitwise.right_shift(index, distance) & mask
    return tf.cast(1 - 2 * _parity(joined), dtype) / 2.0 ** (qubits / 2)


def signs(qubits: int, masks: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the sign of every amplitude, (masks, 2^qubits): -1 if the masked bits have odd parity.

    Args:
        qubits: Number of qubits.
        masks: Bit masks, int32 (masks,).
        dtype: Floating-point type of the signs.
    """
    index = tf.range(2**qubits, dtype=tf.int32)
    return tf.cast(1 - 2 * _parity(index[None, :] & masks[:, None]), dtype)


def _parity(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.raw_ops.PopulationCount(x=values), tf.int32) & 1


def spanning_states(qubits: int, edges: Edges, masks: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the graph state and the flipped states, real and imaginary parts, (1 + masks, 2^qubits, 2).

    Args:
        qubits: Number of qubits.
        edges: Edges of the graph.
        masks: Flip masks, see `flip_masks`, int32 (masks,).
        dtype: Floating-point type of the parts.
    """
    every = tf.concat([tf.zeros([1], tf.int32), masks], axis=0)
    real = graph_state(qubits, edges, dtype) * signs(qubits, every, dtype)
    return tf.stack([real, tf.zeros_like(real)], axis=2)


def sample_states(qubits: int, edges: Edges, masks: tf.Tensor, angles: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the data states of excitations, real and imaginary parts, (samples, 2^qubits, 2).

    Args:
        qubits: Number of qubits.
        edges: Edges of the graph.
        masks: Flip mask of the excited qubit of each sample, int32 (samples,).
        angles: Rotation angles, (samples,), in radians.
        dtype: Floating-point type of the parts.
    """
    half = tf.cast(angles, dtype)[:, None] / 2
    graph = graph_state(qubits, edges, dtype)
    return tf.stack([graph * tf.cos(half), -graph * signs(qubits, masks, dtype) * tf.sin(half)], axis=2)


def shares(angles: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the weights of the flipped and the mixed row, float64 (samples,) each.

    The weight of the graph state is 1 - flipped.

    Args:
        angles: Rotation angles, (samples,), in radians.
    """
    angle = tf.cast(angles, tf.float64)
    return (1 - tf.cos(angle)) / 2, tf.sin(angle) / 2


def rows_of_batch(qubits: int, batch: ExcitationBatch) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the qubits whose rows a batch needs, and the position of each sample's qubit among them.

    They are all qubits, or those of the replica. Samples of other qubits have an arbitrary position.

    Args:
        qubits: Number of qubits.
        batch: Excitation samples.
    """
    if batch.own is None:
        return tf.range(qubits), batch.qubit
    here = tf.cast(tf.equal(batch.qubit[:, None], batch.own), tf.int32)
    return tf.maximum(batch.own, 0), tf.reduce_sum(here * tf.range(batch.own.shape[0]), axis=1)


def readouts_from_rows(
    unexcited: tf.Tensor, flipped: tf.Tensor, mixed: tf.Tensor, places: tf.Tensor, angles: tf.Tensor
) -> tf.Tensor:
    """Return the readouts of samples from the rows of their qubits, float64 (samples, readouts).

    Args:
        unexcited: Readouts of the graph state, float64 (readouts,).
        flipped: Flipped rows minus the unexcited row, float64 (rows, readouts).
        mixed: Mixed rows, float64 (rows, readouts).
        places: Position of each sample's qubit among the rows, int32 (samples,).
        angles: Rotation angles, (samples,), in radians.
    """
    flip_share, mix_share = shares(angles)
    return (
        unexcited + gather_rows(flipped, places) * flip_share[:, None] + gather_rows(mixed, places) * mix_share[:, None]
    )


def data_states(network: CircuitIR, samples: Inputs, dtype: tf.DType) -> tf.Tensor:
    """Return the data states of samples, real and imaginary parts, (samples, 2^qubits, 2).

    Args:
        network: Network whose preparation the samples have.
        samples: Batch of samples.
        dtype: Floating-point type of the parts.
    """
    qubits = network.qubits
    if isinstance(samples, StateBatch):
        real = tf.cast(samples.state, dtype)
        return tf.stack([real, tf.zeros_like(real)], axis=2)
    if isinstance(samples, CircuitInputBatch):
        first = tf.one_hot(0, 2 ** (qubits + 1), dtype=dtype)
        return tf.tile(tf.reshape(first, [1, -1, 2]), [tf.shape(samples.features)[0], 1, 1])
    if isinstance(samples, ProductStateBatch):
        return product_states(network.preparation.kind, angles_of_qubits(network, samples), dtype)
    edges = ring_edges(qubits)
    masks = tf.gather(flip_masks(qubits, edges, range(qubits)), samples.qubit)
    return sample_states(qubits, edges, masks, samples.angle, dtype)


def normalized_states(rows: tf.Tensor, amplitudes: int) -> tf.Tensor:
    """Return the states of rows of features, float64 (rows, amplitudes): their values divided by their norm.

    Missing amplitudes are 0. The state of a row of zeros is NaN. The values are divided by the largest first, so that
    no square overflows.

    Args:
        rows: Features, float64 (rows, features), at most `amplitudes` of them.
        amplitudes: Number of amplitudes of a state.
    """
    # The state does not depend on this divisor.
    scaled = rows / tf.stop_gradient(tf.reduce_max(tf.abs(rows), axis=1, keepdims=True))
    states = scaled / tf.norm(scaled, axis=1, keepdims=True)
    return tf.pad(states, [[0, 0], [0, amplitudes - rows.shape[1]]])


def angles_of_qubits(network: CircuitIR, batch: ProductStateBatch) -> tf.Tensor:
    """Return the rotation angles of all qubits, (samples, qubits), or (samples, 2 qubits) with `dense`, in radians.

    Missing features have angle 0.
    """
    rotations = 2 if network.preparation.kind == "dense" else 1
    missing = rotations * network.qubits - network.preparation.features
    return tf.pad(batch.features, [[0, 0], [0, missing]])


def product_states(kind: Kind, angles: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return product states of rotated qubits, real and imaginary parts, (samples, 2^qubits, 2).

    Args:
        kind: Preparation, which names the rotation axes.
        angles: Rotation angles, see `angles_of_qubits`.
        dtype: Floating-point type of the parts.
    """
    factors = tf.unstack(qubit_states(kind, angles, dtype), axis=1)
    factors = [tf.complex(factor[..., 0], factor[..., 1]) for factor in factors]
    while len(factors) > 1:
        pairs = zip(factors[0::2], factors[1::2], strict=False)
        factors = [*(_kronecker(*pair) for pair in pairs), *factors[len(factors) // 2 * 2 :]]
    return tf.stack([tf.math.real(factors[0]), tf.math.imag(factors[0])], axis=2)


def qubit_states(kind: Kind, angles: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the states of rotated qubits, real and imaginary parts, (samples, qubits, 2, 2).

    Args:
        kind: Preparation, which names the rotation axes.
        angles: Rotation angles, see `angles_of_qubits`.
        dtype: Floating-point type of the parts.
    """
    half = tf.cast(angles, dtype) / 2
    parts = rotated_qubit(kind, tf.cos(half), tf.sin(half), tf.zeros_like(half))
    return tf.reshape(tf.stack(parts, axis=2), [-1, parts[0].shape[1], 2, 2])


def _kronecker(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    return tf.reshape(first[:, :, None] * second[:, None, :], [-1, first.shape[1] * second.shape[1]])
