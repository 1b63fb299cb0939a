"""qcnn submit --target vertex-job: training as a custom job of Vertex AI, without a pipeline."""

import contextlib

import click

from qcnn.cli.options.cost import Cost, check_cost, cost_options
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import Sending, alone_on_stdout, sending_options, show_rows
from qcnn.cli.options.pod import PodFlags, pod_options
from qcnn.cli.options.settings import place_options
from qcnn.cli.output import on_stderr
from qcnn.cli.vertex_job.follow import follow
from qcnn.jobs.vertex.location import Place, job_page, tensorboard_page
from qcnn.targets.library_output import shown
from qcnn.targets.vertex.client import Vertex, as_json, flags_of
from qcnn.targets.vertex.job_target import described
from qcnn.targets.vertex.submission import check_bucket


@click.command()
@click.option(
    "--output", required=True, metavar="ADDRESS", help="Where checkpoints, logs and model go, as gs://BUCKET/FOLDER."
)
@click.option(
    "--name", default="qcnn", show_default=True, help="Name of the run, which trains the same experiment only once."
)
@click.option("--follow", "is_followed", is_flag=True, help="Show what the workers print until they have ended.")
@sending_options
@place_options
@pod_options
@cost_options
@experiment_options
def submit(
    output: str,
    name: str,
    is_followed: bool,
    sending: Sending,
    place: Place,
    pod: PodFlags,
    cost: Cost,
    words: Words,
) -> None:
    """Train as a custom job of Vertex AI.

    An experiment that is submitted again is not trained twice: a job that runs or has succeeded is found again, one
    that failed is followed by another, which goes on from its last checkpoint.
    """
    experiment, settings = words.experiment(), pod.settings()
    experiment, job, made = described(experiment, output, name, settings, place)
    # The library takes a second and a half to load.
    from qcnn.jobs.vertex.attempts import How, create_or_adopt
    from qcnn.jobs.vertex.client import Api, aiplatform
    from qcnn.jobs.vertex.custom_job import outputs

    if sending.dry_run:
        click.echo(as_json(aiplatform.CreateCustomJobRequest(parent=place.parent, custom_job=made)))
        return
    check_cost(cost, "vertex-job", settings, [experiment])
    check_bucket(output, place, on_stderr)
    with shown(), contextlib.closing(Api(place)) as api:
        found, how = create_or_adopt(api, made)
    said = {How.CREATED: "is created", How.ADOPTED: "runs already", How.SUCCEEDED: "has already succeeded"}
    if sending.form == "text":
        click.echo(f"custom job {found.id} {said[how]} in {place.project} in {place.location}")
    where = f"--target vertex-job {flags_of(place)}"
    tensorboard = made.job_spec.tensorboard
    rows = {
        **outputs(job, made),
        "look at it": job_page(place, found.id),
        **({"TensorBoard": tensorboard_page(tensorboard, found.id)} if tensorboard else {}),
        "follow it": f"qcnn logs -f {found.id} {where}",
        "delete it": f"qcnn delete {found.id} {where}",
    }
    show_rows(sending.form, {"job": found.id, **rows} if sending.form == "json" else rows)
    if is_followed and how is not How.SUCCEEDED:
        with alone_on_stdout(sending.form):
            follow(Vertex(place), found.id, f"Again: {rows['follow it']}")
