"""qcnn logs --target vertex-job: what the workers of a custom job print."""

import click

from qcnn.cli.options.settings import place_options
from qcnn.cli.vertex_job.follow import follow
from qcnn.jobs.vertex.location import Place
from qcnn.targets.vertex.client import Vertex, flags_of, id_of
from qcnn.targets.vertex.jobs import Reader, find_job, lines, lines_of


@click.command()
@click.argument("name", metavar="JOB")
@click.option(
    "--follow", "-f", "is_followed", is_flag=True, help="Go on until the job has ended; fail if the job failed."
)
@place_options
def logs(name: str, is_followed: bool, place: Place) -> None:
    """Print what the workers of JOB, by its id or name, have printed, by time, each line with its worker's name."""
    vertex = Vertex(place)
    job = find_job(vertex, name)
    if is_followed:
        follow(vertex, id_of(job), f"Again: qcnn logs -f {name} --target vertex-job {flags_of(place)}")
    else:
        for line in lines(Reader(vertex), lambda: (lines_of(job), False), follow=False):
            click.echo(line)
