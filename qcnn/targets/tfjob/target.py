"""The target tfjob: training as a TFJob, on a cluster with Kubeflow's training operator, without a pipeline."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qcnn.components.training_job import check_data, cluster_job
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.job import JobIdentity, check_run
from qcnn.jobs.kubernetes import pods as kubernetes_pods
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import CreateOutcome
from qcnn.jobs.kubernetes.job_watcher import LogCursor
from qcnn.jobs.kubernetes.manifest import CONTAINER
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, PodSettings, secrets_in
from qcnn.jobs.tfjob import cleanup, status
from qcnn.jobs.tfjob.launch import applied, check_worker_account, submit
from qcnn.jobs.tfjob.manifest import JOB_NAME_LABEL, TFJOB, TFJOBS, JobTimeouts, Manifest, tfjob
from qcnn.model.history import last_metrics
from qcnn.monitoring import logs
from qcnn.targets import following
from qcnn.targets.artifacts import LogSource
from qcnn.targets.base import Deletable, JobStatus, PartStatus, Prepared, Say, Selection, Submitted
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
    """How an experiment is trained there.

    Raises:
        ConfigError: one of these is malformed.
    """

    output: str = setting("Where checkpoints, logs and model go, as gs://BUCKET/FOLDER.", metavar="ADDRESS")
    name: str = setting("Name of the run, which trains the same experiment only once.", "qcnn")
    active_deadline_seconds: int | None = setting(
        "Time after which the training job is terminated.", None, shown="never", metavar="SECONDS", least=1
    )
    ttl_seconds_after_finished: int = setting(
        "Time for which the finished TFJob and its pods are retained.", DAY, metavar="SECONDS", least=0
    )

    @functools.cached_property
    def pods(self) -> PodSettings:
        """The settings of the training's pods."""
        return self.pod_with(service_account=WORKER_ACCOUNT)


class TFJobTarget:
    """Training as a TFJob."""

    name: ClassVar[str] = "tfjob"
    title: ClassVar[str] = "a cluster with Kubeflow's training operator"
    job_kind: ClassVar[str] = "TFJob"
    # The client of Kubernetes is always there.
    extra: ClassVar[str] = ""
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = (
        "An experiment that is submitted again is not trained twice: a TFJob that runs or has succeeded is found "
        "again, one that failed is replaced and goes on from its last checkpoint."
    )
    requests_are: ClassVar[Literal["json", "yaml"]] = "yaml"
    selections: ClassVar[Sequence[str]] = ("run", "kind", "orphans", "everything")
    kinds: ClassVar[Sequence[str]] = ("TFJob", "Job")
    has_experiments: ClassVar[bool] = False
    delete_notes: ClassVar[str] = "What they have written stays."
    logs_settings: ClassVar[type[BoardSettings]] = BoardSettings
    predict_settings: ClassVar[type[predictions.PredictSettings]] = predictions.PredictSettings
    predict_help: ClassVar[str] = predictions.HELP

    def place(self, connection: Connection) -> str:
        """Return the namespace in which its jobs are."""
        return place_of(connection.namespace)

    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        """Return the TFJob that trains an experiment.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        manifest = described(experiment, settings)

        def requests() -> Sequence[Mapping[str, Any]]:
            check_no_secrets(settings.pods)
            return applied(manifest, settings.namespace)

        def create() -> Submitted:
            with cluster(settings.namespace) as api:
                check_worker_account(api, settings.pods)
                found, how = submit(api, manifest)
            return Submitted(found["metadata"]["name"], _OUTCOMES[how], status.outputs(found))

        return Prepared(requests, create, settings.pods)

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the nodes of a cluster that its pods run on."""
        from qcnn.components.cost_estimate import on_kubernetes

        return on_kubernetes(pod, prices, machine_type)

    def list_jobs(self, connection: Connection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the TFJobs of this package in the namespace, the newest last."""
        with cluster(connection.namespace) as api:
            return [_status(each, ()) for each in status.read_all(api)]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a TFJob, by its own name or that of its run.

        Raises:
            ArtifactError: there is none of this name.
        """
        with cluster(connection.namespace) as api:
            return _status(*status.read_one(api, find_job(api, job)))

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield the lines of all processes in the order of time, each with its process' name.

        Raises:
            ArtifactError: there is no TFJob of this name.
        """
        with cluster(connection.namespace) as api:
            name = find_job(api, job)["metadata"]["name"]
            cursors: dict[str, LogCursor] = {}
            while True:
                found = api.get(TFJOBS, name)
                # Before the lines are read: none comes later.
                has_ended = found is None or status.has_ended(found)
                if found is not None:
                    yield from new_lines(api, found, cursors)
                if not follow or has_ended:
                    return
                time.sleep(following.INTERVAL)

    def follow(self, job: str, connection: Connection, say: Say, restarts: int | None = None) -> None:
        """Print what its processes print until it has ended; all else as `qcnn.targets.tfjob.client.follow`.

        Raises:
            ArtifactError: there is no TFJob of this name.
            StepError: it failed.
        """
        with cluster(connection.namespace) as api:
            follow(api, find_job(api, job), restarts)

    def wait(self, job: str, connection: Connection, say: Say) -> None:
        """Say how its state and those of its processes change until it has ended.

        Raises:
            ArtifactError: there is no TFJob of this name.
            StepError: it failed.
        """
        following.wait(lambda: self.get_job(job, connection), say, self.job_kind)

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a TFJob with all that belongs to it, and wait until it is gone.

        Raises:
            ArtifactError: there is none of this name.
        """
        with cluster(connection.namespace) as api:
            name = find_job(api, job)["metadata"]["name"]
            everything = cleanup.find_all(api)
            chosen = [found for found in cleanup.jobs(everything) if found.name == name]
            cleanup.delete(api, cleanup.with_dependents(chosen, everything))

    def find(self, selection: Selection, connection: Connection) -> Sequence[Deletable]:
        """Return TFJobs, or Jobs that predict, with all that belongs to them.

        Raises:
            ArtifactError: there is none of a name.
            ConfigError: a kind is asked for without a run.
        """
        if selection.run is not None:
            check_run(selection.run)
        elif selection.kind is not None:
            raise ConfigError(f"kind: needs --run. Given: {selection.kind}")
        with cluster(connection.namespace) as api:
            everything = cleanup.find_all(api)
            if selection.orphans:
                chosen = cleanup.orphans(everything, api.now())
            else:
                chosen = _chosen(cleanup.jobs(everything), selection, api.namespace)
            return [_found(each) for each in cleanup.with_dependents(chosen, everything)]

    def delete_found(self, found: Sequence[Deletable], connection: Connection) -> None:
        """Delete objects, and wait until they are gone."""
        with cluster(connection.namespace) as api:
            cleanup.delete(api, [each.object for each in found])

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the losses and accuracies of the last epoch, and the number of epochs.

        Raises:
            ArtifactError: there is no such TFJob, or it has written no history that can be read from here.
        """
        return last_metrics(self._output("training", job, connection))

    def model(self, job: str, connection: Connection) -> str:
        """Return the address of the model that a TFJob has exported.

        Raises:
            ArtifactError: there is no such TFJob, or it exports none.
        """
        return self._output("model", job, connection)

    def _output(self, output: str, job: str, connection: Connection) -> str:
        with cluster(connection.namespace) as api:
            address = status.outputs(find_job(api, job)).get(output)
        if not address:
            raise ArtifactError(f"{output}: the TFJob names no folder. Given: {job}")
        return address

    def is_job_id(self, text: str) -> bool:
        """Whether a text can be the name of a TFJob."""
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

        Raises:
            ArtifactError: there is none of a name, or its pods alone reach its logs.
        """
        return logs_of_jobs(ids, settings.namespace, in_a_pod=in_a_pod)

    def board_requests(self, name: str, logs: Sequence[str], settings: BoardSettings, *, public: bool) -> Sequence[Any]:
        """Return Deployment and Service of a TensorBoard."""
        return tensorboard_objects(name, logs, settings, public=public)

    def deploy_board(
        self, name: str, logs: Sequence[str], settings: BoardSettings, *, public: bool
    ) -> Mapping[str, str]:
        """Let a TensorBoard run in the namespace; return how it is reached."""
        return deploy_tensorboard(name, logs, settings, settings.namespace, public=public)

    def delete_board(self, name: str, settings: BoardSettings) -> str:
        """Delete a TensorBoard, and return the namespace that it was in."""
        return delete_tensorboard(name, settings.namespace)

    def predict(
        self, settings: predictions.PredictSettings, say: Say, warn: Say, progress: object
    ) -> Mapping[str, Any]:
        """Predict with what a TFJob trained, as a Job of the cluster."""
        return predictions.predict(settings, warn)

    def predict_requests(self, settings: predictions.PredictSettings) -> Sequence[Mapping[str, Any]]:
        """Return the Job that predicts."""
        return predictions.requests(settings)


def described(experiment: ExperimentConfig, settings: Settings) -> Manifest:
    """Return the TFJob that trains an experiment, with what its file of samples says of it.

    Raises:
        ConfigError: the experiment cannot run there, or a setting is wrong.
    """
    # NumPy is needed for nothing else here.
    from qcnn import data

    check_data(experiment.data)
    (experiment,) = data.resolve_files([experiment])
    job = cluster_job(experiment, settings.output, settings.pods)
    policy = JobTimeouts(
        active_deadline_seconds=settings.active_deadline_seconds,
        ttl_seconds_after_finished=settings.ttl_seconds_after_finished,
        lease_seconds=None,
    )
    return tfjob(job, JobIdentity(check_run(settings.name), _TASK), policy)


def check_no_secrets(pod: PodSettings) -> None:
    """Refuse to print what would stand in a repository, for everybody to read.

    Raises:
        ConfigError: a variable looks like a secret.
    """
    if found := secrets_in(pod.environment):
        raise ConfigError(
            f"pod.environment: {found[0]} looks like a secret, which --dry-run does not print; keep it in a Secret, "
            f"and name that in the pod's settings: secrets: {{{found[0]}: SECRET/KEY}}. Given: {found[0]}"
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


def _chosen(own: Sequence[cleanup.OwnedObject], selection: Selection, namespace: str) -> list[cleanup.OwnedObject]:
    """Return the objects with these names, those of a run and of a kind, or all."""
    names, run = selection.names, selection.run
    if missing := sorted(set(names) - {found.name for found in own}):
        is_run = any(found.run == missing[0] for found in own)
        hint = f"; all that belongs to the run of this name: --run {missing[0]}" if is_run else ""
        raise ArtifactError(f"job: qcnn made none of this name in namespace {namespace}{hint}. Given: {missing[0]}")
    if run is not None:
        return [found for found in cleanup.belonging_to(run, own) if selection.kind in (None, found.kind)]
    return [found for found in own if not names or found.name in names]


def _found(found: cleanup.OwnedObject) -> Deletable:
    state = status.state(found.object).lower() if found.kind == "TFJob" else ""
    return Deletable(found.kind, found.name, found.name, found.run or "", state, found)


def new_lines(api: NamespaceClient, job: Mapping[str, Any], cursors: dict[str, LogCursor]) -> Iterator[str]:
    """Yield the lines of a job's processes that were not yielded before, by time, each with its process' name.

    `cursors` are those of its pods, by their uids; new ones are added.
    """
    found = api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={job['metadata']['name']}")
    started = [process for process in kubernetes_pods.of_job(found, dict(job), TFJOB) if process.started]
    logs_of = (
        [
            (moment, line)
            for moment, text in cursors.setdefault(process.uid, LogCursor(process.pod, CONTAINER)).new(
                api, follow=False
            )
            for line in logs.reformat_line(text, process.name)
        ]
        for process in started
    )
    for _, line in heapq.merge(*logs_of):
        yield line
