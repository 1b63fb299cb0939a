"""qcnn predict: the inference error of a trained model, measured on the cluster."""

from typing import Any

import click

from cli.errors import StepError
from cli.options.pod import PodFlags, pod_options
from cli.tfjob.connection import cluster, find_job, namespace_option
from launchers.kubernetes.api import Api
from launchers.kubernetes.create_or_adopt import abandon, create_or_adopt
from launchers.kubernetes.follow import Following
from launchers.kubernetes.kinds import JOB
from launchers.tfjob.launch import PENDING_SECONDS
from launchers.tfjob.predict_job import TASK, for_model, for_training
from trainer.errors import ConfigError, RetryableError, TrainingError
from trainer.startup import terminated_as_interrupt
from trainer.storage.address import in_bucket


@click.command()
@click.argument("name", required=False, metavar="[JOB]")
@click.option("--model", metavar="ADDRESS", help="A model folder, where its TFJob is gone; with --image or --pod.")
@namespace_option
@pod_options
def predict(name: str | None, model: str | None, namespace: str | None, pod: PodFlags) -> None:
    """Predict the test split with what a TFJob trained: predictions beside labels, and the mean squared error.

    It runs as a Job with the image and the settings of the training's pods. The Job is deleted some minutes later.
    """
    if bool(name) == bool(model):
        raise ConfigError(f"predict: takes either JOB or --model. Given: {'both' if name else 'none'}")
    if name and pod.is_given:
        raise ConfigError(f"predict: the settings of the pod are those of the training. Given: {name} and others")
    if model:
        # It goes into the manifest, which others may read: what has a password in it is refused here.
        in_bucket(model)
    manifest = for_model(model, pod.settings()) if model else None
    with cluster(namespace) as api:
        _run(api, manifest or for_training(find_job(api, name or "")))


def _run(api: Api, manifest: dict[str, Any]) -> None:
    job, how = create_or_adopt(api, JOB, manifest)
    click.echo(f"Job {job['metadata']['name']} {how.value}", err=True)
    following = Following(api, JOB, job, [(TASK, 0)], None, PENDING_SECONDS)
    try:
        with terminated_as_interrupt():
            following.run()
    except (KeyboardInterrupt, ConfigError):
        # Nobody else reads its output.
        abandon(api, JOB, job)
        raise
    except (TrainingError, RetryableError) as error:
        raise StepError(str(error), following.exit_code or 1) from None
