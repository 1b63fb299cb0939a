"""Runs, experiments and schedules that a pipelines backend knows, found by what people call them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from qcnn.cli.kubeflow.backend import Backend
from qcnn.cli.kubeflow.refusals import explained
from qcnn.cli.target_errors import BackendError

if TYPE_CHECKING:
    import kfp
    import kfp_server_api

_PAGE = 100
_SHOWN = 10


def find_run(client: kfp.Client, backend: Backend, name: str) -> kfp_server_api.V2beta1Run:
    """Return the run of this id, or the one of this name.

    Raises:
        BackendError: there is none, or there are several; or the backend refuses, or does not answer.
    """
    with explained(backend.address):
        if is_id(name):
            return client.get_run(name)
        found = list(pages(client.list_runs, "runs", namespace=backend.namespace, filter=named(name)))
    if len(found) == 1:
        return found[0]
    if not found:
        raise BackendError(f"run: the backend at {backend.address} knows none of this id or name. Given: {name}")
    ids = ", ".join(run.run_id for run in found[:_SHOWN])
    raise BackendError(f"run: several have this name; one of their ids is needed, {ids}. Given: {name}")


def find_experiment(client: kfp.Client, backend: Backend, name: str) -> kfp_server_api.V2beta1Experiment:
    """Return the experiment of this name.

    Raises:
        BackendError: there is none; or the backend refuses, or does not answer.
    """
    with explained(backend.address):
        found = list(pages(client.list_experiments, "experiments", namespace=backend.namespace, filter=named(name)))
        if found:
            return found[0]
        known = list(pages(client.list_experiments, "experiments", namespace=backend.namespace))
    names = ", ".join(sorted(experiment.display_name for experiment in known)) or "none"
    raise BackendError(f"experiment: the backend at {backend.address} knows {names}. Given: {name}")


def find_schedule(client: kfp.Client, backend: Backend, name: str) -> kfp_server_api.V2beta1RecurringRun:
    """Return the schedule of this id or name.

    Raises:
        BackendError: there is none, or there are several; or the backend refuses, or does not answer.
    """
    with explained(backend.address):
        known = list(pages(client.list_recurring_runs, "recurring_runs", namespace=backend.namespace))
    found = [each for each in known if name in (each.recurring_run_id, each.display_name)]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(f"{each.display_name} ({each.recurring_run_id})" for each in found or known) or "none"
    raise BackendError(f"schedule: must be one of {ids}. Given: {name}")


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
