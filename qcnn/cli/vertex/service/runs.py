"""Pipeline jobs of ours: found by what people call them, and what their states are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qcnn.cli.following import numbered
from qcnn.cli.packages import steps_of
from qcnn.cli.target_errors import BackendError
from qcnn.cli.vertex.service.connection import Vertex
from qcnn.cli.vertex.service.messages import id_of
from qcnn.cli.vertex.service.refusals import NotFoundError
from qcnn.jobs.vertex.client import creation_time

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob, PipelineTaskDetail

# By this label the runs of qcnn are found, and those of an experiment.
EXPERIMENT_LABEL = "qcnn_experiment"
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
_SHOWN = 10
_ID = re.compile(r"[a-z][-a-z0-9]{0,127}")


def find_run(vertex: Vertex, name: str) -> PipelineJob:
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


def get_run(vertex: Vertex, identity: str) -> PipelineJob:
    """Return the run of an id.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    name = f"{vertex.place.parent}/pipelineJobs/{identity}"
    run: PipelineJob = vertex.ask("PipelineService.get_pipeline_job", name=name)
    return run


def list_runs(vertex: Vertex, experiment: str | None = None) -> Sequence[PipelineJob]:
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
    return numbered((task.task_name, task) for task in tasks)


def steps_in(run: PipelineJob) -> frozenset[str]:
    """Return the names of all steps of the pipeline that is run."""
    from google.protobuf import json_format

    return steps_of(json_format.MessageToDict(type(run).pb(run).pipeline_spec))
