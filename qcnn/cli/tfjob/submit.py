"""qcnn submit --target tfjob: training as a TFJob, without Kubeflow Pipelines."""

import click

from qcnn.cli.options.cost import Cost, check_cost, cost_options
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import show_rows
from qcnn.cli.options.pod import PodFlags, pod_options
from qcnn.cli.options.settings import namespace_option
from qcnn.cli.output import goes_on
from qcnn.cli.tfjob.printing import FORMS, as_text
from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.create_or_adopt import How
from qcnn.jobs.pod_settings import WORKER_ACCOUNT
from qcnn.jobs.tfjob import launch as tfjobs
from qcnn.jobs.tfjob import status
from qcnn.targets.tfjob.client import cluster, flag_of, follow
from qcnn.targets.tfjob.target import DAY, check_no_secrets, described


@click.command()
@click.option(
    "--output", required=True, metavar="ADDRESS", help="Where checkpoints, logs and model go, as gs://BUCKET/FOLDER."
)
@click.option(
    "--name", default="qcnn", show_default=True, help="Name of the run, which trains the same experiment only once."
)
@namespace_option
@click.option("--follow", "is_followed", is_flag=True, help="Show what the workers print until they have ended.")
@pod_options
@click.option(
    "--active-seconds", type=click.IntRange(1), metavar="SECONDS", help="End the training after that. [default: never]"
)
@click.option(
    "--keep-seconds",
    type=click.IntRange(0),
    default=DAY,
    show_default=True,
    metavar="SECONDS",
    help="Time that TFJob and pods stay after their end, to be looked at.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be created, for kubectl apply -f -, and send nothing.")
@click.option(
    "-o",
    "--format",
    "form",
    type=click.Choice(FORMS),
    help="Form of what is printed, for programs; yaml only with --dry-run, whose default it is.",
)
@cost_options
@experiment_options
def submit(
    output: str,
    name: str,
    namespace: str | None,
    is_followed: bool,
    active_seconds: int | None,
    keep_seconds: int,
    pod: PodFlags,
    dry_run: bool,
    form: str | None,
    cost: Cost,
    words: Words,
) -> None:
    """Train as a TFJob, on a cluster with Kubeflow's training operator.

    An experiment that is submitted again is not trained twice: a TFJob that runs or has succeeded is found again, one
    that failed is replaced and goes on from its last checkpoint.
    """
    if form == FORMS[0] and not dry_run:
        raise ConfigError(f"format: {form} is only of what --dry-run prints. Given: {form}")
    if dry_run and is_followed:
        raise ConfigError("dry_run: creates nothing that could be followed. Given: --dry-run --follow")
    experiment, settings = words.experiment(), pod.settings(service_account=WORKER_ACCOUNT)
    experiment, manifest = described(experiment, output, name, settings, active_seconds, keep_seconds)
    if dry_run:
        check_no_secrets(settings)
        click.echo(as_text(tfjobs.applied(manifest, namespace), form or FORMS[0]), nl=False)
        return
    check_cost(cost, "tfjob", settings, [experiment])
    with cluster(namespace) as api:
        tfjobs.check_worker_account(api, settings)
        found, how = tfjobs.submit(api, manifest)
        commands = _commands(found["metadata"]["name"], flag_of(namespace))
        rows = {**status.outputs(found), **commands}
        if form:
            show_rows(form, {"job": found["metadata"]["name"], **rows})
        else:
            click.echo(f"TFJob {found['metadata']['name']} {_SAID[how]} in namespace {api.namespace}")
            show_rows("text", rows)
        if is_followed and how is not How.SUCCEEDED:
            follow(api, found, experiment.options.restarts, goes_on(f"Again: {commands['follow it']}"))


_SAID = {How.CREATED: "is created", How.ADOPTED: "runs already", How.SUCCEEDED: "has already succeeded"}


def _commands(name: str, where: str) -> dict[str, str]:
    return {
        "look at it": f"qcnn status {name}{where}",
        "follow it": f"qcnn logs -f {name}{where}",
        "predict": f"qcnn predict --target tfjob {name}{where}",
        "delete it": f"qcnn delete {name}{where}",
    }
