"""qcnn logs --target vertex: what the steps of a run, and the workers of its trainings, print."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from qcnn.cli.options.settings import place_options
from qcnn.jobs.vertex.location import Place
from qcnn.jobs.vertex.states import creation_time
from qcnn.targets.vertex import jobs
from qcnn.targets.vertex.client import Vertex, id_of
from qcnn.targets.vertex.jobs import Jobs, Reader, show
from qcnn.targets.vertex.runs import ENDED, check_succeeded, find_run, get_run, state_of, steps_in, tasks_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob


@click.command()
@click.argument("name", metavar="RUN")
@click.option("--follow", "-f", "is_followed", is_flag=True, help="Go on until the run has ended; fail if it failed.")
@place_options
def logs(name: str, is_followed: bool, place: Place) -> None:
    """Print what the steps of RUN, by its id or name, and the workers of its trainings have printed, by time.

    Each line has the name of its step, or of its worker.
    """
    vertex = Vertex(place)
    identity = id_of(find_run(vertex, name))

    def look() -> tuple[Jobs, bool]:
        run = get_run(vertex, identity)
        return _jobs(vertex, run), state_of(run) in ENDED

    show(Reader(vertex), look, click.echo, follow=is_followed)
    if is_followed:
        check_succeeded(get_run(vertex, identity))


def _jobs(vertex: Vertex, run: PipelineJob) -> Jobs:
    """Return the jobs that the steps of a run are, every try of them, and those of its trainings."""
    from qcnn.jobs.vertex.attempts import process_name

    found: dict[str, tuple[datetime.datetime, Callable[[str], str]]] = {}
    for step, task in tasks_of(run, steps_in(run)).items():
        of_task = task.executor_detail.container_detail
        for job in (*of_task.failed_main_jobs, of_task.main_job):
            if job:
                found[job.rpartition("/")[2]] = (creation_time(task), functools.partial(_step_name, step))
    of_training = jobs.list_jobs(vertex, id_of(run))
    return found | {id_of(job): (creation_time(job), process_name) for job in of_training}


def _step_name(step: str, replica: str) -> str:
    """Return a step's name; of what Vertex AI itself says, that too."""
    from qcnn.jobs.vertex.job_watcher import SERVICE

    return f"{step} {replica}" if replica == SERVICE else step
