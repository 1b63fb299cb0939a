"""Custom jobs and tuning jobs of qcnn on Vertex AI: lookup, logs, cancellation and deletion."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from qcnn.jobs.job import run_label
from qcnn.jobs.vertex.location import ENDED, creation_time, state_of
from qcnn.targets.base import Deletable
from qcnn.targets.errors import BackendError, UnavailableError
from qcnn.targets.following import INTERVAL
from qcnn.targets.vertex.client import NotFoundError, VertexClient, id_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, HyperparameterTuningJob

    from qcnn.jobs.vertex.job_watcher import LogPosition

    TrainingJob = CustomJob | HyperparameterTuningJob


# The task of a job that is submitted without a pipeline.
ALONE = "job"
# By the collection in a resource name: name of the type in the client library, name in messages, and field with the
# processes.
_KINDS = {
    "customJobs": ("custom_job", "custom job", "job_spec"),
    "hyperparameterTuningJobs": ("hyperparameter_tuning_job", "tuning job", "trial_job_spec"),
}
# Timeout for a canceled job to stop, in seconds.
_PATIENCE = 120.0


def list_jobs(vertex: VertexClient, run: str | None = None) -> Sequence[CustomJob]:
    """Return all custom jobs of qcnn, or those of a run, oldest first.

    Raises:
        BackendError: If Vertex AI rejects the request or is unavailable.
    """
    return _list(vertex, "customJobs", run)


def with_searches(vertex: VertexClient, run: str | None = None) -> Sequence[TrainingJob]:
    """Return all jobs of qcnn, or those of a run: tuning jobs, then custom jobs including trials.

    Raises:
        BackendError: If Vertex AI rejects the request or is unavailable.
    """
    return [*_list(vertex, "hyperparameterTuningJobs", run), *_list(vertex, "customJobs", run)]


def job_type_name(job: TrainingJob) -> str:
    """Return the type of a job, for messages."""
    return _kind(job)[1]


def _list(vertex: VertexClient, kind: str, run: str | None) -> list[Any]:
    from qcnn.jobs.vertex.custom_job import RUN_LABEL

    filtered = f'labels.{RUN_LABEL}="{run_label(run)}"' if run else f"labels.{RUN_LABEL}:*"
    found = vertex.pages(f"JobService.list_{_KINDS[kind][0]}s", filter=filtered)
    return sorted(found, key=lambda job: (creation_time(job), job.name))


def _kind(job: TrainingJob) -> tuple[str, str, str]:
    return _KINDS[job.name.split("/")[-2]]


def get_job(vertex: VertexClient, identity: str) -> CustomJob:
    """Return the custom job with this ID.

    Raises:
        BackendError: If the job does not exist, or Vertex AI rejects the request or is unavailable.
    """
    job: CustomJob = vertex.call("JobService.get_custom_job", name=f"{vertex.place.parent}/customJobs/{identity}")
    return job


def find_job(vertex: VertexClient, name: str) -> CustomJob:
    """Return the custom job with this ID, or the newest with this job name or run name.

    A failed job can be replaced by a new one of the same name.

    Raises:
        BackendError: If the job does not exist, or Vertex AI rejects the request or is unavailable.
    """
    found = [job for job in list_jobs(vertex) if name in (id_of(job), job.display_name, run_of(job))]
    if not found:
        raise NotFoundError(f"custom job: qcnn created none of this ID or name in {vertex.place.title}. Given: {name}")
    return found[-1]


def is_orphan(job: TrainingJob, run: str | None) -> bool:
    """Return whether no client follows a job, by the state of its run, None if the run no longer exists.

    This is the case if the run no longer exists, or has ended before the job. A job without a pipeline has no run.
    """
    from qcnn.jobs.vertex.custom_job import TASK_LABEL

    if job.labels.get(TASK_LABEL) == ALONE:
        return False
    return run is None or (run in ENDED and state_of(job) not in ENDED)


def run_of(job: TrainingJob) -> str:
    """Return the full run name of a job, or empty if it is unknown. Labels hold only a part of it."""
    from qcnn.jobs.vertex.custom_job import RUN_VARIABLE

    processes = getattr(job, _kind(job)[2])
    variables = [each for pool in processes.worker_pool_specs for each in pool.container_spec.env]
    return next((str(each.value) for each in variables if each.name == RUN_VARIABLE), "")


def as_deletables(jobs: Sequence[TrainingJob]) -> list[Deletable]:
    """Return jobs with the fields that are displayed before deletion."""
    return [
        Deletable(job_type_name(job), id_of(job), job.display_name, run_of(job), state_of(job).lower(), job)
        for job in jobs
    ]


def of_deletables(found: Sequence[Deletable]) -> list[TrainingJob]:
    """Return the jobs among objects to delete, without runs."""
    return [cast("TrainingJob", each.object) for each in found if each.kind != "run"]


def cancel(vertex: VertexClient, jobs: Sequence[TrainingJob]) -> list[str]:
    """Cancel the active jobs among `jobs`, and return their types and names.

    Raises:
        BackendError: If Vertex AI rejects the request or is unavailable.
    """
    alive = [job for job in jobs if state_of(job) not in ENDED]
    for job in alive:
        # The job may have been deleted after it was listed.
        with contextlib.suppress(NotFoundError):
            vertex.call(f"JobService.cancel_{_kind(job)[0]}", name=job.name)
    return [f"{job_type_name(job)} {job.display_name}" for job in alive]


def cancel_all(vertex: VertexClient, run: str) -> tuple[list[str], BackendError | None]:
    """Cancel all active jobs of a run, and continue if Vertex AI rejects a request.

    If Vertex AI is unavailable, no further request is sent.

    Returns:
        Types and names of the canceled jobs, and the first error.
    """
    names: list[str] = []
    rejection: BackendError | None = None
    for kind in reversed(_KINDS):
        try:
            for job in _list(vertex, kind, run):
                names += cancel(vertex, [job])
        except UnavailableError as error:
            return names, error
        except BackendError as error:
            rejection = rejection or error
    return names, rejection


def delete(vertex: VertexClient, jobs: Sequence[TrainingJob]) -> None:
    """Delete jobs. Active jobs are canceled first.

    Raises:
        BackendError: If Vertex AI rejects a request or is unavailable, or a job does not stop in time.
    """
    cancel(vertex, jobs)
    for job in jobs:
        with contextlib.suppress(NotFoundError):
            _wait(vertex, job)
            vertex.delete(f"JobService.delete_{_kind(job)[0]}", job.name)


def _wait(vertex: VertexClient, job: TrainingJob) -> None:
    end = time.monotonic() + _PATIENCE
    while state_of(vertex.call(f"JobService.get_{_kind(job)[0]}", name=job.name)) not in ENDED:
        if time.monotonic() > end:
            raise UnavailableError(f"{job_type_name(job)}: it has not ended within {_PATIENCE:g} s. Given: {job.name}")
        time.sleep(INTERVAL)


# Current jobs by ID: the creation time, and a function that returns the display name of a replica.
Jobs = Mapping[str, tuple[datetime.datetime, Callable[[str], str]]]
# Lines arrive some seconds after a job has ended. The logs are complete after this number of requests without lines.
_QUIET = 3


class LogReader:
    """Reader of the log lines of jobs. The set of jobs may grow."""

    def __init__(self, vertex: VertexClient) -> None:
        self._vertex = vertex
        self._cursors: dict[str, LogPosition] = {}

    def new(self, jobs: Jobs) -> list[str]:
        """Return the lines that were not returned before, in chronological order.

        Raises:
            BackendError: If Cloud Logging rejects the request or is unavailable.
        """
        from qcnn.jobs.vertex.job_watcher import LogPosition, lines_filter, replica_of, text

        found: list[tuple[datetime.datetime, str]] = []
        for job, (created, name) in jobs.items():
            cursor = self._cursors.setdefault(job, LogPosition(created))
            for entry in cursor.new(self._vertex.entries(lines_filter(job, cursor.since))):
                process = name(replica_of(entry))
                found += [(entry.timestamp, f"[{process}] {line}") for line in text(entry).splitlines()]
        # Sorting by time only is stable, so lines of one entry stay together.
        return [line for _, line in sorted(found, key=lambda item: item[0])]


def lines(reader: LogReader, look: Callable[[], tuple[Jobs, bool]], *, follow: bool) -> Iterator[str]:
    """Yield the log lines of jobs.

    Args:
        reader: Log reader.
        look: Function that returns the current jobs, and whether all have ended.
        follow: Whether to continue until all jobs have ended and no new lines appear.

    Raises:
        BackendError: If Vertex AI or Cloud Logging rejects a request or is unavailable.
    """
    quiet = 0
    while True:
        jobs, ended = look()
        found = reader.new(jobs)
        yield from found
        quiet = quiet + 1 if ended and not found else 0
        if not follow or quiet == _QUIET:
            return
        time.sleep(INTERVAL)


def lines_of(job: CustomJob) -> Jobs:
    """Return the arguments of a log reader for one job."""
    from qcnn.jobs.vertex.attempts import process_name

    return {id_of(job): (creation_time(job), process_name)}
