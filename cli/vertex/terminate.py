"""qcnn terminate --target vertex: end a run, and its trainings."""

import click

from cli.errors import StepError
from cli.vertex.end_run import PATIENCE, end_run
from cli.vertex.service.connection import Vertex, place_options
from cli.vertex.service.runs import find_run
from launchers.vertex.place import Place


@click.command()
@click.argument("run")
@click.option(
    "--seconds", type=click.FloatRange(0), default=PATIENCE, show_default=True, help="How long to wait for its end."
)
@place_options
def terminate(run: str, seconds: float, place: Place) -> None:
    """Terminate RUN, its id or name, and the custom jobs of its trainings, and wait for its end."""
    vertex = Vertex(place)
    if reason := end_run(vertex, find_run(vertex, run), click.echo, seconds):
        raise StepError(reason)
