"""Follows a custom job of Vertex AI to its end, and shows what its workers print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qcnn.errors import one_line
from qcnn.jobs.vertex.states import ENDED, state_of
from qcnn.startup import terminated_as_interrupt
from qcnn.targets.errors import StepError
from qcnn.targets.vertex.client import Vertex, id_of
from qcnn.targets.vertex.jobs import Jobs, Reader, get_job, lines, lines_of

if TYPE_CHECKING:
    pass


def follow(vertex: Vertex, identity: str, hint: str) -> None:
    """Show what the workers of a job print until it has ended; Ctrl-C stops only the showing.

    Raises:
        StepError: it did not succeed.
        BackendError: Vertex AI refuses, or does not answer.
    """

    def look() -> tuple[Jobs, bool]:
        job = get_job(vertex, identity)
        return lines_of(job), state_of(job) in ENDED

    try:
        with terminated_as_interrupt():
            for line in lines(Reader(vertex), look, follow=True):
                click.echo(line)
    except KeyboardInterrupt:
        click.echo(f"\nnot followed any more; the training goes on. {hint}", err=True)
        raise
    ended = get_job(vertex, identity)
    if state_of(ended) != "SUCCEEDED":
        reason = f" ({one_line(ended.error.message)})" if ended.error.message else ""
        raise StepError(f"custom job: it ended {state_of(ended).lower()}{reason}. Given: {id_of(ended)}")
