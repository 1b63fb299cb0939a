"""Interface of the engines that run training jobs on Kubernetes."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.api import NamespaceClient, Resource
from qcnn.jobs.kubernetes.manifest import JobKind, Manifest
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts


class Engine(JobKind, abc.ABC):
    """Type of object that runs a training job, and the parts in which it differs from the others.

    Attributes:
        engine: Value of the pod setting `engine`.
        states: All states of its jobs, for metrics.
        has_runtimes: Whether its jobs can have a runtime that the platform has prepared (pod setting `runtime`).
    """

    engine: ClassVar[str]
    states: ClassVar[Sequence[str]]
    has_runtimes: ClassVar[bool] = False

    @abc.abstractmethod
    def manifest(
        self, job: JobSpec, identity: JobIdentity, timeouts: JobTimeouts, owner: Mapping[str, str] | None = None
    ) -> Manifest:
        """Return the object of a training job.

        A queued job is not suspended in this manifest. Kueue suspends it at creation, and a manifest that is applied
        again would suspend an active job.

        Args:
            job: Training job.
            identity: Run, task and iteration of the job.
            timeouts: Timeouts of the job.
            owner: Owner reference (apiVersion, kind, name, uid) of the object with which the job is deleted.

        Raises:
            ConfigError: If the engine cannot run the job.
        """

    def prerequisites(
        self, job: JobSpec, identity: JobIdentity, timeouts: JobTimeouts, manifest: Manifest
    ) -> Sequence[tuple[Resource, Manifest]]:
        """Return the objects to create before the job, which the job then owns.

        Args:
            job: Training job.
            identity: Run, task and iteration of the job.
            timeouts: Timeouts of the job.
            manifest: Object of the job.
        """
        return ()

    def training(
        self, job: JobSpec, identity: JobIdentity, timeouts: JobTimeouts, owner: Mapping[str, str] | None = None
    ) -> "TrainingJob":
        """Return a training job of this engine. For the arguments, see `manifest`.

        Raises:
            ConfigError: If the engine cannot run the job.
        """
        manifest = self.manifest(job, identity, timeouts, owner)
        return TrainingJob(self, job, timeouts, manifest, self.prerequisites(job, identity, timeouts, manifest))

    @abc.abstractmethod
    def services(self, job: Manifest) -> Sequence[Manifest]:
        """Return the Services of a job, which it owns if it was returned by the API."""

    @abc.abstractmethod
    def state(self, job: Manifest) -> str:
        """Return the state of a job as returned by the API."""

    @abc.abstractmethod
    def replicas(self, job: Manifest) -> list[tuple[str, int]]:
        """Return role and index of each process of a job."""

    @abc.abstractmethod
    def leading_template(self, api: NamespaceClient, job: Manifest) -> Manifest:
        """Return the pod template of the process that writes the model: the chief, or a worker without one.

        Raises:
            ConfigError: If it no longer exists.
        """

    @abc.abstractmethod
    def pod_name(self, job: Manifest, role: str, index: int) -> str:
        """Return the name of the pod of a process, or its beginning if the rest is random."""

    def began(self, job: Manifest) -> str | None:
        """Return when a job began (RFC 3339), or None if it has not."""
        began: str | None = job.get("status", {}).get("startTime")
        return began

    def has_ended(self, job: Manifest) -> bool:
        """Return whether a job has succeeded or failed."""
        return self.state(job) in ("Failed", "Succeeded")


@dataclasses.dataclass(frozen=True)
class TrainingJob:
    """Training job of an engine, before it is created.

    `manifest` is its object, and `prerequisites` are the objects to create before it.
    """

    engine: Engine
    spec: JobSpec
    timeouts: JobTimeouts
    manifest: Manifest
    prerequisites: Sequence[tuple[Resource, Manifest]]

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.manifest["metadata"]["name"])
