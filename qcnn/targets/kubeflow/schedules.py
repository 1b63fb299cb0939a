"""Schedules of a backend: found, switched on and off, and deleted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError
from qcnn.targets.base import Say, ScheduleStatus
from qcnn.targets.cron import cron_expression, interval_seconds
from qcnn.targets.kubeflow.client import KfpConnection, connect, translate_errors
from qcnn.targets.kubeflow.runs import ENDED, find_schedule, namespace_of, pages, terminate_run
from qcnn.targets.kubeflow.submission import RunSettings
from qcnn.targets.settings import setting

if TYPE_CHECKING:
    import kfp
    import kfp_server_api


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleSettings(RunSettings):
    """When a pipeline is run in a backend, and how.

    Raises:
        ConfigError: neither or both kinds of times are given, or they are malformed.
    """

    cron: str | None = setting('When, by the backend\'s clock, such as "0 9 * * MON-FRI".', None, metavar="FIELDS")
    interval: str | None = setting("How often, such as 90s, 10m, 2h or 1d.", None, metavar="TIME")
    max_concurrency: int = setting("Runs at the same time.", 1, least=1, most=10)
    catch_up: bool = setting("Make up for missed times.", False)
    disabled: bool = setting("Create it disabled, until `qcnn schedule enable`.", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.cron) == bool(self.interval):
            given = "both" if self.cron else "none"
            raise ConfigError(f"schedule: needs either --cron or --interval. Given: {given}")
        _ = self.trigger

    @property
    def trigger(self) -> Mapping[str, str]:
        """The times in the words of the API, integers as text, as it has those of 64 bits."""
        if self.interval:
            return {"interval_second": str(interval_seconds(self.interval))}
        return {"cron_expression": cron_expression(self.cron or "")}

    @property
    def how(self) -> Mapping[str, Any]:
        """What is said of its runs."""
        return {
            "max_concurrency": self.max_concurrency,
            "no_catchup": not self.catch_up,
            "enabled": not self.disabled,
        }


def list_schedules(backend: KfpConnection) -> Sequence[ScheduleStatus]:
    """Return all schedules of a backend.

    Raises:
        BackendError: the backend refuses, or does not answer.
    """
    client = connect(backend)
    with translate_errors(backend.address):
        found = list(pages(client.list_recurring_runs, "recurring_runs", namespace=backend.namespace))
    return [
        ScheduleStatus(
            each.display_name,
            each.recurring_run_id,
            _when(each.trigger),
            str(each.status or each.mode).lower(),
            int(each.max_concurrency),
            catch_up=not each.no_catchup,
        )
        for each in found
    ]


def switch_schedule(name: str, backend: KfpConnection, *, enabled: bool, dry_run: bool) -> str:
    """Enable or disable a schedule, by its id or name, and return its name.

    Raises:
        BackendError: there is no such schedule; or the backend refuses, or does not answer.
    """
    client = connect(backend)
    found = find_schedule(client, backend, name)
    if not dry_run:
        with translate_errors(backend.address):
            switch = client.enable_recurring_run if enabled else client.disable_recurring_run
            switch(found.recurring_run_id)
    return str(found.display_name)


def would_delete_schedule(name: str, backend: KfpConnection) -> tuple[str, Sequence[str]]:
    """Return the name of a schedule, by its id or name, and those of its runs that have not ended.

    Raises:
        BackendError: there is no such schedule; or the backend refuses, or does not answer.
    """
    client = connect(backend)
    found = find_schedule(client, backend, name)
    return str(found.display_name), [run.display_name for run in _alive(client, backend, found)]


def delete_schedule(name: str, backend: KfpConnection, say: Say, warn: Say) -> str:
    """Delete a schedule, by its id or name, after its runs have been terminated, and return its name.

    Raises:
        BackendError: there is no such schedule; or the backend refuses, or does not answer.
    """
    client = connect(backend)
    found = find_schedule(client, backend, name)
    with translate_errors(backend.address):
        # A backend that has deleted a schedule no longer notices how its runs end.
        client.disable_recurring_run(found.recurring_run_id)
    namespace = namespace_of(client, backend, found.experiment_id)
    for run in _alive(client, backend, found):
        say(f"terminating {run.display_name}")
        if reason := terminate_run(client, backend, run, namespace, say):
            warn(reason)
    with translate_errors(backend.address):
        client.delete_recurring_run(found.recurring_run_id)
    return str(found.display_name)


def _alive(
    client: kfp.Client, backend: KfpConnection, schedule: kfp_server_api.V2beta1RecurringRun
) -> list[kfp_server_api.V2beta1Run]:
    """Return the runs of a schedule that have not ended."""
    with translate_errors(backend.address):
        runs = list(pages(client.list_runs, "runs", experiment_id=schedule.experiment_id))
    return [run for run in runs if run.recurring_run_id == schedule.recurring_run_id and run.state not in ENDED]


def _when(trigger: kfp_server_api.V2beta1Trigger | None) -> str:
    if trigger and trigger.cron_schedule:
        return str(trigger.cron_schedule.cron)
    if trigger and trigger.periodic_schedule:
        return f"every {trigger.periodic_schedule.interval_second} s"
    return ""
