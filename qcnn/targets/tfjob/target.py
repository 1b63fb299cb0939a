"""The target tfjob: training as a TFJob, on a cluster with Kubeflow's training operator, without a pipeline."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from qcnn import data
from qcnn.components.training_job import check_data, cluster_job
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.job import Identity, check_run
from qcnn.jobs.kubernetes import pods as kubernetes_pods
from qcnn.jobs.kubernetes.api import PODS, Api
from qcnn.jobs.kubernetes.create_or_adopt import How
from qcnn.jobs.kubernetes.job_watcher import LogCursor
from qcnn.jobs.kubernetes.manifest import CONTAINER
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, Pod, secrets_in
from qcnn.jobs.references import check_namespace
from qcnn.jobs.tfjob import cleanup, status
from qcnn.jobs.tfjob.launch import applied, check_worker_account, submit
from qcnn.jobs.tfjob.manifest import JOB_NAME_LABEL, TFJOB, TFJOBS, Manifest, Policy, tfjob
from qcnn.model.history import last_metrics
from qcnn.monitoring import logs
from qcnn.targets import following
from qcnn.targets.base import JobStatus, PartStatus, Submitted, pods, setting
from qcnn.targets.tfjob.client import cluster, find_job

DAY = 86400
_TASK = "train"
_OUTCOMES = {How.CREATED: "created", How.ADOPTED: "adopted", How.SUCCEEDED: "succeeded"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """Which namespace of the cluster of KUBECONFIG."""

    namespace: str | None = setting("Namespace; without it that of the kubeconfig's context.", None)

    def __post_init__(self) -> None:
        if self.namespace is not None:
            check_namespace(self.namespace)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Connection):
    """How an experiment is trained there.

    Raises:
        ConfigError: one of these is malformed.
    """

    output: str = setting("Where checkpoints, logs and model go, as gs://BUCKET/FOLDER.")
    name: str = setting("Name of the run, which trains the same experiment only once.", "qcnn")
    image: str | None = setting("Image of the pods.", None)
    pod: Mapping[str, Any] = setting("Settings of the pods, as a file for --pod has them.", {})
    active_seconds: int | None = setting("End the training after that; without it never.", None)
    keep_seconds: int = setting("Time that TFJob and pods stay after their end, to be looked at.", DAY)

    @functools.cached_property
    def pods(self) -> Pod:
        """The settings of the training's pods."""
        return pods(self.image, self.pod, service_account=WORKER_ACCOUNT)

    def manifest(self, experiment: ExperimentConfig) -> Manifest:
        """Return the TFJob that trains an experiment."""
        times = self.active_seconds, self.keep_seconds
        return described(experiment, self.output, self.name, self.pods, *times)[1]


class TFJobTarget:
    """Training as a TFJob."""

    name: ClassVar[str] = "tfjob"
    # The client of Kubernetes is always there.
    extra: ClassVar[str] = ""
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[Settings]] = Settings

    def requests(self, experiment: ExperimentConfig, settings: Settings) -> Sequence[Mapping[str, Any]]:
        """Return TFJob and Service, in the order in which they are created.

        Raises:
            ConfigError: the experiment cannot run there, a setting is wrong, or the environment holds a secret.
        """
        check_no_secrets(settings.pods)
        return applied(settings.manifest(experiment), settings.namespace)

    def submit(self, experiment: ExperimentConfig, settings: Settings) -> Submitted:
        """Create the TFJob, or take up the one that runs or has succeeded.

        Raises:
            ConfigError: the experiment cannot run there, a setting is wrong, or the cluster refuses it.
        """
        manifest = settings.manifest(experiment)
        with cluster(settings.namespace) as api:
            check_worker_account(api, settings.pods)
            found, how = submit(api, manifest)
        return Submitted(found["metadata"]["name"], _OUTCOMES[how], status.outputs(found))  # type: ignore[arg-type]

    def list_jobs(self, connection: Connection) -> Sequence[JobStatus]:
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


def described(
    experiment: ExperimentConfig, output: str, name: str, pod: Pod, active_seconds: int | None, keep_seconds: int
) -> tuple[ExperimentConfig, Manifest]:
    """Return an experiment, with what its file of samples says of it, and the TFJob that trains it.

    Raises:
        ConfigError: the experiment cannot run there, or a setting is wrong.
    """
    check_data(experiment.data)
    (experiment,) = data.files_read([experiment])
    job, identity = cluster_job(experiment, output, pod), Identity(check_run(name), _TASK)
    policy = Policy(active_seconds=active_seconds, keep_seconds=keep_seconds, lease_seconds=None)
    return experiment, tfjob(job, identity, policy)


def check_no_secrets(pod: Pod) -> None:
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
        outputs=job.outputs,
        parts=[PartStatus(each.name, each.state, each.trouble or "") for each in processes],
    )


def new_lines(api: Api, job: Mapping[str, Any], cursors: dict[str, LogCursor]) -> Iterator[str]:
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
            for line in logs.passed_on(text, process.name)
        ]
        for process in started
    )
    for _, line in heapq.merge(*logs_of):
        yield line
