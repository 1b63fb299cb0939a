"""Ends a run of Vertex AI, and the jobs of its trainings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cli.vertex.follow import follow
from cli.vertex.service import trainings
from cli.vertex.service.connection import Vertex
from cli.vertex.service.messages import id_of
from cli.vertex.service.runs import ENDED, state_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob

PATIENCE = 120.0


def end_run(vertex: Vertex, run: PipelineJob, say: Callable[[str], None], seconds: float = PATIENCE) -> str:
    """Cancel a run and the jobs that train for it, and wait for its end at most `seconds`; each is reported to `say`.

    Training costs most, so these jobs are cancelled before the wait. They are cancelled once more after it, because a
    step that was still running may have created one. Returns one line with the state if the run has not ended, else an
    empty text.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
    """
    identity = id_of(run)
    if state_of(run) in ENDED:
        say(f"run {identity} had ended before: {state_of(run).lower()}")
        _cancel_jobs(vertex, identity, say)
        return ""
    vertex.ask("PipelineService.cancel_pipeline_job", name=run.name)
    _cancel_jobs(vertex, identity, say)
    ended = follow(vertex, identity, say, seconds)
    _cancel_jobs(vertex, identity, say)
    if state_of(ended) in ENDED:
        say(f"run {identity} is terminated")
        return ""
    state = state_of(ended).lower()
    return f"run: it has not ended within {seconds:g} s; Vertex AI shows it as {state}. Given: {identity}"


def _cancel_jobs(vertex: Vertex, run: str, say: Callable[[str], None]) -> None:
    if names := trainings.cancel(vertex, trainings.with_searches(vertex, run)):
        say(f"{', '.join(names)} cancelled")
