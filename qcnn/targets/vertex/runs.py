"""Vertex AI pipeline runs of qcnn: lookup, status, termination and artifacts."""

from __future__ import annotations

import datetime
import functools
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from qcnn.errors import service_message
from qcnn.jobs.vertex.location import creation_time
from qcnn.targets import following
from qcnn.targets.artifacts import Artifact
from qcnn.targets.base import PartStatus
from qcnn.targets.compiled_pipeline import step_names
from qcnn.targets.errors import BackendError, UnavailableError
from qcnn.targets.following import INTERVAL, UNFINISHED, RunSnapshot, number_repeated
from qcnn.targets.lookup import only_run
from qcnn.targets.vertex import jobs
from qcnn.targets.vertex.client import AlreadyExistsError, NotFoundError, VertexClient, id_of, seconds_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest, PipelineJob, PipelineTaskDetail


# Label of all runs of qcnn, with the experiment as its value.
EXPERIMENT_LABEL = "qcnn_experiment"
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
_ID = re.compile(r"[a-z][-a-z0-9]{0,127}")


def create(vertex: VertexClient, request: CreatePipelineJobRequest) -> PipelineJob:
    """Create a run and return it. A retry after a lost response does not create a second run.

    Raises:
        BackendError: If Vertex AI rejects the request or is unavailable.
    """
    try:
        run: PipelineJob = vertex.call("PipelineService.create_pipeline_job", request)
    except AlreadyExistsError:
        # The ID is unique, so an earlier attempt of this request succeeded.
        run = get_run(vertex, request.pipeline_job_id)
    return run


def find_run(vertex: VertexClient, name: str) -> PipelineJob:
    """Return the run with this ID or name.

    Raises:
        BackendError: If the run does not exist, its name is ambiguous, or Vertex AI rejects the request or is
            unavailable.
    """
    if is_id(name):
        try:
            return get_run(vertex, name)
        except NotFoundError:
            pass
    found = [run for run in list_runs(vertex) if run.display_name == name]
    # Lists omit task details.
    return get_run(vertex, id_of(only_run(found, id_of, vertex.place.title, name)))


def get_run(vertex: VertexClient, identity: str) -> PipelineJob:
    """Return the run with this ID.

    Raises:
        BackendError: If the run does not exist, or Vertex AI rejects the request or is unavailable.
    """
    name = f"{vertex.place.parent}/pipelineJobs/{identity}"
    run: PipelineJob = vertex.call("PipelineService.get_pipeline_job", name=name)
    return run


def list_runs(vertex: VertexClient, experiment: str | None = None) -> Sequence[PipelineJob]:
    """Return all runs of qcnn, or those of an experiment, newest last.

    Raises:
        BackendError: If Vertex AI rejects the request or is unavailable.
    """
    wanted = f'="{experiment}"' if experiment else ":*"
    found = vertex.pages("PipelineService.list_pipeline_jobs", filter=f"labels.{EXPERIMENT_LABEL}{wanted}")
    return sorted(found, key=creation_time)


def is_id(text: str) -> bool:
    """Return whether a text is a valid run ID."""
    return _ID.fullmatch(text) is not None


def state_of(run: PipelineJob) -> str:
    """Return the state of a run without the common prefix of all states."""
    return str(run.state.name).removeprefix("PIPELINE_STATE_")


def step_parts(run: PipelineJob) -> list[PartStatus]:
    """Return the status of the steps of a run, in order of their start."""
    return [
        PartStatus(
            name,
            task.state.name.lower(),
            service_message(task.error.message),
            task.executor_detail.container_detail.main_job,
            duration=seconds_of(task),
        )
        for name, task in tasks_of(run, steps_in(run)).items()
    ]


def tasks_of(run: PipelineJob, steps: frozenset[str]) -> dict[str, PipelineTaskDetail]:
    """Return the tasks that are steps, by step name, in order of their start."""
    tasks = [task for task in run.job_detail.task_details if task.task_name in steps and task.state.value]
    tasks.sort(key=lambda task: (task.start_time is None, task.start_time or 0, task.task_id))
    return number_repeated((task.task_name, task) for task in tasks)


def steps_in(run: PipelineJob) -> frozenset[str]:
    """Return the names of all steps of a run's pipeline."""
    from google.protobuf import json_format

    return step_names(json_format.MessageToDict(type(run).pb(run).pipeline_spec))


_SCHEMA = {"schema_title": "system.Experiment", "schema_version": "0.0.1", "metadata": {"experiment_deleted": False}}
# Vertex AI creates the context of a run some seconds after the run.
_PATIENCE = 60.0


def add_to_experiment(vertex: VertexClient, experiment: str, run: str) -> str:
    """Add a run to an experiment, which is created if missing.

    Args:
        vertex: Vertex AI client.
        experiment: Name of the experiment.
        run: ID of the run.

    Returns:
        One line with the reason if this failed, else an empty text.
    """
    store = f"{vertex.place.parent}/metadataStores/default"
    try:
        _ensure(vertex, store, experiment)
        context = _context(vertex, run)
        parent = f"{store}/contexts/{experiment}"
        vertex.call("MetadataService.add_context_children", context=parent, child_contexts=[context])
    except BackendError as error:
        return str(error)
    return ""


def _ensure(vertex: VertexClient, store: str, experiment: str) -> None:
    try:
        vertex.call("MetadataService.get_metadata_store", name=store)
    except NotFoundError:
        vertex.finish(
            "MetadataService.create_metadata_store",
            parent=vertex.place.parent,
            metadata_store_id="default",
            metadata_store={},
        )
    try:
        context = {"display_name": experiment, **_SCHEMA}
        vertex.call("MetadataService.create_context", parent=store, context=context, context_id=experiment)
    except AlreadyExistsError:
        return


def _context(vertex: VertexClient, run: str) -> str:
    """Return the name of a run's context, and wait until it exists."""
    end = time.monotonic() + _PATIENCE
    while True:
        found = get_run(vertex, run)
        if name := found.job_detail.pipeline_run_context.name:
            return str(name)
        if state_of(found) in ENDED or time.monotonic() > end:
            raise UnavailableError(f"run: Vertex AI created no context for it in the metadata store. Given: {run}")
        time.sleep(INTERVAL)


def follow(
    vertex: VertexClient, identity: str, report: Callable[[str], None], timeout: float | None = None
) -> PipelineJob:
    """Wait until a run has ended, and return its last state.

    Args:
        vertex: Vertex AI client.
        identity: ID of the run.
        report: Callback for state changes of the run and its steps.
        timeout: Timeout in seconds, after which the current state is returned. None: no limit.

    Raises:
        BackendError: If Vertex AI rejects a request, or is unavailable for ten minutes.
    """

    def look() -> RunSnapshot[PipelineJob]:
        run = get_run(vertex, identity)
        parts = step_parts(run)
        is_late = any(part.state in UNFINISHED for part in parts)
        return RunSnapshot(run, state_of(run), state_of(run) in ENDED, parts, is_late)

    return following.wait_for_run(look, report, timeout).run


def check_succeeded(run: PipelineJob) -> None:
    """Raise StepError if a finished run has not succeeded.

    Raises:
        StepError: If the run failed or was canceled. The message names the failed steps and the first reason.
    """
    if state_of(run) == "SUCCEEDED":
        return
    raise following.run_error(id_of(run), state_of(run), step_parts(run), service_message(run.error.message))


PATIENCE = 120.0


def terminate_run(
    vertex: VertexClient, run: PipelineJob, report: Callable[[str], None], seconds: float = PATIENCE
) -> str:
    """Cancel a run and its training jobs, and wait for the run to stop.

    Training is the largest cost, so the jobs are canceled before the wait. They are canceled again after it, because a
    step that was still active may have created one. If canceling a job fails, the run is terminated nevertheless.

    Args:
        vertex: Vertex AI client.
        run: The run.
        report: Callback for status lines.
        seconds: Timeout for the run to stop.

    Returns:
        One line with what is still active and the reason, else an empty text.

    Raises:
        BackendError: If Vertex AI rejects requests for the run, or is unavailable.
    """
    identity = id_of(run)
    if state_of(run) in ENDED:
        report(f"run {identity} has already ended: {state_of(run).lower()}")
        return _cancel_jobs(vertex, identity, report)
    vertex.call("PipelineService.cancel_pipeline_job", name=run.name)
    report(f"run {identity}: cancellation requested")
    _cancel_jobs(vertex, identity, report)
    ended = follow(vertex, identity, report, seconds)
    left = _cancel_jobs(vertex, identity, report)
    if state_of(ended) in ENDED:
        report(f"run {identity} is terminated")
        return left
    state = state_of(ended).lower()
    return f"run: it has not ended within {seconds:g} s; Vertex AI shows it as {state}. Given: {identity}"


def _cancel_jobs(vertex: VertexClient, run: str, report: Callable[[str], None]) -> str:
    """Cancel the jobs of a run. Returns one line with the reason if this failed, else an empty text."""
    names, error = jobs.cancel_all(vertex, run)
    if names:
        report(f"{', '.join(names)} cancelled")
    if not error:
        return ""
    reason = str(error).partition(". Given: ")[0]
    return f"run: its training jobs may still be active, as canceling them failed ({reason}). Given: {run}"


def artifacts_of(run: PipelineJob) -> list[Artifact]:
    """Return the artifacts that a run has created so far, without duplicates, with their output names."""
    from google.protobuf import json_format

    found = {
        artifact.name or artifact.uri: Artifact(
            artifact.schema_title,
            artifact.uri,
            {**json_format.MessageToDict(type(artifact).pb(artifact).metadata), "display_name": output},
        )
        for task in run.job_detail.task_details
        for output, each in task.outputs.items()
        for artifact in each.artifacts
    }
    return list(found.values())


def jobs_of(vertex: VertexClient, run: PipelineJob) -> jobs.Jobs:
    """Return the jobs of the steps of a run, with all their attempts, and its training jobs."""
    from qcnn.jobs.vertex.attempts import process_name

    found: dict[str, tuple[datetime.datetime, Callable[[str], str]]] = {}
    for step, task in tasks_of(run, steps_in(run)).items():
        of_task = task.executor_detail.container_detail
        for job in (*of_task.failed_main_jobs, of_task.main_job):
            if job:
                found[job.rpartition("/")[2]] = (creation_time(task), functools.partial(_step_name, step))
    of_training = jobs.list_jobs(vertex, id_of(run))
    return found | {id_of(job): (creation_time(job), process_name) for job in of_training}


def _step_name(step: str, replica: str) -> str:
    """Return a step's name, followed by "service" for messages of Vertex AI itself."""
    from qcnn.jobs.vertex.job_watcher import SERVICE

    return f"{step} {replica}" if replica == SERVICE else step
