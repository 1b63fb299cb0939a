"""What every simulator offers."""

import dataclasses
from typing import NamedTuple, Protocol

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bytes that states may take at a time, a worker's samples in a step, and the bytes of a state vector's real."""

    memory: float
    batch: int
    real_bytes: int = 4


class Batch(NamedTuple):
    """Samples: the excited qubit, int32 (batch,), and its angle, float32 (batch,), rad."""

    qubit: tf.Tensor
    angle: tf.Tensor


class Simulator(Protocol):
    """Exact expectation values of an ansatz on excited cluster states."""

    @property
    def compiles(self) -> bool:
        """Whether it consists of TensorFlow's own operations, to be compiled with whatever is around it."""

    @property
    def large(self) -> bool:
        """Whether to compile it pays even for a few calls."""

    def expectations(self, parameters: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Return Z on the readouts, float32 (batch, readouts).

        Differentiable in `parameters`, float64 (parameters,), whose gradient sums over the samples; works
        in a tf.function and under every strategy the simulator's hardware allows.
        """
