"""Hyperparameter tuning job of Vertex AI, whose tuner selects the trials of a search."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import cast

from qcnn.errors import service_message
from qcnn.jobs.job import LABEL_LENGTH, digest
from qcnn.jobs.vertex.attempts import Attempt
from qcnn.jobs.vertex.client import JobClient, aiplatform
from qcnn.jobs.vertex.custom_job import SPEC_LABEL
from qcnn.jobs.vertex.machines import DECAY_CURVE, MEDIAN
from qcnn.monitoring.validation_metrics import SELECTION_METRICS


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Candidate values of a parameter.

    The tuner treats them as ordered if all are numbers.
    """

    name: str
    values: Sequence[float | int | str]


@dataclasses.dataclass(frozen=True)
class NumericRange:
    """Range of a numeric parameter from `low` to `high`.

    With `whole`, values are integers. With `by_logarithm`, the scale is logarithmic.
    """

    name: str
    low: float
    high: float
    whole: bool
    by_logarithm: bool


@dataclasses.dataclass(frozen=True)
class StudySpec:
    """Search for the parameter values with the best metric, see `qcnn.monitoring.validation_metrics.SELECTION_METRICS`.

    The result of a trial is its last report of the metric, or with `best_report` its best one. `trials` is the number
    of trials, `parallel` the maximum number that run at the same time. `stopping` is one of RULES.
    """

    parameters: Sequence[Candidates | NumericRange]
    metric: str
    trials: int
    parallel: int
    stopping: str
    best_report: bool


def study_spec(study: StudySpec) -> aiplatform.StudySpec:
    """Convert a search to a StudySpec message without an algorithm, so that Vertex AI uses its default."""
    selection, goals = aiplatform.StudySpec.MeasurementSelectionType, aiplatform.StudySpec.MetricSpec.GoalType
    goal = goals.MAXIMIZE if SELECTION_METRICS[study.metric].is_maximized else goals.MINIMIZE
    spec = aiplatform.StudySpec(
        metrics=[{"metric_id": study.metric, "goal": goal}],
        parameters=[_parameter(each) for each in study.parameters],
        measurement_selection_type=selection.BEST_MEASUREMENT if study.best_report else selection.LAST_MEASUREMENT,
    )
    # Both rules use the epochs of a trial, not its time, because machines differ in speed.
    if study.stopping == MEDIAN:
        spec.median_automated_stopping_spec = aiplatform.StudySpec.MedianAutomatedStoppingSpec()
    elif study.stopping == DECAY_CURVE:
        spec.decay_curve_stopping_spec = aiplatform.StudySpec.DecayCurveAutomatedStoppingSpec()
    return spec


def _parameter(parameter: Candidates | NumericRange) -> aiplatform.StudySpec.ParameterSpec:
    spec = aiplatform.StudySpec.ParameterSpec
    if isinstance(parameter, Candidates):
        if any(isinstance(value, str) for value in parameter.values):
            categories = {"values": list(dict.fromkeys(map(str, parameter.values)))}
            return spec(parameter_id=parameter.name, categorical_value_spec=categories)
        numbers = {"values": sorted({float(value) for value in parameter.values})}
        return spec(parameter_id=parameter.name, discrete_value_spec=numbers)
    scale = spec.ScaleType.UNIT_LOG_SCALE if parameter.by_logarithm else spec.ScaleType.UNIT_LINEAR_SCALE
    if parameter.whole:
        whole = {"min_value": int(parameter.low), "max_value": int(parameter.high)}
        return spec(parameter_id=parameter.name, scale_type=scale, integer_value_spec=whole)
    bounds = {"min_value": parameter.low, "max_value": parameter.high}
    return spec(parameter_id=parameter.name, scale_type=scale, double_value_spec=bounds)


def tuning_job(trial: aiplatform.CustomJob, study: StudySpec) -> aiplatform.HyperparameterTuningJob:
    """Return the tuning job whose trials run a custom job with the parameter values as flags.

    It has the labels of the custom job, which select it. Each trial writes to a folder with the trial ID below the
    output folder. Failed trials do not end the search.
    """
    job = aiplatform.HyperparameterTuningJob(
        display_name=trial.display_name,
        labels=dict(trial.labels),
        study_spec=study_spec(study),
        max_trial_count=study.trials,
        parallel_trial_count=min(study.parallel, study.trials),
        max_failed_trial_count=study.trials,
        trial_job_spec=trial.job_spec,
        encryption_spec=trial.encryption_spec if "encryption_spec" in trial else None,
    )
    job.labels[SPEC_LABEL] = digest([trial.labels[SPEC_LABEL], dataclasses.asdict(study)])[:LABEL_LENGTH]
    return job


logger = logging.getLogger("qcnn")

_STATE = aiplatform.Trial.State
_STATE_MESSAGES = {
    _STATE.ACTIVE: "is running",
    _STATE.STOPPING: "is stopped early",
    _STATE.SUCCEEDED: "has ended",
    _STATE.INFEASIBLE: "has failed",
}


@dataclasses.dataclass(frozen=True)
class FinishedTrial:
    """Trial that has ended.

    `values` has the values of its parameters as text. `failure` is the reason of a failed trial, empty for others.
    """

    id: str
    values: dict[str, str]
    failure: str


def finished_trials(job: aiplatform.HyperparameterTuningJob) -> list[FinishedTrial]:
    """Return the trials of a job that have ended, in the order of their IDs."""
    return [
        FinishedTrial(
            each.id,
            parameter_values(each),
            (service_message(each.infeasible_reason) or "no reason given") if failed else "",
        )
        for each in sorted(job.trials, key=lambda trial: int(trial.id))
        for failed in [each.state == _STATE.INFEASIBLE]
        if each.state in (_STATE.SUCCEEDED, _STATE.INFEASIBLE)
    ]


def parameter_values(trial: aiplatform.Trial) -> dict[str, str]:
    """Return the parameter values of a trial, as in its flags."""
    return {each.parameter_id: str(each.value) for each in trial.parameters}


class TrialReporter:
    """Reporter that logs the start, end, parameters and metrics of the trials of a tuning job."""

    def __init__(self, api: JobClient, job: Attempt) -> None:
        self._api = api
        self._name = job.name
        self._states: dict[str, aiplatform.Trial.State] = {}

    def close(self) -> None:
        """Do nothing, because the launcher owns the connection."""

    def last_lines(self, process: str) -> list[str]:
        """Return an empty list, because the custom jobs of the trials have the log lines."""
        return []

    def print_new(self) -> bool:
        """Log the trials whose state has changed, and return whether there were none."""
        job = self._api.get(self._name)
        if job is None:
            return True
        changed = self._changed(cast(aiplatform.HyperparameterTuningJob, job).trials)
        for trial in changed:
            logger.info("%s", describe_trial(trial))
        return not changed

    def _changed(self, trials: Sequence[aiplatform.Trial]) -> list[aiplatform.Trial]:
        changed = [each for each in trials if each.state in _STATE_MESSAGES and self._states.get(each.id) != each.state]
        self._states |= {each.id: each.state for each in changed}
        return sorted(changed, key=lambda trial: int(trial.id))


def describe_trial(trial: aiplatform.Trial) -> str:
    """Return the log line for the state of a trial."""
    parameters = ", ".join(f"{name} {value}" for name, value in parameter_values(trial).items())
    metrics = ", ".join(f"{metric.metric_id} {metric.value:.4f}" for metric in trial.final_measurement.metrics)
    reason = service_message(trial.infeasible_reason) if trial.state == _STATE.INFEASIBLE else ""
    end = f": {metrics or reason}" if metrics or reason else ""
    return f"trial {trial.id} ({parameters}) {_STATE_MESSAGES[trial.state]}{end}"
