"""qcnn logs: what the workers of a TFJob print."""

import click

from qcnn.cli.options.settings import namespace_option
from qcnn.cli.output import goes_on
from qcnn.targets.tfjob.client import cluster, find_job, flag_of, follow
from qcnn.targets.tfjob.target import new_lines


@click.command()
@click.argument("name", metavar="JOB")
@click.option(
    "--follow", "-f", "is_followed", is_flag=True, help="Go on until the job has ended; fail if the job failed."
)
@namespace_option
def logs(name: str, is_followed: bool, namespace: str | None) -> None:
    """Print what the workers of a TFJob have printed, in the order of time, each line with its worker's name."""
    with cluster(namespace) as api:
        job = find_job(api, name)
        if is_followed:
            follow(api, job, None, goes_on(f"Again: qcnn logs -f {name}{flag_of(namespace)}"))
            return
        for line in new_lines(api, job, {}):
            click.echo(line)
