"""Pipeline parameters from the experiment's own description, so that each fact has one home."""

from collections.abc import Callable
from typing import Any

from qcnn.trainer.config import EXPERIMENT_FIELDS, OPTION_FIELDS, ExperimentConfig, describe

# What rules choose is left open: other words of a run may differ.
DEFAULTS = ExperimentConfig.model_construct()
# Trials of a study that are trained at the same time.
PARALLELISM = 2


def described(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a pipeline function the docstring from which Kubeflow takes its parameters' descriptions."""
    options = " ".join(f"`{name}`: {describe(field)}" for name, field in OPTION_FIELDS.items())
    lines = [f"    {name}: {describe(field)}" for name, field in EXPERIMENT_FIELDS.items()]
    lines.append(f"    options: {ExperimentConfig.model_fields['options'].description} {options}")
    function.__doc__ = f"{function.__doc__}\n\nArgs:\n" + "\n".join(lines)
    return function
