"""The trials of a tuning job, as Vertex AI says of them."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import cast

from qcnn.jobs.vertex.attempts import Attempt
from qcnn.jobs.vertex.client.api import Api
from qcnn.jobs.vertex.client.library import aiplatform
from qcnn.trainer.errors import one_line

logger = logging.getLogger("qcnn")

_STATE = aiplatform.Trial.State
_MEANINGS = {
    _STATE.ACTIVE: "is running",
    _STATE.STOPPING: "is stopped early",
    _STATE.SUCCEEDED: "has ended",
    _STATE.INFEASIBLE: "has failed",
}


@dataclasses.dataclass(frozen=True)
class Tried:
    """A trial that has ended: its id, the words that it was given, as text, and why it failed, empty if it has not."""

    id: str
    words: dict[str, str]
    failure: str


def tried(job: aiplatform.HyperparameterTuningJob) -> list[Tried]:
    """Return the trials of a job that have ended, in their order."""
    return [
        Tried(each.id, words(each), (one_line(each.infeasible_reason) or "no reason is said") if failed else "")
        for each in sorted(job.trials, key=lambda trial: int(trial.id))
        for failed in [each.state == _STATE.INFEASIBLE]
        if each.state in (_STATE.SUCCEEDED, _STATE.INFEASIBLE)
    ]


def words(trial: aiplatform.Trial) -> dict[str, str]:
    """Return what a trial was given, as it stood in its flags."""
    return {each.parameter_id: str(each.value) for each in trial.parameters}


class TrialNews:
    """Says of one tuning job which trials have begun and ended, with which words and values."""

    def __init__(self, api: Api, job: Attempt) -> None:
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
    reason = one_line(trial.infeasible_reason) if trial.state == _STATE.INFEASIBLE else ""
    end = f": {values or reason}" if values or reason else ""
    return f"trial {trial.id} ({given}) {_MEANINGS[trial.state]}{end}"
