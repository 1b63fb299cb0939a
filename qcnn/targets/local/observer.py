"""Display of local runs, which the terminal, a notebook or nothing implements. It does not affect the runs."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

StepState = Literal["running", "succeeded", "failed"]


class Observer(Protocol):
    """Receiver of the steps, output lines and training events of a run, or of the runs of a study."""

    def warn(self, line: str) -> None:
        """Show a line about missing kernels, cores or memory, before the first step."""

    def trial(self, number: int, count: int, *, is_trained: bool) -> None:
        """Show the start of a trial of a study, or that it was trained before.

        Args:
            number: Index of the trial.
            count: Number of trials.
            is_trained: Whether an earlier call has trained it.
        """

    def step(self, name: str, state: StepState) -> None:
        """Show the state of a step."""

    def line(self, text: str) -> None:
        """Show a line of the output of a step."""

    def event(self, process: str, event: Mapping[str, Any]) -> None:
        """Show a training event of a process."""

    def close(self) -> None:
        """Finish with the last state displayed."""
