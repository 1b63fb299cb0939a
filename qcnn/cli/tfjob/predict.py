"""qcnn predict --target tfjob: predictions with what was trained on the cluster, made there."""

import dataclasses
from typing import Any

import click

from qcnn.cli.options.pod import PodFlags, pod_options
from qcnn.cli.options.settings import namespace_option
from qcnn.cli.tfjob.printing import FORMS, as_text
from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.kubernetes.api import Api
from qcnn.jobs.kubernetes.create_or_adopt import abandon, create_or_adopt
from qcnn.jobs.kubernetes.job_watcher import Following
from qcnn.jobs.kubernetes.kinds import JOB
from qcnn.jobs.pod_settings import WORKER_ACCOUNT
from qcnn.jobs.tfjob.launch import PENDING_SECONDS, check_worker_account
from qcnn.jobs.tfjob.predict_job import TASK, for_model, for_training
from qcnn.results.predictions import Files, files_of
from qcnn.startup import terminated_as_interrupt
from qcnn.storage.uri import check_reachable, in_bucket
from qcnn.targets.errors import StepError
from qcnn.targets.tfjob.client import cluster, find_job


@click.command()
@click.argument("name", required=False, metavar="[JOB]")
@click.option("--model", metavar="ADDRESS", help="A model folder, where its TFJob is gone; with --image or --pod.")
@click.option("--data", metavar="ADDRESS", help="CSV, Parquet, npz or JSONL with the columns that the model takes.")
@click.option("--output", metavar="ADDRESS", help="Where predictions go, in one of these formats.")
@click.option("--report", metavar="ADDRESS", help="Where a page about their error goes, .html; for data with labels.")
@namespace_option
@pod_options
@click.option("--dry-run", is_flag=True, help="Print the Job, for kubectl apply -f -, and send nothing.")
def predict(
    name: str | None,
    model: str | None,
    data: str | None,
    output: str | None,
    report: str | None,
    namespace: str | None,
    pod: PodFlags,
    dry_run: bool,
) -> None:
    """Predict the rows of a file with what a TFJob trained; without --data its test split.

    It runs as a Job with the image and the settings of the training's pods, which read and write the files: an ADDRESS
    is in a bucket, or an absolute path at which they have a volume. The Job is deleted some minutes later.
    """
    if bool(name) == bool(model):
        raise ConfigError(f"predict: takes either JOB or --model. Given: {'both' if name else 'none'}")
    if name and pod.is_given:
        raise ConfigError(f"predict: the settings of the pod are those of the training. Given: {name} and others")
    if model:
        # It goes into the manifest, which others may read: what has a password in it is refused here.
        in_bucket(model)
    arguments = _arguments(files_of(data, output, report))
    settings = pod.settings(service_account=WORKER_ACCOUNT) if model else None
    manifest = for_model(model, settings, arguments) if settings and model else None
    if manifest and dry_run:
        click.echo(as_text([manifest], FORMS[0]), nl=False)
        return
    with cluster(namespace) as api:
        if settings and not dry_run:
            check_worker_account(api, settings)
        manifest = manifest or for_training(find_job(api, name or ""), arguments)
        if dry_run:
            click.echo(as_text([manifest], FORMS[0]), nl=False)
            return
        _run(api, manifest)


def _arguments(files: Files | None) -> list[str]:
    """Return the arguments of qcnn.trainer.predict for files that the pod can reach."""
    words = []
    for name, address in (dataclasses.asdict(files) if files else {}).items():
        if address:
            check_reachable(name, address)
            words += [f"--{name}", address]
    return words


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
