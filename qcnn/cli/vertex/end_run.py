"""Ends a run of Vertex AI, and the jobs of its trainings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qcnn.cli.vertex.follow import follow
from qcnn.cli.vertex.service import trainings
from qcnn.cli.vertex.service.connection import Vertex
from qcnn.cli.vertex.service.messages import id_of
from qcnn.cli.vertex.service.runs import ENDED, state_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob

PATIENCE = 120.0


def end_run(vertex: Vertex, run: PipelineJob, say: Callable[[str], None], seconds: float = PATIENCE) -> str:
    """Cancel a run and the jobs that train for it, and wait for its end at most `seconds`; each is reported to `say`.

    Training costs most, so these jobs are cancelled before the wait. They are cancelled once more after it, because a
    step that was still running may have created one. Jobs that cannot be cancelled do not keep the rest from being
    ended. Returns one line with what has not ended and why, an empty text if all has.

    Raises:
        BackendError: Vertex AI refuses to cancel or show the run, or does not answer.
    """
    identity = id_of(run)
    if state_of(run) in ENDED:
        say(f"run {identity} had ended before: {state_of(run).lower()}")
        return _cancel_jobs(vertex, identity, say)
    vertex.ask("PipelineService.cancel_pipeline_job", name=run.name)
    say(f"run {identity}: cancellation requested")
    _cancel_jobs(vertex, identity, say)
    ended = follow(vertex, identity, say, seconds)
    left = _cancel_jobs(vertex, identity, say)
    if state_of(ended) in ENDED:
        say(f"run {identity} is terminated")
        return left
    state = state_of(ended).lower()
    return f"run: it has not ended within {seconds:g} s; Vertex AI shows it as {state}. Given: {identity}"


def _cancel_jobs(vertex: Vertex, run: str, say: Callable[[str], None]) -> str:
    """Cancel the jobs of a run; return one line with why that was refused for some, an empty text if it was not."""
    names, refusal = trainings.cancel_all(vertex, run)
    if names:
        say(f"{', '.join(names)} cancelled")
    if not refusal:
        return ""
    reason = str(refusal).partition(". Given: ")[0]
    return f"run: jobs of its trainings may go on, since cancelling them failed ({reason}). Given: {run}"
