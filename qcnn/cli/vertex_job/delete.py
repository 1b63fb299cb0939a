"""qcnn delete --target vertex-job: custom jobs, those of runs that are gone among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from qcnn.cli.options.form import form_option, show_table, shown_only_option
from qcnn.cli.options.settings import place_options
from qcnn.cli.output import check_one_given, confirm
from qcnn.jobs.job import check_run
from qcnn.jobs.vertex.location import Place
from qcnn.jobs.vertex.states import state_of
from qcnn.targets.vertex import jobs, runs
from qcnn.targets.vertex.client import NotFoundError, Vertex, id_of

if TYPE_CHECKING:
    from qcnn.targets.vertex.jobs import TrainingJob

_HEADER = ("id", "job", "run", "state")


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB]...")
@click.option("--run", metavar="NAME", help="Every custom job of the run of exactly this name or id.")
@click.option("--orphans", is_flag=True, help="Custom jobs whose run is gone, or has ended before them.")
@click.option("--all", "of_all", is_flag=True, help="Every custom job that qcnn made in the project and location.")
@place_options
@form_option
@shown_only_option
@click.option("--yes", is_flag=True, help="Delete without asking.")
def delete(
    names: tuple[str, ...],
    run: str | None,
    orphans: bool,
    of_all: bool,
    place: Place,
    form: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show custom jobs, by their ids or names, and delete them; those that run are cancelled first.

    What the training has written stays.
    """
    check_one_given({"JOB": bool(names), "--run": run is not None, "--orphans": orphans, "--all": of_all})
    vertex = Vertex(place)
    chosen = _chosen(vertex, names, check_run(run) if run is not None else None, orphans=orphans)
    show_table(form, _HEADER, _rows(chosen), f"nothing to delete in {place.project} in {place.location}")
    if dry_run or not chosen:
        return
    confirm(len(chosen), yes)
    # A run may have begun meanwhile.
    still = {job.name for job in (_chosen(vertex, (), None, orphans=True) if orphans else chosen)}
    jobs.delete(vertex, [job for job in chosen if job.name in still])
    click.echo("deleted", err=form == "json")


def _chosen(vertex: Vertex, names: Sequence[str], run: str | None, *, orphans: bool) -> Sequence[TrainingJob]:
    """Return the jobs with these names, those of a run, the orphans, or all."""
    if names:
        return [jobs.find_job(vertex, name) for name in names]
    known = jobs.with_searches(vertex, run)
    if not orphans:
        return known
    # Whoever submitted them, so by their ids: only what qcnn has submitted has its label.
    states = {name: _state(vertex, name) for name in {jobs.run_of(job) for job in known}}
    return [job for job in known if jobs.is_orphan(job, states[jobs.run_of(job)])]


def _state(vertex: Vertex, run: str) -> str | None:
    """Return the state of a run, None where it is gone."""
    try:
        return runs.state_of(runs.get_run(vertex, run)) if runs.is_id(run) else None
    except NotFoundError:
        return None


def _rows(chosen: Sequence[TrainingJob]) -> list[tuple[str, str, str, str]]:
    return [(id_of(job), job.display_name, jobs.run_of(job), state_of(job).lower()) for job in chosen]
