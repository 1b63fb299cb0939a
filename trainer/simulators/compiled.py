"""Functions of the parameters as compiled programs."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def compiled(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Compile a function of parameters and constant inputs; what its gradient needs is handed on."""
    program: Callable[..., tf.Tensor] = tf.function(function, jit_compile=True, autograph=False)
    return program


def compiled_twice(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Compile a function of parameters and constant inputs, and one for its gradient that starts anew.

    For little work: to hand tensors on from one program to the next takes longer than to compute them again,
    and training and validation share the first program.
    """
    forward = compiled(function)

    @tf.function(jit_compile=True, autograph=False)
    def backward(upstream: tf.Tensor, parameters: tf.Tensor, *inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = function(parameters, *inputs)
        return tape.gradient(value, parameters, upstream)

    @tf.custom_gradient
    def run(parameters: tf.Tensor, *inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        def gradient(upstream: tf.Tensor) -> Any:
            return backward(upstream, parameters, *inputs), *(None for _ in inputs)

        return forward(parameters, *inputs), gradient

    program: Callable[..., tf.Tensor] = run
    return program
