"""qcnn terminate --target vertex: end a run, and its trainings."""

import click

from qcnn.cli.options.form import shown_only_option
from qcnn.cli.options.settings import place_options
from qcnn.jobs.vertex.location import Place
from qcnn.targets.errors import StepError
from qcnn.targets.vertex import jobs as trainings
from qcnn.targets.vertex.client import Vertex, id_of
from qcnn.targets.vertex.runs import PATIENCE, end_run, find_run, state_of


@click.command()
@click.argument("run")
@click.option(
    "--seconds", type=click.FloatRange(0), default=PATIENCE, show_default=True, help="How long to wait for its end."
)
@shown_only_option
@place_options
def terminate(run: str, seconds: float, dry_run: bool, place: Place) -> None:
    """Terminate RUN, its id or name, and the custom jobs of its trainings, and wait for its end."""
    vertex = Vertex(place)
    found = find_run(vertex, run)
    if dry_run:
        jobs = "".join(f", and {job.display_name}" for job in trainings.with_searches(vertex, id_of(found)))
        click.echo(f"run {id_of(found)}, {state_of(found).lower()}{jobs} would be ended")
    elif reason := end_run(vertex, found, click.echo, seconds):
        raise StepError(reason)
