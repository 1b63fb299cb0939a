"""Predictions with what was trained on a cluster, made there by a Job."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import cancel_unwatched, create_or_adopt
from qcnn.jobs.kubernetes.job_watcher import JobWatcher
from qcnn.jobs.kubernetes.manifest import JOB
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, PodSettings
from qcnn.jobs.tfjob.launch import PENDING_SECONDS, check_worker_account
from qcnn.jobs.tfjob.predict_job import TASK, for_model, for_training
from qcnn.startup import terminated_as_interrupt
from qcnn.storage.store import check_reachable, parse_bucket_uri
from qcnn.targets.base import Say
from qcnn.targets.errors import StepError
from qcnn.targets.settings import PodFields, setting
from qcnn.targets.tfjob.client import Connection, cluster, find_job

HELP = """
Predict the rows of a file with what a TFJob trained; without --data its test split.

It runs as a Job with the image and the settings of the training's pods, which read and write the files: an ADDRESS is
in a bucket, or an absolute path at which they have a volume. The Job is deleted some minutes later.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictSettings(PodFields, Connection):
    """What is predicted, with what, and where it goes.

    Raises:
        ConfigError: these do not go together, or one is malformed.
    """

    job: str | None = setting("TFJob, or run, whose model predicts.", None, metavar="JOB", is_argument=True)
    model: str | None = setting(
        "A model folder, where its TFJob is gone; with --image or --pod.", None, metavar="ADDRESS"
    )
    data: str | None = setting(
        "CSV, Parquet, npz or JSONL with the columns that the model takes.", None, metavar="ADDRESS"
    )
    output: str | None = setting("Where predictions go, in one of these formats.", None, metavar="ADDRESS")
    report: str | None = setting(
        "Where a page about their error goes, .html; for data with labels.", None, metavar="ADDRESS"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.job) == bool(self.model):
            raise ConfigError(f"predict: takes either JOB or --model. Given: {'both' if self.job else 'none'}")
        if self.job and self.has_pod_settings:
            raise ConfigError(
                f"predict: the settings of the pod are those of the training. Given: {self.job} and others"
            )
        if self.model:
            # It goes into the manifest, which others may read: what has a password in it is refused here.
            parse_bucket_uri(self.model)

    @functools.cached_property
    def pods(self) -> PodSettings:
        """The settings of the pod where a model predicts."""
        return self.pod_with(service_account=WORKER_ACCOUNT)

    @property
    def arguments(self) -> list[str]:
        """The arguments of qcnn.trainer.predict for files that the pod can reach."""
        # Pyarrow and NumPy take longer to load than everything else here.
        from qcnn.results.predictions import files_of

        files = files_of(self.data, self.output, self.report)
        words = []
        for name, address in (dataclasses.asdict(files) if files else {}).items():
            if address:
                check_reachable(name, address)
                words += [f"--{name}", address]
        return words


def requests(settings: PredictSettings) -> Sequence[Mapping[str, Any]]:
    """Return the Job that predicts; that of a TFJob is made of what the cluster has of it.

    Raises:
        ArtifactError: there is no such TFJob.
        ConfigError: the pod does not reach a file.
    """
    arguments = settings.arguments
    if settings.model:
        return [for_model(settings.model, settings.pods, arguments)]
    with cluster(settings.namespace) as api:
        return [for_training(find_job(api, settings.job or ""), arguments)]


def predict(settings: PredictSettings, warn: Say) -> Mapping[str, Any]:
    """Run the Job that predicts, and print what it prints.

    Raises:
        ArtifactError: there is no such TFJob.
        ConfigError: the pod does not reach a file, or the cluster refuses it.
        StepError: it failed.
    """
    arguments = settings.arguments
    manifest = for_model(settings.model, settings.pods, arguments) if settings.model else None
    with cluster(settings.namespace) as api:
        if manifest:
            check_worker_account(api, settings.pods)
        _run(api, manifest or for_training(find_job(api, settings.job or ""), arguments), warn)
    return {}


def _run(api: NamespaceClient, manifest: dict[str, Any], warn: Say) -> None:
    job, how = create_or_adopt(api, JOB, manifest)
    warn(f"Job {job['metadata']['name']} {how.value}")
    following = JobWatcher(api, JOB, job, [(TASK, 0)], None, PENDING_SECONDS)
    try:
        with terminated_as_interrupt():
            following.run()
    except (KeyboardInterrupt, ConfigError):
        # Nobody else reads its output.
        cancel_unwatched(api, JOB, job)
        raise
    except (TrainingError, RetryableError) as error:
        raise StepError(str(error), following.exit_code or 1) from None
