"""Deterministic parameter values of a tuning job's trials, evenly distributed over the search space."""

import math
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service.errors import StatusError, require

_SCALES = v1.StudySpec.ParameterSpec.ScaleType
# Inverse of the plastic number. Fractional parts of multiples of its powers fill a cube evenly.
_STEP = 0.7548776662466927


def check_study(spec: v1.StudySpec) -> None:
    """Validate the metrics and parameters of a study.

    Raises:
        StatusError: If a metric or parameter is missing or invalid.
    """
    require("study_spec.metrics", spec.metrics)
    require("study_spec.parameters", spec.parameters)
    names = [each.parameter_id for each in spec.parameters]
    if len(set(names)) != len(names) or not all(names):
        raise StatusError(400, f"`parameter_id` must be set and unique. Given: {names}")
    for metric in spec.metrics:
        require("study_spec.metrics.metric_id", metric.metric_id)
    for each in spec.parameters:
        kind = v1.StudySpec.ParameterSpec.pb(each).WhichOneof("parameter_value_spec")
        require(f"study_spec.parameters.{each.parameter_id}.parameter_value_spec", kind)
        low, high = _bounds(each)
        if low > high:
            raise StatusError(
                400, f"Parameter {each.parameter_id!r}: min_value is above max_value. Given: {low}, {high}"
            )
        if each.scale_type == _SCALES.UNIT_LOG_SCALE and low <= 0:
            raise StatusError(400, f"Parameter {each.parameter_id!r}: a log scale needs positive values. Given: {low}")


def draw(spec: v1.StudySpec, trial: int) -> dict[str, Any]:
    """Return the value of every parameter for a trial, counted from 1."""
    return {
        each.parameter_id: _value(each, math.modf(trial * _STEP ** (index + 1))[0])
        for index, each in enumerate(spec.parameters)
    }


def _bounds(spec: v1.StudySpec.ParameterSpec) -> tuple[float, float]:
    match v1.StudySpec.ParameterSpec.pb(spec).WhichOneof("parameter_value_spec"):
        case "double_value_spec":
            return spec.double_value_spec.min_value, spec.double_value_spec.max_value
        case "integer_value_spec":
            return spec.integer_value_spec.min_value, spec.integer_value_spec.max_value
        case "discrete_value_spec":
            require(f"study_spec.parameters.{spec.parameter_id}.discrete_value_spec", spec.discrete_value_spec.values)
            return min(spec.discrete_value_spec.values), max(spec.discrete_value_spec.values)
    require(f"study_spec.parameters.{spec.parameter_id}.categorical_value_spec", spec.categorical_value_spec.values)
    return 1, 1


def _value(spec: v1.StudySpec.ParameterSpec, fraction: float) -> Any:
    """Return the value of a parameter at a fraction, from 0 to 1, of its range."""
    for choices in (spec.categorical_value_spec.values, spec.discrete_value_spec.values):
        if choices:
            return choices[int(fraction * len(choices))]
    low, high = _bounds(spec)
    is_log = spec.scale_type == _SCALES.UNIT_LOG_SCALE
    found = low * (high / low) ** fraction if is_log else low + (high - low) * fraction
    return round(found) if "integer_value_spec" in spec else found
