"""Layers of the head on NumPy arrays, without TensorFlow.

A row is computed by the same operations whatever the other rows are: products and sums of whole columns, in a fixed
order, instead of matrix products. Results do not depend, to the bit, on how rows are divided into batches.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qcnn.model.array_losses import MIN_PROBABILITY

_Floats = npt.NDArray[np.float64]

_ERFC = np.frompyfunc(math.erfc, 1, 1)
# TensorFlow rounds 1 / sqrt(2) to float32, also in double precision (tensorflow/python/ops/nn_ops.py, `gelu`).
_GELU_SCALE = float(np.float32(math.sqrt(0.5)))
# Constants of SELU (Klambauer et al., arXiv:1706.02515), as in Keras.
_SELU_SCALE, _SELU_ALPHA = 1.05070098735548049342, 1.67326324235437728481


def _elu(values: _Floats) -> _Floats:
    return np.where(values > 0, values, np.expm1(np.minimum(values, 0)))


def _selu(values: _Floats) -> _Floats:
    return _SELU_SCALE * np.where(values > 0, values, _SELU_ALPHA * np.expm1(np.minimum(values, 0)))


def _gelu(values: _Floats) -> _Floats:
    return 0.5 * values * np.asarray(_ERFC(-values * _GELU_SCALE), np.float64)


def _sigmoid(values: _Floats) -> _Floats:
    small = np.exp(-np.abs(values))
    return np.where(values >= 0, 1 / (1 + small), small / (1 + small))


def _softplus(values: _Floats) -> _Floats:
    return np.maximum(values, 0) + np.log1p(np.exp(-np.abs(values)))


def _softmax(values: _Floats) -> _Floats:
    exponentials = np.exp(values - values.max(axis=1, keepdims=True))
    total = exponentials[:, :1].copy()
    for column in range(1, values.shape[1]):
        total += exponentials[:, column : column + 1]
    probabilities: _Floats = exponentials / total
    return probabilities


def _log(values: _Floats) -> _Floats:
    return np.log(np.maximum(values, MIN_PROBABILITY))


ACTIVATIONS: Mapping[str, Callable[[_Floats], _Floats]] = {
    "linear": lambda values: values,
    "relu": lambda values: np.maximum(values, 0),
    "elu": _elu,
    "selu": _selu,
    "gelu": _gelu,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "softmax": _softmax,
    "log": _log,
}
"""Activations of dense layers by their names in Keras, and the logarithm of probabilities."""


# Products of a call up to which they are computed at once: a few rows would take longer than their operations.
_FEW_PRODUCTS = 4096


class Dense(NamedTuple):
    """Dense layer.

    Attributes:
        kernel: Matrix, float64 (inputs, units).
        bias: Constants, float64 (units,).
        activation: Name of the activation, see `ACTIVATIONS`.
    """

    kernel: _Floats
    bias: _Floats
    activation: str = "linear"

    def __call__(self, values: _Floats) -> _Floats:
        """Return the outputs, float64 (rows, units), of inputs (rows, inputs)."""
        if len(values) * self.kernel.size <= _FEW_PRODUCTS:
            # The same sums in two operations. They are sequential, as those below.
            products = values[:, :, None] * self.kernel
            return ACTIVATIONS[self.activation](np.add.accumulate(products, axis=1)[:, -1] + self.bias)
        total = np.zeros((len(values), len(self.bias)))
        for number, weights in enumerate(self.kernel):
            total += values[:, number : number + 1] * weights
        return ACTIVATIONS[self.activation](total + self.bias)


def two_classes(readouts: _Floats) -> _Floats:
    """Return the probabilities of two classes, float64 (rows, 2), of readouts (rows, 1)."""
    return np.concatenate([(1 - readouts) / 2, (1 + readouts) / 2], axis=1)


def joint_kernel(strings: int, outcomes: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the matrix, (strings, outcomes), and the constants, (outcomes,), of `joint_probabilities`.

    The probability of outcome i is the mean over all subsets m of (-1)^|i & m| times the product of Z of m.
    """
    subsets, numbers = np.arange(1, strings + 1), np.arange(outcomes)
    odd = np.bitwise_count(subsets[:, None] & numbers) & 1
    return (1.0 - 2 * odd) / (strings + 1), np.full(outcomes, 1.0 / (strings + 1))


def probability_layers(strings: int, classes: int, temperature: float) -> list[Dense]:
    """Return the layers of head probabilities.

    Args:
        strings: Number of inputs: products of Z of all subsets of the readouts.
        classes: Number of outputs: probabilities of the first bit strings.
        temperature: Temperature T. The probabilities p of all bit strings become p^(1/T), divided by their sum.
    """
    if temperature == 1:
        return [Dense(*joint_kernel(strings, classes))]
    outcomes = strings + 1
    return [
        Dense(*joint_kernel(strings, outcomes), "log"),
        *softmax_layers(outcomes, temperature),
        Dense(np.eye(outcomes, classes), np.zeros(classes)),
    ]


def softmax_layers(classes: int, temperature: float) -> list[Dense]:
    """Return the layer of head softmax, whose inputs are one readout per class."""
    return [Dense(np.eye(classes) / temperature, np.zeros(classes), "softmax")]
