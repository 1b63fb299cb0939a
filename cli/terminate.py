"""qcnn terminate: end a run of the backend, and all it has on the cluster."""

import click

from cli.answers import explained
from cli.backend import SINGLE_USER, Backend, backend_options, connect
from cli.following import ENDED, Asking, follow
from cli.kubeflow_runs import find_run
from trainer.errors import QcnnError


@click.command()
@click.argument("run")
@backend_options
def terminate(run: str, backend: Backend) -> None:
    """Terminate RUN, its id or name, of a Kubeflow backend, and wait for its end.

    Where KUBECONFIG gives access to its cluster, its TFJobs are deleted too, with all that belongs to them.
    """
    client = connect(backend)
    found = find_run(client, backend, run)
    with explained(backend.address):
        namespace = client.get_experiment(found.experiment_id).namespace or backend.namespace or SINGLE_USER
        if found.state in ENDED:
            click.echo(f"run {found.run_id} had ended before: {found.state.lower()}")
        else:
            client.terminate_run(found.run_id)
    if found.state not in ENDED:
        follow(Asking(client, backend, found.run_id), (), click.echo)
        click.echo(f"run {found.run_id} is terminated")
    click.echo(_cleaned(found.run_id, namespace))


def _cleaned(run: str, namespace: str) -> str:
    """Delete what a run has on the cluster, and say so; without a cluster say that."""
    # The cluster's client takes longer to load than everything else here.
    from cli.cluster import cluster
    from components.train.tfjobs import deletion

    try:
        with cluster(namespace) as api:
            everything = deletion.look(api)
            left = deletion.with_dependents(deletion.of_run(everything, run), everything)
            deletion.delete(api, left)
    except QcnnError as error:
        return f"whether TFJobs of it are left in namespace {namespace} was not seen: {error}"
    names = ", ".join(found.name for found in left if found.kind == "TFJob")
    return f"{f'TFJob {names} deleted; ' if names else ''}nothing of its trainings is left in namespace {namespace}"
