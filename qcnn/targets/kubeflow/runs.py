"""Runs, experiments and schedules of a KFP backend: lookup, status and termination."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import QcnnError, as_clause
from qcnn.targets import following
from qcnn.targets.base import PartStatus
from qcnn.targets.errors import BackendError, CredentialsError, UnavailableError
from qcnn.targets.following import UNFINISHED, RunSnapshot
from qcnn.targets.kubeflow.client import SINGLE_USER, KfpBackend, translate_errors
from qcnn.targets.kubeflow.workflow import DRIVER
from qcnn.targets.lookup import only_run, only_schedule

if TYPE_CHECKING:
    import kfp_server_api


_PAGE = 100


def find_run(backend: KfpBackend, name: str) -> kfp_server_api.V2beta1Run:
    """Return the run with this ID or name.

    Args:
        backend: KFP backend.
        name: ID or name of the run.

    Raises:
        BackendError: If the run does not exist, its name is ambiguous, or the backend rejects the request or is
            unavailable.
    """
    with translate_errors(backend.address):
        if is_id(name):
            return backend.client.get_run(name)
        found = list(pages(backend.client.list_runs, "runs", namespace=backend.namespace, filter=name_filter(name)))
    return only_run(found, lambda run: run.run_id, f"the backend at {backend.address}", name)


def find_experiment(backend: KfpBackend, name: str) -> kfp_server_api.V2beta1Experiment:
    """Return the experiment with this name.

    Args:
        backend: KFP backend.
        name: Name of the experiment.

    Raises:
        BackendError: If the experiment does not exist, or the backend rejects the request or is unavailable.
    """
    with translate_errors(backend.address):
        found = list(
            pages(backend.client.list_experiments, "experiments", namespace=backend.namespace, filter=name_filter(name))
        )
        if found:
            return found[0]
        known = list(pages(backend.client.list_experiments, "experiments", namespace=backend.namespace))
    names = ", ".join(sorted(experiment.display_name for experiment in known)) or "none"
    raise BackendError(f"experiment: the backend at {backend.address} has {names}. Given: {name}")


def find_schedule(backend: KfpBackend, name: str) -> kfp_server_api.V2beta1RecurringRun:
    """Return the schedule with this ID or name.

    Args:
        backend: KFP backend.
        name: ID or name of the schedule.

    Raises:
        BackendError: If the schedule does not exist, its name is ambiguous, or the backend rejects the request or is
            unavailable.
    """
    with translate_errors(backend.address):
        known = list(pages(backend.client.list_recurring_runs, "recurring_runs", namespace=backend.namespace))
    return only_schedule(known, lambda each: each.recurring_run_id, name)


def namespace_of(backend: KfpBackend, experiment: str) -> str:
    """Return the namespace of an experiment's pods and training jobs.

    Args:
        backend: KFP backend.
        experiment: ID of the experiment.

    Raises:
        BackendError: If the experiment does not exist, or the backend rejects the request or is unavailable.
    """
    with translate_errors(backend.address):
        return str(backend.client.get_experiment(experiment).namespace or backend.namespace or SINGLE_USER)


def creation_time(run: kfp_server_api.V2beta1Run) -> datetime.datetime:
    """Return the creation time of a run, or 1970 if the backend does not report it."""
    time: datetime.datetime | None = run.created_at
    return time or datetime.datetime.fromtimestamp(0, datetime.UTC)


def duration_of(run: kfp_server_api.V2beta1Run) -> float | None:
    """Return the duration of a run in seconds, or None if it has not ended."""
    if run.state not in ENDED or run.finished_at is None or run.created_at is None:
        return None
    return round(float((run.finished_at - run.created_at).total_seconds()), 3)


def specification_of(run: kfp_server_api.V2beta1Run) -> Mapping[str, Any]:
    """Return the compiled pipeline of a run, without platform settings."""
    found: Mapping[str, Any] = run.pipeline_spec or {"root": {}, "components": {}}
    inner: Mapping[str, Any] = found.get("pipeline_spec", found)
    return inner


def pages(list_page: Callable[..., Any], collection: str, **arguments: Any) -> Iterator[Any]:
    """Yield the items of a paginated list request.

    Args:
        list_page: Method of the KFP client.
        collection: Attribute of the response that holds the items.
        arguments: Other arguments of the method.
    """
    token = ""
    while True:
        answer = list_page(page_token=token, page_size=_PAGE, **arguments)
        yield from getattr(answer, collection) or ()
        if not (token := answer.next_page_token or ""):
            return


def name_filter(name: str) -> str:
    """Return the API filter for a display name."""
    return json.dumps({"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]})


def is_id(text: str) -> bool:
    """Return whether a text is a valid run ID."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


SUCCEEDED = ("SUCCEEDED", "SKIPPED")
ENDED = (*SUCCEEDED, "FAILED", "CANCELED")
_FAILED = ("FAILED", "ERROR")


class RunPoller:
    """Repeated requests for one run, which renew expired tokens."""

    def __init__(self, backend: KfpBackend, run: str) -> None:
        self._backend, self._run = backend, run
        self._renewed = False

    def __call__(self) -> kfp_server_api.V2beta1Run | None:
        """Return the run, or None if the token was renewed instead.

        Raises:
            BackendError: If the backend rejects the request or is unavailable.
        """
        try:
            with translate_errors(self._backend.address):
                found = self._backend.client.get_run(self._run)
        except CredentialsError:
            if self._renewed:
                raise
            self._backend.renew()
            self._renewed = True
            return None
        self._renewed = False
        return found


# Returns the steps of a run whose state changes are reported.
ReadParts = Callable[["kfp_server_api.V2beta1Run"], Sequence[PartStatus]]


def follow(
    poll: RunPoller,
    read_parts: ReadParts,
    report: Callable[[str], None],
    timeout: float | None = None,
) -> kfp_server_api.V2beta1Run:
    """Wait until a run has ended, and return its last state.

    Args:
        poll: Poller of the run.
        read_parts: Returns the steps of the run.
        report: Callback for status lines.
        timeout: Timeout in seconds, after which the current state is returned. None: no limit.

    Raises:
        BackendError: If the backend rejects a request, or is unavailable for ten minutes.
    """

    def look() -> RunSnapshot[kfp_server_api.V2beta1Run] | None:
        if run := poll():
            is_late = any(task.state.lower() in UNFINISHED for task in _tasks(run))
            parts = following.number_parts(read_parts(run))
            return RunSnapshot(run, run.state or "PENDING", run.state in ENDED, parts, is_late)
        return None

    return following.wait_for_run(look, report, timeout).run


def task_parts(run: kfp_server_api.V2beta1Run, steps: Collection[str]) -> list[PartStatus]:
    """Return the status of the tasks in `steps`, in order of their start, without reasons.

    A failed driver is listed as a task, because its step has none.
    """
    shown = [task for task in _tasks(run) if task.display_name in steps or (_is_driver(task) and task.state in _FAILED)]
    return [PartStatus(task.display_name, task.state.lower(), duration=_seconds_of(task)) for task in shown]


def check_succeeded(run: kfp_server_api.V2beta1Run, parts: Sequence[PartStatus], message: str = "") -> None:
    """Raise StepError if a finished run has not succeeded.

    Args:
        run: The run.
        parts: Its steps.
        message: Why the run failed, if no step has a reason.

    Raises:
        StepError: If the run failed or was canceled. The message names the failed steps and the first reason.
    """
    if run.state in SUCCEEDED:
        return
    parts = following.number_parts(parts)
    raise following.run_error(run.run_id, run.state, parts, message, no_reason=", see its log")


def _tasks(run: kfp_server_api.V2beta1Run) -> list[kfp_server_api.V2beta1PipelineTaskDetail]:
    """Return the tasks of a run that have a state, in order of their start."""
    details = (run.run_details.task_details or []) if run.run_details else []
    found = [task for task in details if task.display_name and task.state]
    return sorted(found, key=lambda task: (task.start_time is None, task.start_time, task.task_id or ""))


def _is_driver(task: kfp_server_api.V2beta1PipelineTaskDetail) -> bool:
    return str(task.display_name).endswith(DRIVER)


def _seconds_of(task: kfp_server_api.V2beta1PipelineTaskDetail) -> float | None:
    """Return the duration of a task in seconds, or None if it has not ended, with a zero time as its end."""
    if not (task.start_time and task.end_time) or task.end_time < task.start_time:
        return None
    return float((task.end_time - task.start_time).total_seconds())


# KFP stops a run within about ten seconds. A stuck run never stops.
PATIENCE = 120.0


def terminate_run(
    backend: KfpBackend,
    run: kfp_server_api.V2beta1Run,
    namespace: str,
    report: Callable[[str], None],
    seconds: float = PATIENCE,
) -> str:
    """Terminate a run, delete its training jobs, and wait for the run to stop.

    Training is the largest cost, so its jobs are deleted before the wait. They are deleted again after it, because a
    step that was still active may have created one.

    Args:
        backend: KFP backend.
        run: The run.
        namespace: Namespace of its training jobs.
        report: Callback for status lines.
        seconds: Timeout for the run to stop.

    Returns:
        One line with the reason and the state if the run has not stopped, else an empty text.

    Raises:
        BackendError: If the backend rejects a request or is unavailable.
    """
    fault = _terminate(backend, run.run_id)
    report(clean(run.run_id, namespace))
    ended = follow(RunPoller(backend, run.run_id), lambda run: (), report, 0 if fault else seconds)
    if late := _delete_jobs(run.run_id, namespace):
        report(f"{late} deleted")
    if ended.state in ENDED:
        report(f"run {run.run_id} is terminated")
        return ""
    reason = f"terminating it failed ({as_clause(fault)})" if fault else f"it has not ended within {seconds:g} s"
    return f"run: {reason}; the backend shows it as {str(ended.state).lower()}. Given: {run.run_id}"


def clean(run: str, namespace: str) -> str:
    """Delete the training jobs of a run and return a status line. An unavailable cluster is reported, not raised."""
    try:
        names = _deleted_on_cluster(run, namespace)
    except QcnnError as error:
        return f"training jobs of the run in namespace {namespace} were not checked: {error}"
    return f"{f'{names} deleted; ' if names else ''}no training jobs of the run are left in namespace {namespace}"


def _terminate(backend: KfpBackend, run: str) -> UnavailableError | None:
    """Request the termination of a run and return a failure, for example if its workflow no longer exists."""
    try:
        with translate_errors(backend.address):
            backend.client.terminate_run(run)
    except UnavailableError as error:
        return error
    return None


def _delete_jobs(run: str, namespace: str) -> str:
    """Delete the training jobs of a run and return them as text, or an empty text if the cluster is unavailable."""
    try:
        return _deleted_on_cluster(run, namespace)
    except QcnnError:
        return ""


def _deleted_on_cluster(run: str, namespace: str) -> str:
    # Importing the Kubernetes client takes longer than all other imports here.
    from qcnn.jobs.engines import installed_engines
    from qcnn.jobs.kubernetes import cleanup
    from qcnn.targets.cluster import cluster

    with cluster(namespace) as api:
        everything = cleanup.find_all(api, installed_engines(api))
        left = cleanup.with_dependents(cleanup.objects_of_run(run, everything), everything)
        cleanup.delete(api, left)
    return ", ".join(f"{found.kind} {found.name}" for found in left if found.engine)
