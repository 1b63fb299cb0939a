"""Follows a run of the backend to its end, and shows the states of its steps as they change."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from cli.errors import CredentialsError, StepError, UnavailableError
from cli.kubeflow.backend import Backend, connect
from cli.kubeflow.refusals import explained

if TYPE_CHECKING:
    import kfp
    import kfp_server_api

# Seconds between two looks at a run, and for how long the backend may be unreachable meanwhile.
INTERVAL = 2.0
_PATIENCE = 600.0
ENDED = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED")
_FAILED = ("FAILED", "ERROR")
_UNFINISHED = {"PENDING", "RUNNING"}
# The backend stores the last states of steps a little after that of the run: how often it is asked once more.
_LATE = 5


class Asking:
    """Asks for one run again and again: tokens are renewed, and a backend that is gone for a while is waited for."""

    def __init__(self, client: kfp.Client, backend: Backend, run: str) -> None:
        self._client, self._backend, self._run = client, backend, run
        self._answered = time.monotonic()
        self._renewed = False

    def __call__(self) -> kfp_server_api.V2beta1Run | None:
        """Return the run, None while the backend does not answer.

        Raises:
            BackendError: it refuses, or has been gone for ten minutes.
        """
        try:
            with explained(self._backend.address):
                found = self._client.get_run(self._run)
        except UnavailableError:
            if time.monotonic() - self._answered > _PATIENCE:
                raise
            return None
        except CredentialsError:
            if self._renewed:
                raise
            self._client, self._renewed = connect(self._backend), True
            return None
        self._answered, self._renewed = time.monotonic(), False
        return found


def follow(
    ask: Asking, steps: Collection[str], say: Callable[[str], None], seconds: float = float("inf")
) -> kfp_server_api.V2beta1Run:
    """Wait until a run has ended, at most `seconds`, and return it as it is then.

    Each change of its state, and of the tasks named `steps`, is reported through `say`.

    Raises:
        BackendError: the backend refuses, or has been gone for ten minutes.
    """
    shown: dict[str, str] = {}
    late = 0
    end = time.monotonic() + seconds
    while True:
        if run := ask():
            current = {**states(run, steps), "run": run.state or "PENDING"}
            for name, state in current.items():
                if shown.get(name) != state:
                    say(f"{name}: {state.lower()}")
            shown = current
            if run.state in ENDED:
                late += 1
                if late > _LATE or not _UNFINISHED.intersection(current.values()):
                    return run
            elif time.monotonic() >= end:
                return run
        time.sleep(INTERVAL)


def states(run: kfp_server_api.V2beta1Run, steps: Collection[str]) -> dict[str, str]:
    """Return the state of each task that is one of `steps`, in the order of their start.

    Where a loop runs a task several times, a number stands behind its name.
    """
    details = (run.run_details.task_details or []) if run.run_details else []
    tasks = [task for task in details if task.display_name in steps and task.state]
    tasks.sort(key=lambda task: (task.start_time is None, task.start_time, task.task_id or ""))
    counts: dict[str, int] = {}
    found: dict[str, str] = {}
    for task in tasks:
        counts[task.display_name] = number = counts.get(task.display_name, 0) + 1
        found[task.display_name if number == 1 else f"{task.display_name} {number}"] = task.state
    return found


def check_succeeded(run: kfp_server_api.V2beta1Run, steps: Collection[str]) -> None:
    """Refuse a run that has ended in any other way.

    Raises:
        StepError: it has; one line with the steps that failed.
    """
    if run.state in ("SUCCEEDED", "SKIPPED"):
        return
    failed = [name for name, state in states(run, steps).items() if state in _FAILED]
    what = f"step {', '.join(failed)} failed, see its log" if failed else f"it ended {run.state.lower()}"
    raise StepError(f"run: {what}. Given: {run.run_id}")


def steps_of(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of all steps of a compiled pipeline, those inside loops among them, but not the loops."""
    components = spec["components"]
    return frozenset(
        name
        for component in (spec["root"], *components.values())
        for name, task in component.get("dag", {}).get("tasks", {}).items()
        if "executorLabel" in components[task["componentRef"]["name"]]
    )
