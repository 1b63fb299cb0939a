"""The Vertex AI server and its controls for tests."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service.buckets import Buckets
from tests.vertex.fake_service.connection.faults import Faults
from tests.vertex.fake_service.connection.identity import TokenServer, write_identity
from tests.vertex.fake_service.connection.transport import Transport
from tests.vertex.fake_service.custom_jobs import CustomJobs
from tests.vertex.fake_service.job_run import FAILED, JobContext
from tests.vertex.fake_service.logs import Logs
from tests.vertex.fake_service.metadata.service import MetadataService
from tests.vertex.fake_service.metadata.store import Metadata
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.pipelines.jobs import PipelineJobs
from tests.vertex.fake_service.pipelines.run import RUN_LABEL, Services
from tests.vertex.fake_service.pipelines.schedules import Schedules
from tests.vertex.fake_service.projects import Projects
from tests.vertex.fake_service.serving.batch_jobs import BatchJobs
from tests.vertex.fake_service.serving.endpoints import Endpoints
from tests.vertex.fake_service.serving.models import Models
from tests.vertex.fake_service.state import State
from tests.vertex.fake_service.tuning_jobs import TuningJobs

T = TypeVar("T")


class Vertex:
    """Project with a bucket at a location of Vertex AI. `environment` has the variables that client processes need."""

    project, location, bucket = "qcnn-tests", "us-central1", "qcnn-tests-bucket"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults = Faults()
        self.state = State(self.project, self.location)
        self.logs = Logs(self.project)
        self.operations = Operations(self.state)
        self._has_capacity = True
        self._without_machines = 0
        self._buckets = Buckets(folder / "buckets")
        self._buckets.create(self.bucket, self.project, self.location)
        self._tokens = TokenServer()
        identity = write_identity(folder, self.project, self._tokens.url)
        self.certificate = identity.certificate
        # Job processes receive the endpoint, too. It is added below when the port is known.
        self.environment: dict[str, str] = {}
        context = JobContext(self.state, self.logs, self.environment, lambda: self._has_capacity, self._has_machines)
        self.jobs = CustomJobs(context, self.operations)
        self.tuning = TuningJobs(self.state, self.jobs, self.operations, folder / "hypertune")
        self.metadata = Metadata(self.state)
        services = Services(self.state, self.jobs, self.metadata, folder / "gcs", lambda: self._buckets.host)
        self.pipelines = PipelineJobs(services, self.operations)
        self.schedules = Schedules(self.state, self.pipelines, self.operations)
        models = Models(self.state, self.operations, lambda: self._buckets.host)
        served = folder / "serving"
        self.endpoints = Endpoints(self.state, models, self.operations, served, lambda: self._buckets.host)
        self.batch_jobs = BatchJobs(self.state, models, self.endpoints, self.operations, served)
        services_of_clients = (
            models,
            self.endpoints,
            self.batch_jobs,
            self.jobs,
            self.tuning,
            self.pipelines,
            self.schedules,
            MetadataService(self.state, self.metadata, self.operations),
            self.operations,
            self.logs,
            Projects(self.project),
        )
        handlers = {name: handler for each in services_of_clients for name, handler in each.handlers().items()}
        self._transport = Transport(handlers, self.faults, identity.key, identity.certificate)
        self.endpoint = self._transport.endpoint
        self.environment |= {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": self.endpoint,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": self.endpoint,
            "GOOGLE_APPLICATION_CREDENTIALS": str(identity.account_file),
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(identity.certificate_file),
            "STORAGE_EMULATOR_HOST": self._buckets.host,
            # The proxy redirects requests of the SDK to hosts that it does not let users configure.
            "grpc_proxy": f"http://{self.endpoint}",
            "no_grpc_proxy": "localhost,127.0.0.1",
            # Clients must not probe for a Compute Engine metadata server.
            "NO_GCE_CHECK": "true",
        }

    @property
    def parent(self) -> str:
        """Return the resource name of the location with the project ID."""
        return f"projects/{self.project}/locations/{self.location}"

    def process_environment(self) -> dict[str, str]:
        """Return the environment of the current process with the variables of `environment`."""
        return {**os.environ, **self.environment}

    def fail(
        self, method: str, status: int, *, times: int = 1, after: int = 0, answered: bool = True, message: str = ""
    ) -> None:
        """Make the next calls of a method fail. See `Faults.fail` for the arguments."""
        self.faults.fail(method, status, times=times, after=after, answered=answered, message=message)

    def cut_connections(self) -> None:
        """Abort all connections of clients."""
        self._transport.cut_connections()

    def hold_jobs(self) -> None:
        """Keep jobs that are created from now on in state QUEUED."""
        self._has_capacity = False

    def release_jobs(self) -> None:
        """Start queued jobs, and jobs that are created from now on."""
        with self.state.changed:
            self._has_capacity = True
            self.state.changed.notify_all()

    def run_out_of_machines(self, times: int) -> None:
        """Make the given number of next jobs fail because the region has no machines."""
        self._without_machines = times

    def _has_machines(self) -> bool:
        with self.state.changed:
            self._without_machines -= 1
            return self._without_machines < 0

    def preempt(self, job: str, replica: str) -> None:
        """Preempt the VM of a job's replica such as workerpool1-0."""
        self.jobs.preempt(job, replica)

    def tick(self, schedule: str) -> str:
        """Trigger a schedule and return the name of the created pipeline job, or an empty text if none was created."""
        return self.schedules.tick(schedule)

    def custom_jobs(self) -> list[v1.CustomJob]:
        """Return all custom jobs except those of pipeline steps, the oldest first."""
        return [job for job in self.state.all(v1.CustomJob) if RUN_LABEL not in job.labels]

    def until_state(self, job: str, *states: v1.JobState) -> v1.CustomJob:
        """Wait until a custom job is in one of the states, and return it."""
        return self._until(v1.CustomJob, job, states)

    def until_tuning(self, job: str, *states: v1.JobState) -> v1.HyperparameterTuningJob:
        """Wait until a tuning job is in one of the states, and return it."""
        return self._until(v1.HyperparameterTuningJob, job, states)

    def until_batch(self, job: str, *states: v1.JobState) -> v1.BatchPredictionJob:
        """Wait until a batch prediction job is in one of the states, and return it."""
        return self._until(v1.BatchPredictionJob, job, states)

    def until_pipeline(self, job: str, *states: v1.PipelineState) -> v1.PipelineJob:
        """Wait until a pipeline job is in one of the states, and return it."""
        return self._until(v1.PipelineJob, job, states)

    def _until(self, kind: type[T], name: str, states: Sequence[Any]) -> T:
        def in_state() -> T | None:
            found: Any = self.state.copy(kind, name)
            return found if found.state in states else None

        return self.state.until(in_state)

    def until_line(self, job: str, replica: str, text: str, *, times: int = 1) -> None:
        """Wait until a replica of a job has written a number of lines that contain a text.

        Args:
            job: Name of the custom job.
            replica: Name of the replica, such as workerpool1-0.
            text: Text to search for.
            times: Number of lines.
        """
        job_id = job.rpartition("/")[2]
        self.logs.until(lambda: sum(text in line for line in self.logs.lines(job_id, replica)) >= times)

    def failures(self) -> list[str]:
        """Return the error of each failed job, and the last lines of its replicas."""
        failed = [job for job in self.state.all(v1.CustomJob) if job.state == FAILED]
        return [line for job in failed for line in (job.error.message, *self.logs.tail(job.name.rpartition("/")[2]))]

    def until_written(self, name: str) -> None:
        """Wait until the bucket has a file whose name starts with `name`."""
        self._buckets.until_written(self.bucket, name)

    def close(self) -> None:
        """Stop all jobs and servers."""
        self.release_jobs()
        self.pipelines.close()
        self.jobs.close()
        self.tuning.close()
        self.batch_jobs.close()
        self.endpoints.close()
        self._transport.close()
        self._tokens.close()
        self._buckets.close()
