"""qcnn logs: what the workers of a TFJob print."""

import heapq
from collections.abc import Iterator

import click

from qcnn.cli.options.settings import namespace_option
from qcnn.cli.output import goes_on
from qcnn.jobs.kubernetes import pods
from qcnn.jobs.kubernetes.api import PODS, Api
from qcnn.jobs.kubernetes.manifest import CONTAINER
from qcnn.jobs.kubernetes.pods import Process
from qcnn.jobs.tfjob.manifest import JOB_NAME_LABEL, TFJOB
from qcnn.monitoring import logs as log_lines
from qcnn.targets.tfjob.client import cluster, find_job, flag_of, follow


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
        found = api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={job['metadata']['name']}")
        processes = [process for process in pods.of_job(found, job, TFJOB) if process.started]
        for _, line in heapq.merge(*(_lines(api, process) for process in processes)):
            click.echo(line)


def _lines(api: Api, process: Process) -> Iterator[tuple[str, str]]:
    """Yield time and text of every line."""
    for time, text in api.log(process.pod, CONTAINER, "", follow=False):
        for line in log_lines.passed_on(text, process.name):
            yield time, line
