"""qcnn terminate: end a run of the backend, and all it has on the cluster."""

import click

from qcnn.cli.options.form import shown_only_option
from qcnn.cli.options.settings import backend_options
from qcnn.targets.errors import StepError
from qcnn.targets.kubeflow.client import Backend, connect
from qcnn.targets.kubeflow.runs import ENDED, find_run, namespace_of
from qcnn.targets.kubeflow.termination import PATIENCE, clean, end_run


@click.command()
@click.argument("run")
@click.option(
    "--seconds", type=click.FloatRange(0), default=PATIENCE, show_default=True, help="How long to wait for its end."
)
@shown_only_option
@backend_options
def terminate(run: str, seconds: float, dry_run: bool, backend: Backend) -> None:
    """Terminate RUN, its id or name, of a Kubeflow backend, and wait for its end.

    Where KUBECONFIG gives access to its cluster, its TFJobs are deleted first, with all that belongs to them.
    """
    client = connect(backend)
    found = find_run(client, backend, run)
    namespace = namespace_of(client, backend, found.experiment_id)
    if dry_run:
        click.echo(f"run {found.run_id}, {str(found.state).lower()}: it and its TFJobs in {namespace} would be ended")
    elif found.state in ENDED:
        click.echo(f"run {found.run_id} had ended before: {found.state.lower()}")
        click.echo(clean(found.run_id, namespace))
    elif reason := end_run(client, backend, found, namespace, click.echo, seconds):
        raise StepError(reason)
