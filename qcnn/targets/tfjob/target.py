"""The target tfjob: training as a TFJob on a cluster with the Kubeflow training operator, without a pipeline."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qcnn.components.training_job import cluster_job, with_data_file
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.job import CreateOutcome, JobIdentity, check_run
from qcnn.jobs.kubernetes import cleanup, status
from qcnn.jobs.kubernetes import pods as kubernetes_pods
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.engine import TrainingJob
from qcnn.jobs.kubernetes.job_watcher import LogCursor
from qcnn.jobs.kubernetes.launch import manifests_to_apply, submit
from qcnn.jobs.kubernetes.service_accounts import check_account_exists
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, outputs
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, PodSettings, secrets_in
from qcnn.jobs.tfjob.engine import JOB_NAME_LABEL, TFJOB, TFJOBS
from qcnn.monitoring import logs
from qcnn.targets import following
from qcnn.targets.artifacts import LogSource
from qcnn.targets.base import Deletable, JobStatus, PartStatus, Prepared, ReportLine, Selection, Submitted
from qcnn.targets.settings import PodFields, setting
from qcnn.targets.tfjob import predictions
from qcnn.targets.tfjob.client import (
    BoardSettings,
    Connection,
    can_be_name,
    cluster,
    delete_tensorboard,
    deploy_tensorboard,
    find_job,
    follow,
    logs_of_jobs,
    place_of,
    tensorboard_objects,
)

if TYPE_CHECKING:
    from qcnn.components.cost_estimate import PricingPlatform
    from qcnn.jobs.pricing import Prices

DAY = 86400
_TASK = "train"
_OUTCOMES: Mapping[CreateOutcome, Literal["created", "adopted", "succeeded"]] = {
    CreateOutcome.CREATED: "created",
    CreateOutcome.ADOPTED: "adopted",
    CreateOutcome.SUCCEEDED: "succeeded",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(PodFields, Connection):
    """Settings of a TFJob.

    Raises:
        ConfigError: If a setting is malformed.
    """

    output: str = setting("Output folder of checkpoints, logs and model, as gs://BUCKET/FOLDER.", metavar="URI")
    name: str = setting(
        "Run name. Resubmitting an experiment under the same name does not retrain it.", "qcnn", metavar="NAME"
    )
    active_deadline_seconds: int | None = setting(
        "Seconds after which the TFJob is terminated.", None, shown="never", metavar="SECONDS", minimum=1
    )
    ttl_seconds_after_finished: int = setting(
        "Seconds for which the finished TFJob and its pods are retained.", DAY, metavar="SECONDS", minimum=0
    )

    @functools.cached_property
    def pods(self) -> PodSettings:
        """The settings of the training pods."""
        return self.pod_with(service_account=WORKER_ACCOUNT)


class TFJobTarget:
    """The target for TFJobs."""

    name: ClassVar[str] = "tfjob"
    title: ClassVar[str] = "a cluster with the Kubeflow training operator"
    job_kind: ClassVar[str] = "TFJob"
    # The Kubernetes client is a base dependency.
    extra: ClassVar[str] = ""
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = (
        "Resubmitting an experiment does not retrain it: an active or succeeded TFJob is adopted. A failed TFJob is "
        "replaced by a new one, which resumes from the last checkpoint."
    )
    requests_are: ClassVar[Literal["json", "yaml"]] = "yaml"
    selections: ClassVar[Sequence[str]] = ("run", "kind", "orphans", "everything")
    kinds: ClassVar[Sequence[str]] = ("TFJob", "Job")
    has_experiments: ClassVar[bool] = False
    delete_notes: ClassVar[str] = "Outputs are kept."
    logs_settings: ClassVar[type[BoardSettings]] = BoardSettings
    predict_settings: ClassVar[type[predictions.PredictSettings]] = predictions.PredictSettings
    predict_help: ClassVar[str] = predictions.HELP

    def place(self, connection: Connection) -> str:
        """Return the namespace of the jobs as a phrase."""
        return place_of(connection.namespace)

    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        """Return the TFJob of an experiment, ready for submission.

        Raises:
            ConfigError: If the target cannot run the experiment, or a setting is invalid.
        """
        experiment, data_sha256 = with_data_file(experiment)
        training = training_job(experiment, data_sha256, settings)

        def requests() -> Sequence[Mapping[str, Any]]:
            check_no_secrets(settings.pods)
            return manifests_to_apply(training, settings.namespace)

        def check() -> None:
            with cluster(settings.namespace) as api:
                check_account_exists(api, settings.pods.service_account)

        def create() -> Submitted:
            with cluster(settings.namespace) as api:
                job, outcome = submit(api, training)
            return Submitted(job["metadata"]["name"], _OUTCOMES[outcome], outputs(job))

        return Prepared(requests, check, create, settings.pods, [experiment])

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the cluster nodes that pods run on, for a cost estimate.

        Args:
            pod: Settings of the pods.
            prices: Price list.
            machine_type: Machine type to price. Empty: selected from the price list.
        """
        from qcnn.components.cost_estimate import on_kubernetes

        return on_kubernetes(pod, prices, machine_type)

    def list_jobs(self, connection: Connection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the TFJobs of qcnn in the namespace, newest last."""
        with cluster(connection.namespace) as api:
            return [_status(each, ()) for each in status.read_all(api, TFJOB)]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return the status of a TFJob, by its name or its run name.

        Raises:
            ArtifactError: If the TFJob does not exist.
        """
        with cluster(connection.namespace) as api:
            return _status(*status.read_one(api, TFJOB, find_job(api, job)))

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield the log lines of all processes in chronological order, with process names.

        Args:
            job: Name of the TFJob or of its run.
            connection: Connection settings.
            follow: Whether to continue until the TFJob ends.

        Raises:
            ArtifactError: If the TFJob does not exist.
        """
        with cluster(connection.namespace) as api:
            name = find_job(api, job)["metadata"]["name"]
            cursors: dict[str, LogCursor] = {}
            while True:
                found = api.get(TFJOBS, name)
                # Checked before the lines are read, so that no line of an ended job is missed.
                has_ended = found is None or TFJOB.has_ended(found)
                if found is not None:
                    yield from new_lines(api, found, cursors)
                if not follow or has_ended:
                    return
                time.sleep(following.INTERVAL)

    def follow(self, job: str, connection: Connection, report: ReportLine, restarts: int | None = None) -> None:
        """Print the logs of a TFJob until it ends.

        Args:
            job: Name of the TFJob or of its run.
            connection: Connection settings.
            report: Unused.
            restarts: Maximum number of process restarts, after which the TFJob is deleted. None: no limit.

        Raises:
            ArtifactError: If the TFJob does not exist.
            StepError: If the TFJob failed.
        """
        with cluster(connection.namespace) as api:
            follow(api, find_job(api, job), restarts)

    def wait(self, job: str, connection: Connection, report: ReportLine) -> None:
        """Report the state changes of a TFJob and its processes until it ends.

        Args:
            job: Name of the TFJob or of its run.
            connection: Connection settings.
            report: Callback for status lines.

        Raises:
            ArtifactError: If the TFJob does not exist.
            StepError: If the TFJob failed.
        """
        following.wait(lambda: self.get_job(job, connection), report, self.job_kind)

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a TFJob with its dependents, and wait until they no longer exist.

        Raises:
            ArtifactError: If the TFJob does not exist.
        """
        with cluster(connection.namespace) as api:
            name = find_job(api, job)["metadata"]["name"]
            everything = cleanup.find_all(api, [TFJOB])
            chosen = [found for found in cleanup.managed_jobs(everything) if found.name == name]
            cleanup.delete(api, cleanup.with_dependents(chosen, everything))

    def find(self, selection: Selection, connection: Connection) -> Sequence[Deletable]:
        """Return TFJobs or prediction Jobs with their dependents.

        Raises:
            ArtifactError: If no job has one of the names.
            ConfigError: If a kind is selected without a run.
        """
        if selection.run is not None:
            check_run(selection.run)
        elif selection.kind is not None:
            raise ConfigError(f"kind: must be given with --run. Given: {selection.kind}")
        with cluster(connection.namespace) as api:
            everything = cleanup.find_all(api, [TFJOB])
            if selection.orphans:
                chosen = cleanup.find_orphans(everything, [TFJOB], api.now())
            else:
                chosen = _select(cleanup.managed_jobs(everything), selection, api.namespace)
            return [_deletable(each) for each in cleanup.with_dependents(chosen, everything)]

    def delete_found(self, found: Sequence[Deletable], connection: Connection) -> None:
        """Delete objects, and wait until they no longer exist."""
        with cluster(connection.namespace) as api:
            cleanup.delete(api, [each.object for each in found])

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the losses and accuracies of the last epoch, and the number of epochs.

        Raises:
            ArtifactError: If the TFJob does not exist, or its history cannot be read locally.
        """
        from qcnn.model.checkpoints import last_metrics

        return last_metrics(self._output("training", job, connection))

    def model(self, job: str, connection: Connection) -> str:
        """Return the URI of the model that a TFJob exported.

        Raises:
            ArtifactError: If the TFJob does not exist, or has no exported model.
        """
        return self._output("model", job, connection)

    def _output(self, output: str, job: str, connection: Connection) -> str:
        with cluster(connection.namespace) as api:
            address = outputs(find_job(api, job)).get(output)
        if not address:
            raise ArtifactError(f"{output}: the TFJob has no such output. Given: {job}")
        return address

    def is_job_id(self, text: str) -> bool:
        """Return whether a text is a valid name of a TFJob."""
        return can_be_name(text)

    def find_logs(
        self,
        ids: Sequence[str],
        experiment: str | None,
        names: Sequence[str],
        settings: BoardSettings,
        *,
        in_a_pod: bool,
    ) -> list[LogSource]:
        """Return the logs of TFJobs.

        Args:
            ids: Names of TFJobs or runs.
            experiment: Unused.
            names: Unused.
            settings: Settings of class `BoardSettings`.
            in_a_pod: Whether TensorBoard runs in a pod, where volumes are readable.

        Raises:
            ArtifactError: If a TFJob does not exist, or only its pods can read its logs.
        """
        return logs_of_jobs(ids, settings.namespace, in_a_pod=in_a_pod)

    def board_requests(self, name: str, logs: Sequence[str], settings: BoardSettings, *, public: bool) -> Sequence[Any]:
        """Return the manifests of a TensorBoard Deployment and its Service.

        Args:
            name: Name of the Deployment.
            logs: URIs or volume paths of log folders.
            settings: Settings of class `BoardSettings`.
            public: Whether to expose it with a LoadBalancer.
        """
        return tensorboard_objects(name, logs, settings, public=public)

    def deploy_board(
        self, name: str, logs: Sequence[str], settings: BoardSettings, *, public: bool
    ) -> Mapping[str, str]:
        """Deploy TensorBoard in the namespace, and return its access commands.

        Args:
            name: Name of the Deployment.
            logs: URIs or volume paths of log folders.
            settings: Settings of class `BoardSettings`.
            public: Whether to expose it with a LoadBalancer.
        """
        return deploy_tensorboard(name, logs, settings, settings.namespace, public=public)

    def delete_board(self, name: str, settings: BoardSettings) -> str:
        """Delete a TensorBoard and return its namespace."""
        return delete_tensorboard(name, settings.namespace)

    def predict(
        self, settings: predictions.PredictSettings, report: ReportLine, warn: ReportLine, progress: object
    ) -> Mapping[str, Any]:
        """Predict with the model of a TFJob, in a Kubernetes Job.

        Args:
            settings: Settings of class `PredictSettings`.
            report: Unused.
            warn: Callback for warnings.
            progress: Unused.
        """
        return predictions.predict(settings, warn)

    def predict_requests(self, settings: predictions.PredictSettings) -> Sequence[Mapping[str, Any]]:
        """Return the manifest of the prediction Job."""
        return predictions.requests(settings)


def training_job(experiment: ExperimentConfig, data_sha256: str, settings: Settings) -> TrainingJob:
    """Return the TFJob that trains an experiment, which has the metadata of its data file.

    Raises:
        ConfigError: If the target cannot run the experiment, or a setting is invalid.
    """
    job = cluster_job(experiment, settings.output, settings.pods, data_sha256=data_sha256)
    policy = JobTimeouts(
        active_deadline_seconds=settings.active_deadline_seconds,
        ttl_seconds_after_finished=settings.ttl_seconds_after_finished,
        lease_seconds=None,
    )
    return TFJOB.training(job, JobIdentity(check_run(settings.name), _TASK), policy)


def check_no_secrets(pod: PodSettings) -> None:
    """Raise ConfigError if --dry-run would print a secret, which could then be committed.

    Raises:
        ConfigError: If an environment variable looks like a secret.
    """
    if found := secrets_in(pod.environment):
        raise ConfigError(
            f"pod.environment: {found[0]} looks like a secret, which --dry-run does not print; store it in a Secret "
            f"and set secrets: {{{found[0]}: SECRET/KEY}} in the pod settings. Given: {found[0]}"
        )


def _status(job: status.Status, processes: Sequence[status.ProcessStatus]) -> JobStatus:
    return JobStatus(
        job=job.name,
        name=job.run,
        state=job.state.lower(),
        has_ended=job.state in ("Succeeded", "Failed"),
        has_succeeded=job.state == "Succeeded",
        age=job.age,
        duration=job.duration,
        message=job.message,
        processes=job.processes,
        running=job.running,
        restarts=job.restarts,
        outputs=job.outputs,
        parts=[
            PartStatus(each.name, each.state, each.trouble or "", each.pod or "", each.exit_code) for each in processes
        ],
    )


def _select(own: Sequence[cleanup.OwnedObject], selection: Selection, namespace: str) -> list[cleanup.OwnedObject]:
    """Return the objects with these names, those of a run and a kind, or all."""
    names, run = selection.names, selection.run
    if missing := sorted(set(names) - {found.name for found in own}):
        is_run = any(found.run == missing[0] for found in own)
        hint = f"; to select the jobs of this run, use --run {missing[0]}" if is_run else ""
        raise ArtifactError(f"job: qcnn created none of this name in namespace {namespace}{hint}. Given: {missing[0]}")
    if run is not None:
        return [found for found in cleanup.objects_of_run(run, own) if selection.kind in (None, found.kind)]
    return [found for found in own if not names or found.name in names]


def _deletable(found: cleanup.OwnedObject) -> Deletable:
    state = found.engine.state(found.object).lower() if found.engine else ""
    return Deletable(found.kind, found.name, found.name, found.run or "", state, found)


def new_lines(api: NamespaceClient, job: Mapping[str, Any], cursors: dict[str, LogCursor]) -> Iterator[str]:
    """Yield new log lines of a job's processes in chronological order, with process names.

    Args:
        api: Client for the namespace.
        job: The TFJob.
        cursors: Log positions by pod UID. Positions of new pods are added.
    """
    found = api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={job['metadata']['name']}")
    started = [process for process in kubernetes_pods.processes_of_job(found, dict(job), TFJOB) if process.started]
    logs_of = (
        [
            (moment, line)
            for moment, text in cursors.setdefault(process.uid, LogCursor(process.pod, process.container)).new(
                api, follow=False
            )
            for line in logs.reformat_line(text, process.name)
        ]
        for process in started
    )
    for _, line in heapq.merge(*logs_of):
        yield line
