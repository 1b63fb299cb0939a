"""A search whose trials Vertex AI chooses: a hyperparameter tuning job."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import cast

from qcnn.errors import single_line
from qcnn.jobs.job import LABEL_LENGTH, digest
from qcnn.jobs.vertex.attempts import Attempt
from qcnn.jobs.vertex.client import JobClient, aiplatform
from qcnn.jobs.vertex.custom_job import SPEC_LABEL
from qcnn.jobs.vertex.machines import DECAY_CURVE, MEDIAN


@dataclasses.dataclass(frozen=True)
class Candidates:
    """What a parameter may be: one of these, which the tuner takes for ordered if all are numbers."""

    name: str
    values: Sequence[float | int | str]


@dataclasses.dataclass(frozen=True)
class NumericRange:
    """What a parameter may be: a number from `low` to `high`, a `whole` one if so, searched by its logarithm if so."""

    name: str
    low: float
    high: float
    whole: bool
    by_logarithm: bool


@dataclasses.dataclass(frozen=True)
class StudySpec:
    """What is searched, and for what: the lowest value of a metric that trials report.

    What counts is a trial's last report, or with `best_report` its best. `stopping` is one of RULES.
    """

    parameters: Sequence[Candidates | NumericRange]
    metric: str
    trials: int
    parallel: int
    stopping: str
    best_report: bool


def study_spec(study: StudySpec) -> aiplatform.StudySpec:
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


def _parameter(given: Candidates | NumericRange) -> aiplatform.StudySpec.ParameterSpec:
    made = aiplatform.StudySpec.ParameterSpec
    if isinstance(given, Candidates):
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


def tuning_job(trial: aiplatform.CustomJob, study: StudySpec) -> aiplatform.HyperparameterTuningJob:
    """Return the tuning job whose trials run what a custom job does, which is given each trial's values as flags.

    It has that job's labels, by which it is found again. A trial writes below the job's folder of outputs, in one that
    is called as the trial is. Trials that fail do not end the search.
    """
    made = aiplatform.HyperparameterTuningJob(
        display_name=trial.display_name,
        labels=dict(trial.labels),
        study_spec=study_spec(study),
        max_trial_count=study.trials,
        parallel_trial_count=min(study.parallel, study.trials),
        max_failed_trial_count=study.trials,
        trial_job_spec=trial.job_spec,
        encryption_spec=trial.encryption_spec if "encryption_spec" in trial else None,
    )
    del made.labels[SPEC_LABEL]
    made.labels[SPEC_LABEL] = digest(aiplatform.HyperparameterTuningJob.to_dict(made))[:LABEL_LENGTH]
    return made


logger = logging.getLogger("qcnn")

_STATE = aiplatform.Trial.State
_MEANINGS = {
    _STATE.ACTIVE: "is running",
    _STATE.STOPPING: "is stopped early",
    _STATE.SUCCEEDED: "has ended",
    _STATE.INFEASIBLE: "has failed",
}


@dataclasses.dataclass(frozen=True)
class FinishedTrial:
    """A trial that has ended: its id, the words that it was given, as text, and why it failed, empty if it has not."""

    id: str
    words: dict[str, str]
    failure: str


def tried(job: aiplatform.HyperparameterTuningJob) -> list[FinishedTrial]:
    """Return the trials of a job that have ended, in their order."""
    return [
        FinishedTrial(
            each.id, words(each), (single_line(each.infeasible_reason) or "no reason is said") if failed else ""
        )
        for each in sorted(job.trials, key=lambda trial: int(trial.id))
        for failed in [each.state == _STATE.INFEASIBLE]
        if each.state in (_STATE.SUCCEEDED, _STATE.INFEASIBLE)
    ]


def words(trial: aiplatform.Trial) -> dict[str, str]:
    """Return what a trial was given, as it stood in its flags."""
    return {each.parameter_id: str(each.value) for each in trial.parameters}


class TrialReporter:
    """Says of one tuning job which trials have begun and ended, with which words and values."""

    def __init__(self, api: JobClient, job: Attempt) -> None:
        self._api = api
        self._name = job.name
        self._states: dict[str, aiplatform.Trial.State] = {}

    def close(self) -> None:
        """Do nothing: the connection is the launcher's."""

    def last_lines(self, process: str) -> list[str]:
        """Return nothing: lines are kept with the trials' own jobs."""
        return []

    def pass_on(self) -> bool:
        """Say what is new; return whether there was nothing."""
        found = self._api.get(self._name)
        if found is None:
            return True
        fresh = self._changed(cast(aiplatform.HyperparameterTuningJob, found).trials)
        for trial in fresh:
            logger.info("%s", line(trial))
        return not fresh

    def _changed(self, trials: Sequence[aiplatform.Trial]) -> list[aiplatform.Trial]:
        fresh = [each for each in trials if each.state in _MEANINGS and self._states.get(each.id) != each.state]
        self._states |= {each.id: each.state for each in fresh}
        return sorted(fresh, key=lambda trial: int(trial.id))


def line(trial: aiplatform.Trial) -> str:
    """Return what is said of a trial when its state has changed."""
    given = ", ".join(f"{name} {value}" for name, value in words(trial).items())
    values = ", ".join(f"{metric.metric_id} {metric.value:.4f}" for metric in trial.final_measurement.metrics)
    reason = single_line(trial.infeasible_reason) if trial.state == _STATE.INFEASIBLE else ""
    end = f": {values or reason}" if values or reason else ""
    return f"trial {trial.id} ({given}) {_MEANINGS[trial.state]}{end}"
