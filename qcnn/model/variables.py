"""The values of TensorFlow's variables, as checkpoints hold them."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import tensorflow as tf

from qcnn.errors import ArtifactError, given


def assign(variables: Sequence[tf.Variable], values: Sequence[npt.NDArray[Any]]) -> None:
    """Set variables to the values of a checkpoint, in order.

    Raises:
        ArtifactError: they are another model's.
    """
    shapes = [tuple(variable.shape) for variable in variables], [value.shape for value in values]
    if shapes[0] != shapes[1]:
        raise ArtifactError(f"checkpoint: its weights must be of shapes {given(shapes[0])}. Given: {given(shapes[1])}")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def values_of(variables: Sequence[tf.Variable]) -> tuple[npt.NDArray[Any], ...]:
    """Return the values of variables, in order."""
    return tuple(variable.numpy() for variable in variables)
