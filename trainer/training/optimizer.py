"""The optimizer of an experiment, and its learning rate at every update."""

import math

import tensorflow as tf
import tf_keras

from trainer.config import ExperimentConfig

_OPTIMIZERS = {
    "adam": tf_keras.optimizers.Adam,
    "sgd": tf_keras.optimizers.SGD,
    "rmsprop": tf_keras.optimizers.RMSprop,
    "adagrad": tf_keras.optimizers.Adagrad,
    "adamax": tf_keras.optimizers.Adamax,
    "nadam": tf_keras.optimizers.Nadam,
}


class Schedule(tf_keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of an experiment at every one of its updates.

    Over the share `warmup` of the updates it rises linearly to `learning_rate`, where it stays (`constant`), or from
    where it falls by half a period of the cosine to zero (`cosine`; Loshchilov and Hutter, arXiv:1608.03983,
    equation 5, with one period). Its numbers are variables, so that a compiled program serves them all.
    """

    def __init__(self, config: ExperimentConfig, updates: int) -> None:
        self._numbers = tf.Variable(_numbers(config, updates), trainable=False, dtype=tf.float64, name="schedule")

    def set(self, config: ExperimentConfig, updates: int) -> None:
        """Take the numbers of another experiment."""
        self._numbers.assign(_numbers(config, updates))

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the learning rate, float32, of the update after so many."""
        peak, rising, updates, falls = tf.unstack(self._numbers)
        done = tf.cast(step, tf.float64)
        rise = tf.minimum((done + 1) / tf.maximum(rising, 1), 1)
        turn = falls * math.pi * (done - rising) / tf.maximum(updates - rising, 1)
        fall = (1 + tf.cos(tf.clip_by_value(turn, 0, math.pi))) / 2
        return tf.cast(peak * rise * fall, tf.float32)


def build_optimizer(config: ExperimentConfig, updates: int) -> tf_keras.optimizers.Optimizer:
    """Return the optimizer of an experiment of so many updates, with Keras' defaults but for the learning rate."""
    # Not compiled: to enter a compiled program for each variable takes longer than its update.
    schedule = Schedule(config, updates)
    optimizer = _OPTIMIZERS[config.optimizer](learning_rate=schedule, jit_compile=False)
    optimizer.schedule = schedule
    return optimizer


def _numbers(config: ExperimentConfig, updates: int) -> list[float]:
    options = config.options
    rising = math.floor(options.warmup * updates)
    return [config.learning_rate, float(rising), float(updates), float(options.schedule == "cosine")]
