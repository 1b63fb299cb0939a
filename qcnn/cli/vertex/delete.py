"""qcnn delete --target vertex: runs that have ended, with the jobs of their trainings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from qcnn.cli.options.form import form_option, show_table, shown_only_option
from qcnn.cli.options.settings import place_options
from qcnn.cli.output import check_one_given, confirm
from qcnn.errors import ConfigError
from qcnn.jobs.vertex import states
from qcnn.jobs.vertex.location import Place
from qcnn.targets.vertex import jobs as trainings
from qcnn.targets.vertex.client import Vertex, id_of
from qcnn.targets.vertex.runs import ENDED, find_run, list_runs, state_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob

    from qcnn.targets.vertex.jobs import TrainingJob

_HEADER = ("kind", "id", "name", "state")


@click.command()
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option("--experiment", metavar="NAME", help="All runs of this experiment.")
@click.option("--all", "of_all", is_flag=True, help="All runs that qcnn made in the project and location.")
@place_options
@form_option
@shown_only_option
@click.option("--yes", is_flag=True, help="Delete without asking.")
def delete(
    names: tuple[str, ...],
    experiment: str | None,
    of_all: bool,
    place: Place,
    form: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show runs, by their ids or names, with the jobs of their trainings, and delete them.

    What they have written stays. A run that has not ended is refused: `qcnn terminate` ends it.
    """
    check_one_given({"RUN": bool(names), "--experiment": experiment is not None, "--all": of_all})
    vertex = Vertex(place)
    runs = [find_run(vertex, name) for name in names] if names else list_runs(vertex, experiment)
    if alive := [id_of(run) for run in runs if state_of(run) not in ENDED]:
        raise ConfigError(f"delete: the run has not ended; qcnn terminate ends it. Given: {', '.join(alive)}")
    jobs = [job for run in runs for job in trainings.with_searches(vertex, id_of(run))]
    show_table(form, _HEADER, _rows(runs, jobs), f"nothing to delete in {place.project} in {place.location}")
    if dry_run or not runs:
        return
    confirm(len(runs) + len(jobs), yes)
    trainings.delete(vertex, jobs)
    for run in runs:
        vertex.delete("PipelineService.delete_pipeline_job", run.name)
    click.echo("deleted", err=form == "json")


def _rows(runs: Sequence[PipelineJob], jobs: Sequence[TrainingJob]) -> list[tuple[str, str, str, str]]:
    rows = [("run", id_of(run), run.display_name, state_of(run).lower()) for run in runs]
    rows += [(trainings.word_of(job), id_of(job), job.display_name, states.state_of(job).lower()) for job in jobs]
    return rows
