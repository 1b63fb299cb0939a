"""Follows a run of the backend to its end, and shows the states of its steps as they change."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from cli import following
from cli.errors import CredentialsError, StepError
from cli.following import Seen, numbered
from cli.kubeflow.backend import Backend, connect
from cli.kubeflow.refusals import explained

if TYPE_CHECKING:
    import kfp
    import kfp_server_api

ENDED = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED")
_FAILED = ("FAILED", "ERROR")


class Asking:
    """Asks for one run again and again; tokens that expire meanwhile are renewed."""

    def __init__(self, client: kfp.Client, backend: Backend, run: str) -> None:
        self._client, self._backend, self._run = client, backend, run
        self._renewed = False

    def __call__(self) -> kfp_server_api.V2beta1Run | None:
        """Return the run, None where a token had to be renewed first.

        Raises:
            BackendError: the backend refuses, or does not answer.
        """
        try:
            with explained(self._backend.address):
                found = self._client.get_run(self._run)
        except CredentialsError:
            if self._renewed:
                raise
            self._client, self._renewed = connect(self._backend), True
            return None
        self._renewed = False
        return found


def follow(
    ask: Asking, steps: Collection[str], say: Callable[[str], None], seconds: float = float("inf")
) -> kfp_server_api.V2beta1Run:
    """Wait until a run has ended, at most `seconds`, and return it as it is then.

    Each change of its state, and of the tasks named `steps`, is reported through `say`.

    Raises:
        BackendError: the backend refuses, or has been gone for ten minutes.
    """

    def look() -> Seen[kfp_server_api.V2beta1Run] | None:
        if run := ask():
            return Seen(run, run.state or "PENDING", run.state in ENDED, states(run, steps))
        return None

    return following.follow(look, say, seconds).run


def states(run: kfp_server_api.V2beta1Run, steps: Collection[str]) -> dict[str, str]:
    """Return the state of each task that is one of `steps`, in the order of their start.

    Where a loop runs a task several times, a number stands behind its name.
    """
    details = (run.run_details.task_details or []) if run.run_details else []
    tasks = [task for task in details if task.display_name in steps and task.state]
    tasks.sort(key=lambda task: (task.start_time is None, task.start_time, task.task_id or ""))
    return numbered((task.display_name, task.state) for task in tasks)


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
