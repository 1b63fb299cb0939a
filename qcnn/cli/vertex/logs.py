"""qcnn logs --target vertex: what the steps of a run, and the workers of its trainings, print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qcnn.cli.options.settings import place_options
from qcnn.jobs.vertex.location import Place
from qcnn.targets.vertex.client import Vertex, id_of
from qcnn.targets.vertex.jobs import Jobs, Reader, lines
from qcnn.targets.vertex.runs import ENDED, check_succeeded, find_run, get_run, jobs_of, state_of

if TYPE_CHECKING:
    pass


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
        return jobs_of(vertex, run), state_of(run) in ENDED

    for line in lines(Reader(vertex), look, follow=is_followed):
        click.echo(line)
    if is_followed:
        check_succeeded(get_run(vertex, identity))
