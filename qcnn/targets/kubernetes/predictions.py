"""Predictions on a cluster, as a Kubernetes Job."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.engines import required_engines
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import cancel_unwatched, create_or_adopt
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.job_watcher import JobWatcher
from qcnn.jobs.kubernetes.launch import PENDING_SECONDS
from qcnn.jobs.kubernetes.manifest import JOB
from qcnn.jobs.kubernetes.predict_job import TASK, for_model, for_training
from qcnn.jobs.kubernetes.service_accounts import check_account_exists
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, PodSettings
from qcnn.process.signals import terminated_as_interrupt
from qcnn.storage.store import check_reachable, parse_bucket_uri
from qcnn.targets.base import ReportLine, Request, SendsPredictions
from qcnn.targets.cluster import ClusterConnection, ClusterTarget, P_contra
from qcnn.targets.errors import StepError
from qcnn.targets.kubernetes.client import find_job
from qcnn.targets.settings import PodFields, setting

if TYPE_CHECKING:
    from qcnn.results.batch_prediction import Progress

HELP = """
Predict on the cluster, as a Kubernetes Job.

Without --data, the Job predicts the test split of the training job. It has the image and the settings of the training
pods. A URI is in a bucket, or an absolute path on a volume of these pods. The finished Job is deleted after some
minutes.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictSettings(PodFields, ClusterConnection):
    """Settings of a prediction Job.

    Raises:
        ConfigError: If settings conflict, or one is malformed.
    """

    job: str | None = setting("Training job or run whose model predicts.", None, metavar="JOB", is_argument=True)
    model: str | None = setting(
        "Model folder, if its training job no longer exists. Requires --image or --pod.", None, metavar="URI"
    )
    data: str | None = setting(
        "CSV, Parquet, npz or JSONL file with the columns of the model's inputs.", None, metavar="URI"
    )
    output: str | None = setting("File for the predictions, in one of these formats.", None, metavar="URI")
    report: str | None = setting("HTML file for a report about the error. Requires labels.", None, metavar="URI")

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.job) == bool(self.model):
            raise ConfigError(f"predict: must have either JOB or --model. Given: {'both' if self.job else 'none'}")
        if self.job and self.has_pod_settings:
            raise ConfigError(
                f"predict: must have no pod settings with JOB, whose settings are used. Given: {self.job} and others"
            )
        if self.model:
            # The manifest is readable by other users, so reject a URI with a password.
            parse_bucket_uri(self.model)

    @functools.cached_property
    def pods(self) -> PodSettings:
        """The settings of the prediction pod, for --model."""
        return self.pod_with(service_account=WORKER_ACCOUNT)

    @property
    def arguments(self) -> list[str]:
        """The arguments of qcnn.trainer.predict, with files that the pod can access."""
        # Importing pyarrow and NumPy takes longer than all other imports here.
        from qcnn.results.predictions import files_of

        files = files_of(self.data, self.output, self.report)
        arguments = []
        for name, uri in (dataclasses.asdict(files) if files else {}).items():
            if uri:
                check_reachable(name, uri)
                arguments += [f"--{name}", uri]
        return arguments


class JobPredictions(ClusterTarget[ClusterConnection, P_contra], SendsPredictions[PredictSettings]):
    """Predictions of a target for training jobs."""

    predict_settings: ClassVar[type[PredictSettings]] = PredictSettings
    predict_help: ClassVar[str] = HELP
    # Engine of all jobs. None: that of an existing job, or the first one that the cluster has.
    engine: ClassVar[Engine | None] = None

    @functools.cached_property
    def engines(self) -> Sequence[Engine]:
        """The engines whose jobs the target has."""
        return [self.engine] if self.engine else required_engines(self.api)

    @override
    def predict_requests(self, settings: PredictSettings) -> Sequence[Request]:
        """Return the manifest of the prediction Job. With JOB, it is derived from the job on the cluster."""
        return [self._manifest(settings)]

    @override
    def predict(
        self, settings: PredictSettings, report: ReportLine, warn: ReportLine, progress: Progress
    ) -> Mapping[str, float | str]:
        """Run the prediction Job and print its logs."""
        manifest = self._manifest(settings)
        if settings.model:
            check_account_exists(self.api, settings.pods.service_account)
        _run(self.api, manifest, warn)
        return {}

    def _manifest(self, settings: PredictSettings) -> dict[str, Any]:
        arguments = settings.arguments
        if settings.model:
            return for_model(settings.model, settings.pods, arguments)
        engine, job = find_job(self.api, self.engines, settings.job or "")
        return for_training(engine, job, engine.leading_template(self.api, job), arguments)


def _run(api: NamespaceClient, manifest: dict[str, Any], warn: ReportLine) -> None:
    job, how = create_or_adopt(api, JOB, manifest)
    warn(f"Job {job['metadata']['name']} {how.value}")
    following = JobWatcher(api, JOB, job, [(TASK, 0)], None, PENDING_SECONDS)
    try:
        with terminated_as_interrupt():
            following.run()
    except (KeyboardInterrupt, ConfigError):
        # No other client reads the output of the Job.
        cancel_unwatched(api, JOB, job)
        raise
    except (TrainingError, RetryableError) as error:
        raise StepError(str(error), following.exit_code or 1) from None
