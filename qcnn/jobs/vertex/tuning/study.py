"""A search as Vertex AI's tuner takes it: messages, by pure functions.

The contract is google.cloud.aiplatform_v1.types.StudySpec of google-cloud-aiplatform 1.165.1.
"""

import dataclasses
from collections.abc import Sequence

from qcnn.jobs.vertex.client.library import aiplatform
from qcnn.jobs.vertex.tuning.rules import DECAY_CURVE, MEDIAN


@dataclasses.dataclass(frozen=True)
class Values:
    """What a parameter may be: one of these, which the tuner takes for ordered if all are numbers."""

    name: str
    values: Sequence[float | int | str]


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What a parameter may be: a number from `low` to `high`, a `whole` one if so, searched by its logarithm if so."""

    name: str
    low: float
    high: float
    whole: bool
    by_logarithm: bool


@dataclasses.dataclass(frozen=True)
class Study:
    """What is searched, and for what: the lowest value of a metric that trials report.

    What counts is a trial's last report, or with `best_report` its best. `stopping` is one of RULES.
    """

    parameters: Sequence[Values | Bounds]
    metric: str
    trials: int
    parallel: int
    stopping: str
    best_report: bool


def study_spec(study: Study) -> aiplatform.StudySpec:
    """Return a search as the tuner takes it; how it searches is left to Vertex AI, which then uses its own tuner."""
    selection = aiplatform.StudySpec.MeasurementSelectionType
    spec = aiplatform.StudySpec(
        metrics=[{"metric_id": study.metric, "goal": aiplatform.StudySpec.MetricSpec.GoalType.MINIMIZE}],
        parameters=[_parameter(each) for each in study.parameters],
        measurement_selection_type=selection.BEST_MEASUREMENT if study.best_report else selection.LAST_MEASUREMENT,
    )
    # Both count a trial's epochs, not its time: machines are not equally fast.
    if study.stopping == MEDIAN:
        spec.median_automated_stopping_spec = aiplatform.StudySpec.MedianAutomatedStoppingSpec()
    elif study.stopping == DECAY_CURVE:
        spec.decay_curve_stopping_spec = aiplatform.StudySpec.DecayCurveAutomatedStoppingSpec()
    return spec


def _parameter(given: Values | Bounds) -> aiplatform.StudySpec.ParameterSpec:
    made = aiplatform.StudySpec.ParameterSpec
    if isinstance(given, Values):
        if any(isinstance(value, str) for value in given.values):
            categories = {"values": list(dict.fromkeys(map(str, given.values)))}
            return made(parameter_id=given.name, categorical_value_spec=categories)
        numbers = {"values": sorted({float(value) for value in given.values})}
        return made(parameter_id=given.name, discrete_value_spec=numbers)
    scale = made.ScaleType.UNIT_LOG_SCALE if given.by_logarithm else made.ScaleType.UNIT_LINEAR_SCALE
    if given.whole:
        whole = {"min_value": int(given.low), "max_value": int(given.high)}
        return made(parameter_id=given.name, scale_type=scale, integer_value_spec=whole)
    bounds = {"min_value": given.low, "max_value": given.high}
    return made(parameter_id=given.name, scale_type=scale, double_value_spec=bounds)
