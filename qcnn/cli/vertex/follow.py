"""Follows a run of Vertex AI to its end, and shows the states of its steps as they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qcnn.cli import following
from qcnn.cli.following import Seen
from qcnn.cli.target_errors import StepError
from qcnn.cli.vertex.service.connection import Vertex
from qcnn.cli.vertex.service.messages import id_of
from qcnn.cli.vertex.service.runs import ENDED, get_run, state_of, steps_in, tasks_of
from qcnn.errors import one_line

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob


def follow(vertex: Vertex, identity: str, say: Callable[[str], None], seconds: float = float("inf")) -> PipelineJob:
    """Wait until a run has ended, at most `seconds`, and return it as it is then.

    Each change of its state, and of its steps, is reported through `say`.

    Raises:
        BackendError: Vertex AI refuses, or has not answered for ten minutes.
    """

    def look() -> Seen[PipelineJob]:
        run = get_run(vertex, identity)
        states = {name: str(task.state.name) for name, task in tasks_of(run, steps_in(run)).items()}
        return Seen(run, state_of(run), state_of(run) in ENDED, states)

    return following.follow(look, say, seconds).run


def check_succeeded(run: PipelineJob) -> None:
    """Refuse a run that has ended in any other way.

    Raises:
        StepError: it has; one line with the steps that failed, and the first one's reason.
    """
    if state_of(run) == "SUCCEEDED":
        return
    failed = {name: task for name, task in tasks_of(run, steps_in(run)).items() if task.state.name == "FAILED"}
    reason = next((task.error.message for task in failed.values() if task.error.message), run.error.message)
    what = f"step {', '.join(failed)} failed" if failed else f"it ended {state_of(run).lower()}"
    raise StepError(f"run: {what}{f' ({one_line(reason)})' if reason else ''}. Given: {id_of(run)}")
