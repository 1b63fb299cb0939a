"""Pipeline runs of this package on Vertex AI: found, followed and ended, with what they have made."""

from __future__ import annotations

import datetime
import functools
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from qcnn.errors import single_line
from qcnn.jobs.vertex.location import creation_time
from qcnn.targets import following
from qcnn.targets.artifacts import Artifact
from qcnn.targets.compiled_pipeline import step_names
from qcnn.targets.errors import BackendError, StepError, UnavailableError
from qcnn.targets.following import INTERVAL, RunSnapshot, number_repeated
from qcnn.targets.vertex import jobs
from qcnn.targets.vertex.client import AlreadyExistsError, NotFoundError, VertexClient, id_of

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest, PipelineJob, PipelineTaskDetail


# By this label the runs of qcnn are found, and those of an experiment.
EXPERIMENT_LABEL = "qcnn_experiment"
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
_SHOWN = 10
_ID = re.compile(r"[a-z][-a-z0-9]{0,127}")


def create(vertex: VertexClient, request: CreatePipelineJobRequest) -> PipelineJob:
    """Create a run, and return it; a request whose answer was lost makes no second one.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
    """
    try:
        run: PipelineJob = vertex.ask("PipelineService.create_pipeline_job", request)
    except AlreadyExistsError:
        # The id is this run's alone: the answer to an earlier try was lost.
        run = get_run(vertex, request.pipeline_job_id)
    return run


def find_run(vertex: VertexClient, name: str) -> PipelineJob:
    """Return the run of this id, or the one of this name.

    Raises:
        BackendError: there is none, or there are several; or Vertex AI refuses, or does not answer.
    """
    if is_id(name):
        try:
            return get_run(vertex, name)
        except NotFoundError:
            pass
    found = [run for run in list_runs(vertex) if run.display_name == name]
    if len(found) == 1:
        # A list leaves out what the steps have made.
        return get_run(vertex, id_of(found[0]))
    place = f"{vertex.place.project} in {vertex.place.location}"
    if not found:
        raise BackendError(f"run: {place} has none of this id or name. Given: {name}")
    ids = ", ".join(id_of(run) for run in found[:_SHOWN])
    raise BackendError(f"run: several have this name; one of their ids is needed, {ids}. Given: {name}")


def get_run(vertex: VertexClient, identity: str) -> PipelineJob:
    """Return the run of an id.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    name = f"{vertex.place.parent}/pipelineJobs/{identity}"
    run: PipelineJob = vertex.ask("PipelineService.get_pipeline_job", name=name)
    return run


def list_runs(vertex: VertexClient, experiment: str | None = None) -> Sequence[PipelineJob]:
    """Return all runs of ours, or those of an experiment, newest last.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
    """
    wanted = f'="{experiment}"' if experiment else ":*"
    found = vertex.pages("PipelineService.list_pipeline_jobs", filter=f"labels.{EXPERIMENT_LABEL}{wanted}")
    return sorted(found, key=creation_time)


def is_id(text: str) -> bool:
    """Whether a text can be the id of a run."""
    return _ID.fullmatch(text) is not None


def state_of(run: PipelineJob) -> str:
    """Return the state of a run without what all names of states begin with."""
    return str(run.state.name).removeprefix("PIPELINE_STATE_")


def tasks_of(run: PipelineJob, steps: frozenset[str]) -> dict[str, PipelineTaskDetail]:
    """Return the tasks that are steps by their names, in the order of their start."""
    tasks = [task for task in run.job_detail.task_details if task.task_name in steps and task.state.value]
    tasks.sort(key=lambda task: (task.start_time is None, task.start_time or 0, task.task_id))
    return number_repeated((task.task_name, task) for task in tasks)


def steps_in(run: PipelineJob) -> frozenset[str]:
    """Return the names of all steps of the pipeline that is run."""
    from google.protobuf import json_format

    return step_names(json_format.MessageToDict(type(run).pb(run).pipeline_spec))


_SCHEMA = {"schema_title": "system.Experiment", "schema_version": "0.0.1", "metadata": {"experiment_deleted": False}}
# Vertex AI makes the context of a run some seconds after the run.
_PATIENCE = 60.0


def add_to_experiment(vertex: VertexClient, experiment: str, run: str) -> str:
    """Add a run to an experiment, which is created if there is none; return one line with why not, or an empty text."""
    store = f"{vertex.place.parent}/metadataStores/default"
    try:
        _ensure(vertex, store, experiment)
        context = _context(vertex, run)
        parent = f"{store}/contexts/{experiment}"
        vertex.ask("MetadataService.add_context_children", context=parent, child_contexts=[context])
    except BackendError as error:
        return str(error)
    return ""


def _ensure(vertex: VertexClient, store: str, experiment: str) -> None:
    try:
        vertex.ask("MetadataService.get_metadata_store", name=store)
    except NotFoundError:
        vertex.finish(
            "MetadataService.create_metadata_store",
            parent=vertex.place.parent,
            metadata_store_id="default",
            metadata_store={},
        )
    try:
        context = {"display_name": experiment, **_SCHEMA}
        vertex.ask("MetadataService.create_context", parent=store, context=context, context_id=experiment)
    except AlreadyExistsError:
        return


def _context(vertex: VertexClient, run: str) -> str:
    """Return the name of a run's context, once there is one."""
    end = time.monotonic() + _PATIENCE
    while True:
        found = get_run(vertex, run)
        if name := found.job_detail.pipeline_run_context.name:
            return str(name)
        if state_of(found) in ENDED or time.monotonic() > end:
            raise UnavailableError(f"run: Vertex AI has made no context of it in its metadata store. Given: {run}")
        time.sleep(INTERVAL)


def follow(
    vertex: VertexClient, identity: str, say: Callable[[str], None], seconds: float = float("inf")
) -> PipelineJob:
    """Wait until a run has ended, at most `seconds`, and return it as it is then.

    Each change of its state, and of its steps, is reported through `say`.

    Raises:
        BackendError: Vertex AI refuses, or has not answered for ten minutes.
    """

    def look() -> RunSnapshot[PipelineJob]:
        run = get_run(vertex, identity)
        states = {name: str(task.state.name) for name, task in tasks_of(run, steps_in(run)).items()}
        return RunSnapshot(run, state_of(run), state_of(run) in ENDED, states)

    return following.wait_for_run(look, say, seconds).run


def check_succeeded(run: PipelineJob) -> None:
    """Refuse a run that has ended in any other way.

    Raises:
        StepError: it has; one line with the steps that failed, and the first one's reason.
    """
    if state_of(run) == "SUCCEEDED":
        return
    failed = {name: task for name, task in tasks_of(run, steps_in(run)).items() if task.state.name == "FAILED"}
    reason = next((task.error.message for task in failed.values() if task.error.message), run.error.message)
    what = f"step {', '.join(failed)} failed" if failed else f"it ended {state_of(run).lower()}"
    raise StepError(f"run: {what}{f' ({single_line(reason)})' if reason else ''}. Given: {id_of(run)}")


PATIENCE = 120.0


def terminate_run(vertex: VertexClient, run: PipelineJob, say: Callable[[str], None], seconds: float = PATIENCE) -> str:
    """Cancel a run and the jobs that train for it, and wait for its end at most `seconds`; each is reported to `say`.

    Training costs most, so these jobs are cancelled before the wait. They are cancelled once more after it, because a
    step that was still running may have created one. Jobs that cannot be cancelled do not keep the rest from being
    ended. Returns one line with what has not ended and why, an empty text if all has.

    Raises:
        BackendError: Vertex AI refuses to cancel or show the run, or does not answer.
    """
    identity = id_of(run)
    if state_of(run) in ENDED:
        say(f"run {identity} had ended before: {state_of(run).lower()}")
        return _cancel_jobs(vertex, identity, say)
    vertex.ask("PipelineService.cancel_pipeline_job", name=run.name)
    say(f"run {identity}: cancellation requested")
    _cancel_jobs(vertex, identity, say)
    ended = follow(vertex, identity, say, seconds)
    left = _cancel_jobs(vertex, identity, say)
    if state_of(ended) in ENDED:
        say(f"run {identity} is terminated")
        return left
    state = state_of(ended).lower()
    return f"run: it has not ended within {seconds:g} s; Vertex AI shows it as {state}. Given: {identity}"


def _cancel_jobs(vertex: VertexClient, run: str, say: Callable[[str], None]) -> str:
    """Cancel the jobs of a run; return one line with why that was refused for some, an empty text if it was not."""
    names, refusal = jobs.cancel_all(vertex, run)
    if names:
        say(f"{', '.join(names)} cancelled")
    if not refusal:
        return ""
    reason = str(refusal).partition(". Given: ")[0]
    return f"run: jobs of its trainings may go on, since cancelling them failed ({reason}). Given: {run}"


def artifacts_of(run: PipelineJob) -> list[Artifact]:
    """Return what the steps of a run have made so far, each once, with the name of its output."""
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
    """Return the jobs that the steps of a run are, every try of them, and those of its trainings."""
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
    """Return a step's name; of what Vertex AI itself says, that too."""
    from qcnn.jobs.vertex.job_watcher import SERVICE

    return f"{step} {replica}" if replica == SERVICE else step
