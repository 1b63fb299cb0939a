"""The optimizer and the learning rate schedule of an experiment, and access to values of variables."""

import math
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn.errors import ArtifactError, format_value
from qcnn.experiment.config import ExperimentConfig


class _Nadam(tf_keras.optimizers.Nadam):
    """Keras' Nadam with the product of its momenta in a variable, for compiled programs and checkpoints.

    Keras counts updates of the product in Python, so a compiled program would update it once per variable of a step.
    The formula is that of Keras (tf_keras 2.21, optimizers/nadam.py, after Dozat, 2015).
    """

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Create the variables of the optimizer, once."""
        is_built = getattr(self, "_built", False)
        super().build(var_list)
        if is_built:
            return
        self._u_product = self.add_variable(
            shape=(), dtype=var_list[0].dtype, initializer="ones", name="momentum_product"
        )

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """Update one variable, and with the first variable of a step also the momentum product."""
        dtype, index = variable.dtype, self._index_dict[self._var_key(variable)]
        step, decay = tf.cast(self.iterations + 1, dtype), tf.cast(0.96, dtype)
        beta_1, beta_2 = tf.cast(self.beta_1, dtype), tf.cast(self.beta_2, dtype)
        momentum = beta_1 * (1 - 0.5 * decay**step)
        next_momentum = beta_1 * (1 - 0.5 * decay ** (step + 1))
        if index == 0:
            self._u_product.assign(self._u_product * momentum)
        product = tf.convert_to_tensor(self._u_product)
        mean, square = self._momentums[index], self._velocities[index]
        mean.assign_add((gradient - mean) * (1 - beta_1))
        square.assign_add((tf.square(gradient) - square) * (1 - beta_2))
        ahead = next_momentum * mean / (1 - product * next_momentum) + (1 - momentum) * gradient / (1 - product)
        scale = tf.sqrt(square / (1 - beta_2**step)) + self.epsilon
        variable.assign_sub(ahead * tf.cast(self.learning_rate, dtype) / scale)


_OPTIMIZERS: dict[str, type[tf_keras.optimizers.Optimizer]] = {
    "adam": tf_keras.optimizers.Adam,
    "sgd": tf_keras.optimizers.SGD,
    "rmsprop": tf_keras.optimizers.RMSprop,
    "adagrad": tf_keras.optimizers.Adagrad,
    "adamax": tf_keras.optimizers.Adamax,
    "nadam": _Nadam,
    "nesterov": tf_keras.optimizers.SGD,
}


class WarmupSchedule(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate of an experiment at every update.

    The rate rises linearly to `learning_rate` over the fraction `warmup_fraction` of the updates. Then it is constant
    (`constant`) or falls to zero by half a period of the cosine (`cosine`; Loshchilov and Hutter, arXiv:1608.03983,
    equation 5, with one period). Settings are variables, so that one compiled program serves all experiments.
    """

    def __init__(self, config: ExperimentConfig, updates: int) -> None:
        self._numbers = tf.Variable(_numbers(config, updates), trainable=False, dtype=tf.float64, name="schedule")

    @property
    def warmup_updates(self) -> int:
        """Number of updates over which the learning rate rises."""
        return int(self._numbers[1])

    def set(self, config: ExperimentConfig, updates: int) -> None:
        """Assign the settings of another experiment."""
        self._numbers.assign(_numbers(config, updates))

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the learning rate, float32, of the update after the first `step` updates."""
        peak, warmup, updates, falls = tf.unstack(self._numbers)
        done = tf.cast(step, tf.float64)
        rise = tf.minimum((done + 1) / tf.maximum(warmup, 1), 1)
        phase = falls * math.pi * (done - warmup) / tf.maximum(updates - warmup, 1)
        fall = (1 + tf.cos(tf.clip_by_value(phase, 0, math.pi))) / 2
        return tf.cast(peak * rise * fall, tf.float32)


def build_optimizer(config: ExperimentConfig, updates: int) -> tf_keras.optimizers.Optimizer:
    """Return the optimizer of an experiment, with Keras' defaults except the learning rate schedule."""
    # Not compiled: entering a compiled program for each variable takes longer than its update.
    schedule = WarmupSchedule(config, updates)
    settings = {"momentum": config.options.momentum, "nesterov": True} if config.optimizer == "nesterov" else {}
    optimizer = _OPTIMIZERS[config.optimizer](learning_rate=schedule, jit_compile=False, **settings)
    optimizer.schedule = schedule
    return optimizer


def _numbers(config: ExperimentConfig, updates: int) -> list[float]:
    options = config.options
    warmup = math.floor(options.warmup_fraction * updates)
    return [config.learning_rate, float(warmup), float(updates), float(options.learning_rate_schedule == "cosine")]


def assign(variables: Sequence[tf.Variable], values: Sequence[npt.NDArray[Any]]) -> None:
    """Assign the values of a checkpoint to variables, in order.

    Raises:
        ArtifactError: If the shapes are those of another model.
    """
    shapes = [tuple(variable.shape) for variable in variables], [value.shape for value in values]
    if shapes[0] != shapes[1]:
        raise ArtifactError(
            f"checkpoint: its weights must have shapes {format_value(shapes[0])}. Given: {format_value(shapes[1])}"
        )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def values_of(variables: Sequence[tf.Variable]) -> tuple[npt.NDArray[Any], ...]:
    """Return the values of variables, in order."""
    return tuple(variable.numpy() for variable in variables)
