"""Display of local runs. It does not affect the runs."""

import logging
from collections.abc import Mapping
from typing import Any, Literal

logger = logging.getLogger("qcnn")

StepState = Literal["running", "succeeded", "failed"]


def trial_name(number: int) -> str:
    """Return what precedes the lines of a trial that is trained at the same time as others."""
    return f"trial {number}: "


class Observer:
    """Receiver of the steps, output lines and training events of a run, or of the runs of a study.

    Subclasses display them. This class only logs warnings.
    """

    def warn(self, line: str) -> None:
        """Show a line about missing kernels, cores or memory, before the first step."""
        logger.warning(line)

    def trial(self, number: int, count: int, *, is_trained: bool) -> None:
        """Show the start of a trial of a study, or that it was trained before.

        Args:
            number: Index of the trial.
            count: Number of trials.
            is_trained: Whether an earlier call has trained it.
        """

    def of_trial(self, number: int) -> "Observer":
        """Return the observer of a trial that is trained at the same time as others, each by a thread.

        Args:
            number: Index of the trial.
        """
        return self

    def step(self, name: str, state: StepState) -> None:
        """Show the state of a step."""

    def line(self, text: str) -> None:
        """Show a line of the output of a step."""

    def event(self, process: str, event: Mapping[str, Any]) -> None:
        """Show an event of a training process."""

    def close(self) -> None:
        """Finish with the last state displayed."""
