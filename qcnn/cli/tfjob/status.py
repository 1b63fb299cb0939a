"""qcnn status: the TFJobs of a namespace, or one of them and its processes."""

import dataclasses
import json
from collections.abc import Sequence

import click
from tabulate import tabulate

from qcnn.cli.options.form import form_option
from qcnn.cli.options.settings import namespace_option
from qcnn.cli.output import in_two_units
from qcnn.jobs.tfjob.status import ProcessStatus, Status, read_all, read_one
from qcnn.targets.tfjob.client import cluster, find_job

_HEADERS = ("job", "state", "running", "restarts", "age", "duration")
_PROCESS_HEADERS = ("process", "pod", "state", "exit code", "reason")


@click.command()
@click.argument("name", required=False, metavar="[JOB]")
@namespace_option
@form_option
def status(name: str | None, namespace: str | None, form: str) -> None:
    """Print a table of all TFJobs that qcnn made in a namespace, or the processes of one of them.

    Restarts are counted as far back as the cluster keeps its events, an hour by default, or to a job's last suspension.
    """
    with cluster(namespace) as api:
        if name is None:
            found = read_all(api)
            processes: Sequence[ProcessStatus] = ()
        else:
            one, processes = read_one(api, find_job(api, name))
            found = [one]
    if form == "json":
        described = [dataclasses.asdict(job) for job in found]
        if name is not None:
            click.echo(json.dumps(described[0] | {"workers": [dataclasses.asdict(process) for process in processes]}))
        else:
            click.echo(json.dumps(described))
    elif not found:
        click.echo(f"no TFJob of qcnn in namespace {api.namespace}", err=True)
    else:
        click.echo(tabulate([_row(job) for job in found], headers=_HEADERS, disable_numparse=True))
        if name is not None:
            click.echo(_details(found[0], processes))


def _row(job: Status) -> tuple[str, ...]:
    running = f"{job.running}/{job.processes}"
    return (job.name, job.state, running, str(job.restarts), in_two_units(job.age), in_two_units(job.duration))


def _details(job: Status, processes: Sequence[ProcessStatus]) -> str:
    rows = [(process.name, process.pod, process.state, process.exit_code, process.trouble) for process in processes]
    parts = [tabulate(rows, headers=_PROCESS_HEADERS, disable_numparse=True)]
    parts.append(tabulate(job.outputs.items(), tablefmt="plain", disable_numparse=True))
    return "\n" + "\n\n".join(filter(None, (job.message, *parts)))
