"""Ends a run of the backend, and deletes its TFJobs on the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qcnn.errors import QcnnError, as_clause
from qcnn.targets.errors import UnavailableError
from qcnn.targets.kubeflow.client import Backend, explained
from qcnn.targets.kubeflow.runs import ENDED, Asking, follow

if TYPE_CHECKING:
    import kfp
    import kfp_server_api

# A backend takes about ten seconds to end a run; a stuck run never ends.
PATIENCE = 120.0


def end_run(
    client: kfp.Client,
    backend: Backend,
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
    ended = follow(Asking(client, backend, run.run_id), (), say, 0 if fault else seconds)
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


def _terminate(client: kfp.Client, backend: Backend, run: str) -> UnavailableError | None:
    """Ask the backend to terminate a run; return its failure, as when the run's workflow is gone."""
    try:
        with explained(backend.address):
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
