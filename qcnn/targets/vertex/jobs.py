"""Custom jobs and tuning jobs of this package on Vertex AI: found by their labels, read and ended."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
# What the client library calls each kind, what people do, and what says which processes it runs; by the part of a job's
# name that tells its kind.
_KINDS = {
    "customJobs": ("custom_job", "custom job", "job_spec"),
    "hyperparameterTuningJobs": ("hyperparameter_tuning_job", "tuning job", "trial_job_spec"),
}
# Seconds in which a job that is cancelled ends.
_PATIENCE = 120.0


def list_jobs(vertex: VertexClient, run: str | None = None) -> Sequence[CustomJob]:
    """Return all custom jobs of ours, or those of a run, oldest first.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
    """
    return _listed(vertex, "customJobs", run)


def with_searches(vertex: VertexClient, run: str | None = None) -> Sequence[TrainingJob]:
    """Return all jobs of ours, or those of a run: tuning jobs, and after them custom jobs, those of trials among them.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
    """
    return [*_listed(vertex, "hyperparameterTuningJobs", run), *_listed(vertex, "customJobs", run)]


def job_type_name(job: TrainingJob) -> str:
    """Return what people call a job of this kind."""
    return _kind(job)[1]


def _listed(vertex: VertexClient, kind: str, run: str | None) -> list[Any]:
    from qcnn.jobs.vertex.custom_job import RUN_LABEL

    filtered = f'labels.{RUN_LABEL}="{run_label(run)}"' if run else f"labels.{RUN_LABEL}:*"
    found = vertex.pages(f"JobService.list_{_KINDS[kind][0]}s", filter=filtered)
    return sorted(found, key=lambda job: (creation_time(job), job.name))


def _kind(job: TrainingJob) -> tuple[str, str, str]:
    return _KINDS[job.name.split("/")[-2]]


def get_job(vertex: VertexClient, identity: str) -> CustomJob:
    """Return the custom job of an id.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    job: CustomJob = vertex.ask("JobService.get_custom_job", name=f"{vertex.place.parent}/customJobs/{identity}")
    return job


def find_job(vertex: VertexClient, name: str) -> CustomJob:
    """Return the custom job of ours of this id, or the newest of this name, its own or that of its run.

    One that was lost is followed by another.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    found = [job for job in list_jobs(vertex) if name in (id_of(job), job.display_name, run_of(job))]
    if not found:
        where = f"{vertex.place.project} in {vertex.place.location}"
        raise NotFoundError(f"custom job: qcnn made none of this id or name in {where}. Given: {name}")
    return found[-1]


def is_orphan(job: TrainingJob, run: str | None) -> bool:
    """Whether nobody follows a job any more, by the state of its run, None for one that is gone.

    That is so where the run is gone, or has ended before the job. A job that was submitted alone has no run.
    """
    from qcnn.jobs.vertex.custom_job import TASK_LABEL

    if job.labels.get(TASK_LABEL) == ALONE:
        return False
    return run is None or (run in ENDED and state_of(job) not in ENDED)


def run_of(job: TrainingJob) -> str:
    """Return the full name of the run that a job belongs to, which a label does not hold; empty if it does not say."""
    from qcnn.jobs.vertex.custom_job import RUN_VARIABLE

    processes = getattr(job, _kind(job)[2])
    variables = [each for pool in processes.worker_pool_specs for each in pool.container_spec.env]
    return next((str(each.value) for each in variables if each.name == RUN_VARIABLE), "")


def found(jobs: Sequence[TrainingJob]) -> list[Deletable]:
    """Return jobs as they are shown before they are deleted."""
    return [
        Deletable(job_type_name(job), id_of(job), job.display_name, run_of(job), state_of(job).lower(), job)
        for job in jobs
    ]


def cancel(vertex: VertexClient, jobs: Sequence[TrainingJob]) -> list[str]:
    """Cancel those of the jobs that have not ended; return what they are called.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
    """
    alive = [job for job in jobs if state_of(job) not in ENDED]
    for job in alive:
        # It may have ended, or have been deleted, meanwhile.
        with contextlib.suppress(NotFoundError):
            vertex.ask(f"JobService.cancel_{_kind(job)[0]}", name=job.name)
    return [f"{job_type_name(job)} {job.display_name}" for job in alive]


def cancel_all(vertex: VertexClient, run: str) -> tuple[list[str], BackendError | None]:
    """Cancel all jobs of a run that have not ended, also where Vertex AI refuses that for some.

    Returns: what those that were cancelled are called, and the first refusal. After a request that was not answered no
    other one is made.
    """
    names: list[str] = []
    refusal: BackendError | None = None
    for kind in reversed(_KINDS):
        try:
            for job in _listed(vertex, kind, run):
                names += cancel(vertex, [job])
        except UnavailableError as error:
            return names, error
        except BackendError as error:
            refusal = refusal or error
    return names, refusal


def delete(vertex: VertexClient, jobs: Sequence[TrainingJob]) -> None:
    """Delete jobs; those that have not ended are cancelled first, and waited for.

    Raises:
        BackendError: Vertex AI refuses, or does not answer; or one does not end.
    """
    cancel(vertex, jobs)
    for job in jobs:
        with contextlib.suppress(NotFoundError):
            _wait(vertex, job)
            vertex.delete(f"JobService.delete_{_kind(job)[0]}", job.name)


def _wait(vertex: VertexClient, job: TrainingJob) -> None:
    end = time.monotonic() + _PATIENCE
    while state_of(vertex.ask(f"JobService.get_{_kind(job)[0]}", name=job.name)) not in ENDED:
        if time.monotonic() > end:
            raise UnavailableError(f"{job_type_name(job)}: it has not ended within {_PATIENCE:g} s. Given: {job.name}")
        time.sleep(INTERVAL)


# What jobs there are now, by their ids: when each was created, and what names a replica of it.
Jobs = Mapping[str, tuple[datetime.datetime, Callable[[str], str]]]
# Lines come some seconds after a job has ended: so often nothing new is found before the end is believed.
_QUIET = 3


class LogReader:
    """Reads the lines of jobs, of which more may appear."""

    def __init__(self, vertex: VertexClient) -> None:
        self._vertex = vertex
        self._cursors: dict[str, LogPosition] = {}

    def new(self, jobs: Jobs) -> list[str]:
        """Return the lines that were not returned before, in the order of time.

        Raises:
            BackendError: Cloud Logging refuses, or does not answer.
        """
        from qcnn.jobs.vertex.job_watcher import LogPosition, lines_filter, replica_of, text

        found: list[tuple[datetime.datetime, str]] = []
        for job, (created, name) in jobs.items():
            cursor = self._cursors.setdefault(job, LogPosition(created))
            for entry in cursor.new(self._vertex.entries(lines_filter(job, cursor.since))):
                who = name(replica_of(entry))
                found += [(entry.timestamp, f"[{who}] {line}") for line in text(entry).splitlines()]
        # Lines of one entry stay together.
        return [line for _, line in sorted(found, key=lambda item: item[0])]


def lines(reader: LogReader, look: Callable[[], tuple[Jobs, bool]], *, follow: bool) -> Iterator[str]:
    """Yield the lines of jobs, with `follow` until `look` tells that all have ended and nothing comes.

    Raises:
        BackendError: Vertex AI or Cloud Logging refuses, or does not answer.
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
    """Return what is needed to read the lines of a job."""
    from qcnn.jobs.vertex.attempts import process_name

    return {id_of(job): (creation_time(job), process_name)}
