"""Model y = w x + b for training with parameter servers."""

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
import tf_keras

from qcnn.trainer.distribution.parameter_servers import Batch

# True parameters and standard deviation of the noise.
SLOPE, INTERCEPT, NOISE = 2.0, 0.0, 0.1
_BATCH = 32


class Line:
    """Linear model, a `TrainableModel` of `qcnn.trainer.distribution.parameter_servers`; initially y = 0."""

    def __init__(self) -> None:
        self.weights = [tf.Variable(tf.zeros([1], tf.float64), name=name) for name in ("w", "b")]
        self.optimizer = self.clone_optimizer()
        self.optimizer.build(self.weights)

    def clone_optimizer(self) -> tf_keras.optimizers.Optimizer:
        """Return a stochastic gradient descent optimizer."""
        return tf_keras.optimizers.SGD(0.01, jit_compile=False)

    def gradient(self, weights: Sequence[tf.Tensor], **batch: tf.Tensor) -> tf.Tensor:
        """Return the gradient of the mean squared error in w and b, then the error, float64 (3,)."""
        slope, intercept = weights
        error = slope * batch["x"] + intercept - batch["y"]
        return tf.stack([2 * tf.reduce_mean(error * batch["x"]), 2 * tf.reduce_mean(error), tf.reduce_mean(error**2)])

    def compiles(self, batch: Batch) -> bool:
        """Return whether XLA can compile the gradient."""
        return True


def batches(updates: range) -> Iterator[Batch]:
    """Yield the batch of each update: x and y, float64 (32,).

    The update number is the seed of the batch, so a resumed run gets the same batches.
    """
    for update in updates:
        random = np.random.default_rng(update)
        x = random.uniform(-1, 1, _BATCH)
        yield {"x": x, "y": SLOPE * x + INTERCEPT + random.normal(0, NOISE, _BATCH)}
