"""Heads: how readouts become predictions. This module imports no TensorFlow.

With loss mse, a prediction is one number (samples, 1). With loss cross_entropy, it is the probability of each class,
(samples, classes).
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from qcnn.circuits.formats.embedded import model_display_name
from qcnn.circuits.observables import Readout, bound
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig

ResolvedHead: TypeAlias = Literal["expectation", "probabilities", "softmax", "dense"]
# Coefficients such as 0.1 are rounded.
_ROUNDING = 1e-9


def head_of(config: ExperimentConfig, readouts: Sequence[Readout]) -> ResolvedHead:
    """Return the head of an experiment, where auto is expectation if it is possible, else dense.

    The expectation value of a sum of Pauli strings is the difference of two probabilities only if it is never beyond -1
    and 1.

    Args:
        config: Experiment, whose number of classes is known.
        readouts: Readouts of its circuit.

    Raises:
        ConfigError: If the head cannot be used with this circuit.
    """
    head, count = config.options.head, len(readouts)
    is_possible = count == 1 and config.options.classes <= 2
    if is_possible and config.is_classification and bound(readouts[0]) > 1 + _ROUNDING:
        if head == "expectation":
            raise ConfigError(
                "head: must be auto or dense unless the absolute coefficients of the readout of model "
                f"{model_display_name(config.model)} sum to at most 1, as probabilities need. Given: {head}"
            )
        is_possible = False
    if head == "auto":
        return "expectation" if is_possible else "dense"
    if head == "expectation" and not is_possible:
        raise ConfigError(
            f"head: must be auto or dense with the {count} readouts of model {model_display_name(config.model)}. "
            f"Given: {head}"
        )
    if head == "probabilities" and config.options.classes > 2**count:
        raise ConfigError(
            f"head: must be auto or dense with {config.options.classes} classes and {count} readouts of model "
            f"{model_display_name(config.model)}, which have {2**count} bit strings. Given: {head}"
        )
    if head == "softmax" and config.options.classes not in (0, count):
        raise ConfigError(
            f"head: must be auto, probabilities or dense unless model {model_display_name(config.model)} has one "
            f"readout per class. Given: {head} with {config.options.classes} classes and {count} readouts"
        )
    return head


def outputs_of(config: ExperimentConfig) -> int:
    """Return the number of outputs of the network: 1, or the number of classes."""
    return config.options.classes if config.is_classification else 1
