"""qcnn status --target vertex: the runs of a place, or one of them and its steps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from tabulate import tabulate

from qcnn.cli.options.form import form_option
from qcnn.cli.options.settings import place_options
from qcnn.cli.output import in_two_units
from qcnn.errors import one_line
from qcnn.jobs.vertex import states
from qcnn.jobs.vertex.location import Place, run_page
from qcnn.targets.vertex import jobs as trainings
from qcnn.targets.vertex.client import Vertex, age_of, id_of, seconds_of
from qcnn.targets.vertex.runs import EXPERIMENT_LABEL, find_run, list_runs, state_of, steps_in, tasks_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, PipelineJob, PipelineTaskDetail

_RUN, _STEP = ("run", "experiment", "state", "age", "duration"), ("step", "state", "duration", "error")
_JOB = ("custom job", "state", "duration", "error")


@click.command()
@click.argument("name", required=False, metavar="[RUN]")
@click.option("--experiment", metavar="NAME", help="Runs of this experiment alone.")
@form_option
@place_options
def status(name: str | None, experiment: str | None, form: str, place: Place) -> None:
    """Print a table of all runs that qcnn made in a project and location, or the steps of one, by its id or name."""
    vertex = Vertex(place)
    runs = [find_run(vertex, name)] if name else list_runs(vertex, experiment)
    described = [_described(run) for run in runs]
    steps = [_step(step, task) for step, task in tasks_of(runs[0], steps_in(runs[0])).items()] if name else []
    jobs = [_job(job) for job in trainings.list_jobs(vertex, id_of(runs[0]))] if name else []
    if form == "json":
        click.echo(json.dumps(described[0] | {"steps": steps, "jobs": jobs} if name else described))
    elif not runs:
        click.echo(f"no run of qcnn in {place.project} in {place.location}", err=True)
    else:
        click.echo(_table(_RUN, described))
        if name:
            click.echo("\n".join(("", _table(_STEP, steps), *(("", _table(_JOB, jobs)) if jobs else ()))))
            click.echo(f"\n{run_page(place, id_of(runs[0]))}")


def _table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    texts = [
        [in_two_units(row[name]) if name in ("age", "duration") else row[name] for name in columns] for row in rows
    ]
    return tabulate(texts, headers=columns, disable_numparse=True)


def _described(run: PipelineJob) -> dict[str, Any]:
    return {
        "run": id_of(run),
        "name": run.display_name,
        "experiment": run.labels.get(EXPERIMENT_LABEL, ""),
        "state": state_of(run).lower(),
        "age": age_of(run),
        "duration": seconds_of(run),
        "error": one_line(run.error.message),
    }


def _step(name: str, task: PipelineTaskDetail) -> dict[str, Any]:
    return {
        "step": name,
        "state": task.state.name.lower(),
        "duration": seconds_of(task),
        "error": one_line(task.error.message),
        "job": task.executor_detail.container_detail.main_job,
    }


def _job(job: CustomJob) -> dict[str, Any]:
    return {
        "custom job": job.display_name,
        "name": job.name,
        "state": states.state_of(job).lower(),
        "duration": seconds_of(job),
        "error": one_line(job.error.message),
    }
