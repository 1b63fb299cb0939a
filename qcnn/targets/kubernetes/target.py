"""The target kubernetes: a training job on a cluster, without a pipeline."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal, cast

from typing_extensions import override

from qcnn.components.training_job import cluster_job, with_data_file
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.engines import AUTO, ENGINES, choose_engine, possible_engines
from qcnn.jobs.job import OUTCOMES, JobIdentity, check_run
from qcnn.jobs.kubernetes import cleanup, status
from qcnn.jobs.kubernetes import pods as kubernetes_pods
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.cluster_config import own_namespace
from qcnn.jobs.kubernetes.engine import Engine, TrainingJob
from qcnn.jobs.kubernetes.launch import manifests_to_apply, submit
from qcnn.jobs.kubernetes.manifest import JOB, Manifest
from qcnn.jobs.kubernetes.pod_logs import LogCursor
from qcnn.jobs.kubernetes.service_accounts import check_account_exists
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, outputs
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, PodSettings, check_no_secrets
from qcnn.monitoring import logs
from qcnn.targets import following
from qcnn.targets.artifacts import LogSource
from qcnn.targets.base import (
    Deletable,
    IsChecked,
    JobStatus,
    PartStatus,
    Prepared,
    ReportLine,
    Request,
    Selection,
    Submits,
    Submitted,
)
from qcnn.targets.bound import BoundJobs
from qcnn.targets.checks import Check
from qcnn.targets.cluster import ClusterConnection
from qcnn.targets.kubernetes.checks import ANY_IMAGE, cluster_checks
from qcnn.targets.kubernetes.client import can_be_name, find_job, follow, logs_of_jobs
from qcnn.targets.kubernetes.predictions import JobPredictions
from qcnn.targets.kubernetes.serving import KubernetesServing
from qcnn.targets.output_check import output_checks
from qcnn.targets.settings import CheckSettings, PodFields, TrackedPodFields, setting

DAY = 86400
_TASK = "train"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardSettings(PodFields, ClusterConnection):
    """Pod settings and namespace of a TensorBoard."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(TrackedPodFields, ClusterConnection):
    """Settings of a training job.

    Raises:
        ConfigError: If a setting is malformed.
    """

    output: str = setting("Output folder of checkpoints, logs and model, as gs://BUCKET/FOLDER.", metavar="URI")
    name: str = setting(
        "Run name. Resubmitting an experiment under the same name does not retrain it.", "qcnn", metavar="NAME"
    )
    runtime: str | None = setting(
        "ClusterTrainingRuntime of the TrainJob, or TrainingRuntime/NAME of the namespace.",
        None,
        shown="made for the job",
        metavar="NAME",
    )
    active_deadline_seconds: int | None = setting(
        "Seconds after which the job is terminated.", None, shown="never", metavar="SECONDS", minimum=1
    )
    ttl_seconds_after_finished: int = setting(
        "Seconds for which the finished job's pods are retained, and a TFJob.",
        DAY,
        metavar="SECONDS",
        minimum=0,
    )

    @functools.cached_property
    def pods(self) -> PodSettings:
        """The settings of the training pods."""
        return self.pod_with(service_account=WORKER_ACCOUNT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterCheckSettings(BoardSettings, CheckSettings):
    """Settings of the checks of a cluster."""


class TrainingJobTarget(
    JobPredictions[BoardSettings], BoundJobs[ClusterConnection], Submits[Settings], IsChecked[ClusterCheckSettings]
):
    """Base class of a target for training jobs of an engine on a cluster."""

    # The Kubernetes client is a base dependency.
    extra: ClassVar[str] = ""
    connection_settings: ClassVar[type[ClusterConnection]] = ClusterConnection
    submit_settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = (
        "Resubmitting an experiment does not retrain it: an active or succeeded job is adopted. A failed job is "
        "replaced by a new one, which resumes from the last checkpoint."
    )
    requests_are: ClassVar[Literal["json", "yaml"]] = "yaml"
    selections: ClassVar[Sequence[str]] = ("run", "kind", "orphans", "everything")
    kinds: ClassVar[Sequence[str]] = (*(each.name for each in ENGINES.values()), JOB.name)
    logs_settings: ClassVar[type[BoardSettings]] = BoardSettings
    check_settings: ClassVar[type[ClusterCheckSettings]] = ClusterCheckSettings

    @override
    def checks(self, settings: ClusterCheckSettings) -> Sequence[Check]:
        pod = settings.pod_with(image=ANY_IMAGE, service_account=WORKER_ACCOUNT)
        engines = (self.engine,) if self.engine else tuple(ENGINES.values())
        found = cluster_checks(lambda: self.api, engines, pod, settings.output or "")
        return (*found, *output_checks(settings))

    @override
    def place(self) -> str:
        return f"namespace {self.connection.namespace or own_namespace()}"

    @override
    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        experiment, data_sha256 = with_data_file(experiment)
        job = cluster_job(experiment, settings.output, settings.pods, data_sha256=data_sha256)
        identity = JobIdentity(check_run(settings.name), _TASK)
        timeouts = JobTimeouts(
            active_deadline_seconds=settings.active_deadline_seconds,
            ttl_seconds_after_finished=settings.ttl_seconds_after_finished,
            lease_seconds=None,
        )
        wanted = self._wanted_engine(settings.pods)
        # The check of the job is the same for all engines that can run it, and needs no cluster.
        (wanted or possible_engines(job)[0]).manifest(job, identity, timeouts)

        def training() -> TrainingJob:
            engine = wanted or choose_engine(self.api, AUTO, job, identity)
            return engine.training(job, identity, timeouts)

        def requests() -> Sequence[Request]:
            check_no_secrets(settings.pods.environment)
            return manifests_to_apply(training(), settings.namespace)

        def create() -> Submitted:
            created, outcome = submit(self.api, training())
            return Submitted(created["metadata"]["name"], OUTCOMES[outcome], outputs(created))

        return Prepared(
            requests,
            lambda: check_account_exists(self.api, settings.pods.service_account),
            create,
            settings.pods,
            [experiment],
        )

    def _wanted_engine(self, pod: PodSettings) -> Engine | None:
        """Return the engine of the target or of the pod settings, or None if the cluster determines it.

        Raises:
            ConfigError: If they differ.
        """
        named = ENGINES.get(pod.engine)
        if self.engine and named and named is not self.engine:
            raise ConfigError(
                f"pod.engine: must be {AUTO} or {self.engine.engine} with target {self.name}. Given: {pod.engine}"
            )
        return self.engine or named

    @override
    def list_jobs(self, experiment: str | None = None) -> Sequence[JobStatus]:
        return [_status(each, ()) for engine in self.engines for each in status.read_all(self.api, engine)]

    @override
    def get_job(self, job: str) -> JobStatus:
        return _status(*status.read_one(self.api, *self._find(job)))

    @override
    def logs(self, job: str, *, follow: bool) -> Iterator[str]:
        engine, known = self._find(job)
        name = known["metadata"]["name"]
        cursors: dict[str, LogCursor] = {}
        while True:
            found = self.api.get(engine.resource, name)
            # Checked before the lines are read, so that no line of an ended job is missed.
            has_ended = found is None or engine.has_ended(found)
            if found is not None:
                yield from new_lines(self.api, engine, found, cursors)
            if not follow or has_ended:
                return
            time.sleep(following.INTERVAL)

    @override
    def follow(self, job: str, report: ReportLine, restarts: int | None = None) -> None:
        follow(self.api, *self._find(job), restarts)

    @override
    def delete(self, job: str) -> None:
        _, known = self._find(job)
        name = known["metadata"]["name"]
        everything = cleanup.find_all(self.api, self.engines)
        chosen = [found for found in cleanup.managed_jobs(everything) if found.name == name]
        cleanup.delete(self.api, cleanup.with_dependents(chosen, everything))

    @override
    def find(self, selection: Selection) -> Sequence[Deletable]:
        """Return training jobs or prediction Jobs with their dependents.

        Raises:
            ArtifactError: If no job has one of the names.
            ConfigError: If a kind is selected without a run.
        """
        if selection.run is not None:
            check_run(selection.run)
        elif selection.kind is not None:
            raise ConfigError(f"kind: must be given with --run. Given: {selection.kind}")
        everything = cleanup.find_all(self.api, self.engines)
        if selection.orphans:
            chosen = cleanup.find_orphans(everything, self.engines, self.api.now())
        else:
            chosen = _select(cleanup.managed_jobs(everything), selection, self.api.namespace)
        return [_deletable(each) for each in cleanup.with_dependents(chosen, everything)]

    @override
    def delete_found(self, found: Sequence[Deletable]) -> None:
        cleanup.delete(self.api, [cast(cleanup.OwnedObject, each.object) for each in found])

    @override
    def metrics(self, job: str) -> Mapping[str, float]:
        """Return the losses and accuracies of the last epoch, and the number of epochs.

        Raises:
            ArtifactError: If the job does not exist, or its history cannot be read locally.
        """
        from qcnn.model.checkpoints import last_metrics

        return last_metrics(self._output("training", job))

    @override
    def model(self, job: str) -> str:
        return self._output("model", job)

    def _output(self, output: str, job: str) -> str:
        engine, found = self._find(job)
        address = outputs(found).get(output)
        if not address:
            raise ArtifactError(f"{output}: the {engine.name} has no such output. Given: {job}")
        return address

    def _find(self, job: str) -> tuple[Engine, Manifest]:
        return find_job(self.api, self.engines, job)

    @override
    def is_job_id(self, text: str) -> bool:
        return can_be_name(text)

    @override
    def find_logs(
        self,
        ids: Sequence[str],
        experiment: str | None,
        names: Sequence[str],
        settings: BoardSettings,
        *,
        in_a_pod: bool,
    ) -> list[LogSource]:
        return logs_of_jobs(self.api, self.engines, ids, in_a_pod=in_a_pod) if ids else []


class KubernetesTarget(TrainingJobTarget, KubernetesServing):
    """The target for training jobs of the cluster's engine, and for model servers."""

    name: ClassVar[str] = "kubernetes"
    title: ClassVar[str] = "a cluster with the training operator or Kubeflow Trainer"
    job_kind: ClassVar[str] = "training job"


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


def new_lines(api: NamespaceClient, engine: Engine, job: Manifest, cursors: dict[str, LogCursor]) -> Iterator[str]:
    """Yield new log lines of a job's processes in chronological order, with process names.

    Args:
        api: Client for the namespace.
        engine: Engine of the job.
        job: The training job.
        cursors: Log positions by pod UID. Positions of new pods are added.
    """
    found = api.find(PODS, labelSelector=f"{engine.pod_label}={job['metadata']['name']}")
    started = [process for process in kubernetes_pods.processes_of_job(found, job, engine) if process.started]
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
