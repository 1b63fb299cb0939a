"""qcnn status --target vertex-job: the custom jobs of a place, or one of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from tabulate import tabulate

from qcnn.cli.options.form import form_option
from qcnn.cli.options.settings import place_options
from qcnn.cli.output import in_two_units
from qcnn.errors import one_line
from qcnn.jobs.vertex.location import Place, job_page
from qcnn.jobs.vertex.states import state_of
from qcnn.targets.vertex.client import Vertex, age_of, id_of, seconds_of
from qcnn.targets.vertex.jobs import find_job, list_jobs, run_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob

_HEADERS = ("id", "job", "run", "state", "workers", "age", "duration")


@click.command()
@click.argument("name", required=False, metavar="[JOB]")
@form_option
@place_options
def status(name: str | None, form: str, place: Place) -> None:
    """Print a table of all custom jobs that qcnn made in a project and location, or one, by its id or name."""
    vertex = Vertex(place)
    described = [_described(job) for job in ([find_job(vertex, name)] if name else list_jobs(vertex))]
    if form == "json":
        click.echo(json.dumps(described[0] if name else described))
    elif not described:
        click.echo(f"no custom job of qcnn in {place.project} in {place.location}", err=True)
    else:
        click.echo(tabulate([_row(job) for job in described], headers=_HEADERS, disable_numparse=True))
        if name:
            (only,) = described
            click.echo("\n".join(filter(None, ("", only["error"], only["output"], job_page(place, only["id"])))))


def _described(job: CustomJob) -> dict[str, Any]:
    return {
        "id": id_of(job),
        "job": job.display_name,
        "run": run_of(job),
        "state": state_of(job).lower(),
        "workers": sum(pool.replica_count for pool in job.job_spec.worker_pool_specs),
        "age": age_of(job),
        "duration": seconds_of(job),
        "error": one_line(job.error.message),
        "output": job.job_spec.base_output_directory.output_uri_prefix,
    }


def _row(job: dict[str, Any]) -> list[Any]:
    return [in_two_units(job[name]) if name in ("age", "duration") else job[name] for name in _HEADERS]
