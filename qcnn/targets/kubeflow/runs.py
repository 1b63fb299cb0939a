"""Runs, experiments and schedules of a backend: found by what people call them, followed to their end, and ended."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from qcnn.targets import following
from qcnn.targets.errors import BackendError, CredentialsError, StepError
from qcnn.targets.following import UNFINISHED, RunSnapshot, number_repeated
from qcnn.targets.kubeflow.client import SINGLE_USER, KfpConnection, connect, translate_errors

if TYPE_CHECKING:
    import kfp
    import kfp_server_api


from typing import TYPE_CHECKING

from qcnn.errors import QcnnError, as_clause
from qcnn.targets.errors import UnavailableError

if TYPE_CHECKING:
    import kfp
    import kfp_server_api


_PAGE = 100
_SHOWN = 10


def find_run(client: kfp.Client, backend: KfpConnection, name: str) -> kfp_server_api.V2beta1Run:
    """Return the run of this id, or the one of this name.

    Raises:
        BackendError: there is none, or there are several; or the backend refuses, or does not answer.
    """
    with translate_errors(backend.address):
        if is_id(name):
            return client.get_run(name)
        found = list(pages(client.list_runs, "runs", namespace=backend.namespace, filter=named(name)))
    if len(found) == 1:
        return found[0]
    if not found:
        raise BackendError(f"run: the backend at {backend.address} knows none of this id or name. Given: {name}")
    ids = ", ".join(run.run_id for run in found[:_SHOWN])
    raise BackendError(f"run: several have this name; one of their ids is needed, {ids}. Given: {name}")


def find_experiment(client: kfp.Client, backend: KfpConnection, name: str) -> kfp_server_api.V2beta1Experiment:
    """Return the experiment of this name.

    Raises:
        BackendError: there is none; or the backend refuses, or does not answer.
    """
    with translate_errors(backend.address):
        found = list(pages(client.list_experiments, "experiments", namespace=backend.namespace, filter=named(name)))
        if found:
            return found[0]
        known = list(pages(client.list_experiments, "experiments", namespace=backend.namespace))
    names = ", ".join(sorted(experiment.display_name for experiment in known)) or "none"
    raise BackendError(f"experiment: the backend at {backend.address} knows {names}. Given: {name}")


def find_schedule(client: kfp.Client, backend: KfpConnection, name: str) -> kfp_server_api.V2beta1RecurringRun:
    """Return the schedule of this id or name.

    Raises:
        BackendError: there is none, or there are several; or the backend refuses, or does not answer.
    """
    with translate_errors(backend.address):
        known = list(pages(client.list_recurring_runs, "recurring_runs", namespace=backend.namespace))
    found = [each for each in known if name in (each.recurring_run_id, each.display_name)]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(f"{each.display_name} ({each.recurring_run_id})" for each in found or known) or "none"
    raise BackendError(f"schedule: must be one of {ids}. Given: {name}")


def namespace_of(client: kfp.Client, backend: KfpConnection, experiment: str) -> str:
    """Return the namespace in which the runs of an experiment, by its id, have their pods and TFJobs.

    Raises:
        BackendError: there is no such experiment; or the backend refuses, or does not answer.
    """
    with translate_errors(backend.address):
        return str(client.get_experiment(experiment).namespace or backend.namespace or SINGLE_USER)


def creation_time(run: kfp_server_api.V2beta1Run) -> datetime.datetime:
    """Return when a run was created; 1970 if the backend does not give that time."""
    time: datetime.datetime | None = run.created_at
    return time or datetime.datetime.fromtimestamp(0, datetime.timezone.utc)


def duration_of(run: kfp_server_api.V2beta1Run) -> float | None:
    """Return the seconds that a run took, None where it has not ended."""
    if run.state not in ENDED or run.finished_at is None or run.created_at is None:
        return None
    return round(float((run.finished_at - run.created_at).total_seconds()), 3)


def specification_of(run: kfp_server_api.V2beta1Run) -> Mapping[str, Any]:
    """Return the compiled pipeline of a run, which stands beside a platform's own where it has one."""
    found: Mapping[str, Any] = run.pipeline_spec or {"root": {}, "components": {}}
    inner: Mapping[str, Any] = found.get("pipeline_spec", found)
    return inner


def pages(ask: Callable[..., Any], collection: str, **arguments: Any) -> Iterator[Any]:
    """Yield all that a list of the API holds, over all its pages."""
    token = ""
    while True:
        answer = ask(page_token=token, page_size=_PAGE, **arguments)
        yield from getattr(answer, collection) or ()
        if not (token := answer.next_page_token or ""):
            return


def named(name: str) -> str:
    """Return the API's filter for a name."""
    return json.dumps({"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]})


def is_id(text: str) -> bool:
    """Whether a text can be the id of a run."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


SUCCEEDED = ("SUCCEEDED", "SKIPPED")
ENDED = (*SUCCEEDED, "FAILED", "CANCELED")
_FAILED = ("FAILED", "ERROR")
# The backend adds to each step and loop a task that resolves its inputs before it starts (backend/src/v2/driver).
_DRIVER = "-driver"


class RunPoller:
    """Asks for one run again and again; tokens that expire meanwhile are renewed."""

    def __init__(self, client: kfp.Client, backend: KfpConnection, run: str) -> None:
        self._client, self._backend, self._run = client, backend, run
        self._renewed = False

    def __call__(self) -> kfp_server_api.V2beta1Run | None:
        """Return the run, None where a token had to be renewed first.

        Raises:
            BackendError: the backend refuses, or does not answer.
        """
        try:
            with translate_errors(self._backend.address):
                found = self._client.get_run(self._run)
        except CredentialsError:
            if self._renewed:
                raise
            self._client, self._renewed = connect(self._backend), True
            return None
        self._renewed = False
        return found


def follow(
    ask: RunPoller, steps: Collection[str], say: Callable[[str], None], seconds: float = float("inf")
) -> kfp_server_api.V2beta1Run:
    """Wait until a run has ended, at most `seconds`, and return it as it is then.

    Each change of its state, and of the tasks named `steps`, is reported through `say`.

    Raises:
        BackendError: the backend refuses, or has been gone for ten minutes.
    """

    def look() -> RunSnapshot[kfp_server_api.V2beta1Run] | None:
        if run := ask():
            is_late = any(task.state in UNFINISHED for task in _tasks(run))
            return RunSnapshot(run, run.state or "PENDING", run.state in ENDED, states(run, steps), is_late)
        return None

    return following.wait_for_run(look, say, seconds).run


def states(run: kfp_server_api.V2beta1Run, steps: Collection[str]) -> dict[str, str]:
    """Return the state of each task that is one of `steps`, in the order of their start.

    Where a loop runs a task several times, a number stands behind its name. A driver that failed is a task of its own:
    its step has none.
    """
    shown = [task for task in _tasks(run) if task.display_name in steps or (_is_driver(task) and task.state in _FAILED)]
    return number_repeated((task.display_name, task.state) for task in shown)


def check_succeeded(run: kfp_server_api.V2beta1Run, steps: Collection[str]) -> None:
    """Refuse a run that has ended in any other way.

    Raises:
        StepError: it has; one line with the steps that failed.
    """
    if run.state in SUCCEEDED:
        return
    failed = [name for name, state in states(run, steps).items() if state in _FAILED]
    what = f"step {', '.join(failed)} failed, see its log" if failed else f"it ended {run.state.lower()}"
    raise StepError(f"run: {what}. Given: {run.run_id}")


def _tasks(run: kfp_server_api.V2beta1Run) -> list[kfp_server_api.V2beta1PipelineTaskDetail]:
    """Return the tasks of a run that have a state, in the order of their start."""
    details = (run.run_details.task_details or []) if run.run_details else []
    found = [task for task in details if task.display_name and task.state]
    return sorted(found, key=lambda task: (task.start_time is None, task.start_time, task.task_id or ""))


def _is_driver(task: kfp_server_api.V2beta1PipelineTaskDetail) -> bool:
    return str(task.display_name).endswith(_DRIVER)


# A backend takes about ten seconds to end a run; a stuck run never ends.
PATIENCE = 120.0


def terminate_run(
    client: kfp.Client,
    backend: KfpConnection,
    run: kfp_server_api.V2beta1Run,
    namespace: str,
    say: Callable[[str], None],
    seconds: float = PATIENCE,
) -> str:
    """Terminate a run, delete its TFJobs, and wait for its end at most `seconds`; report each of these through `say`.

    Training costs most, so TFJobs are deleted before the wait. They are deleted once more after it, because a step that
    was still running may have created one. Returns one line with the reason and the state if the run has not ended,
    else an empty text.

    Raises:
        BackendError: the backend refuses, or does not answer.
    """
    fault = _terminate(client, backend, run.run_id)
    say(clean(run.run_id, namespace))
    ended = follow(RunPoller(client, backend, run.run_id), (), say, 0 if fault else seconds)
    if late := _deleted(run.run_id, namespace):
        say(f"TFJob {late} deleted too")
    if ended.state in ENDED:
        say(f"run {run.run_id} is terminated")
        return ""
    reason = f"terminating it failed ({as_clause(fault)})" if fault else f"it has not ended within {seconds:g} s"
    return f"run: {reason}; the backend shows it as {str(ended.state).lower()}. Given: {run.run_id}"


def clean(run: str, namespace: str) -> str:
    """Delete the TFJobs of a run; return one line with what was deleted, or with why the cluster was not reached."""
    try:
        names = _deleted_on_cluster(run, namespace)
    except QcnnError as error:
        return f"whether TFJobs of it are left in namespace {namespace} was not seen: {error}"
    return f"{f'TFJob {names} deleted; ' if names else ''}nothing of its trainings is left in namespace {namespace}"


def _terminate(client: kfp.Client, backend: KfpConnection, run: str) -> UnavailableError | None:
    """Ask the backend to terminate a run; return its failure, as when the run's workflow is gone."""
    try:
        with translate_errors(backend.address):
            client.terminate_run(run)
    except UnavailableError as error:
        return error
    return None


def _deleted(run: str, namespace: str) -> str:
    """Delete the TFJobs of a run; return their names, or an empty text if the cluster was not reached."""
    try:
        return _deleted_on_cluster(run, namespace)
    except QcnnError:
        return ""


def _deleted_on_cluster(run: str, namespace: str) -> str:
    # The cluster's client takes longer to load than everything else here.
    from qcnn.jobs.tfjob import cleanup
    from qcnn.targets.tfjob.client import cluster

    with cluster(namespace) as api:
        everything = cleanup.find_all(api)
        left = cleanup.with_dependents(cleanup.belonging_to(run, everything), everything)
        cleanup.delete(api, left)
    return ", ".join(found.name for found in left if found.kind == "TFJob")
