"""Schedules of a KFP backend: list, enable, disable and delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError
from qcnn.targets.base import ReportLine, ScheduleStatus
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
    """Settings of a schedule and its runs.

    Raises:
        ConfigError: If there is not exactly one of `cron` and `interval`, or it is malformed.
    """

    cron: str | None = setting(
        'Cron expression in the time zone of the backend, such as "0 9 * * MON-FRI".', None, metavar="FIELDS"
    )
    interval: str | None = setting("Interval between runs, such as 90s, 10m, 2h or 1d.", None, metavar="TIME")
    max_concurrency: int = setting("Maximum number of concurrent runs.", 1, minimum=1, maximum=10)
    catch_up: bool = setting("Start missed runs later.", False)
    disabled: bool = setting("Create the schedule disabled, until `qcnn schedule enable`.", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.cron) == bool(self.interval):
            given = "both" if self.cron else "none"
            raise ConfigError(f"schedule: must have either --cron or --interval. Given: {given}")
        _ = self.trigger

    @property
    def trigger(self) -> Mapping[str, str]:
        """The trigger as API fields. The API encodes 64-bit integers as text."""
        if self.interval:
            return {"interval_second": str(interval_seconds(self.interval))}
        return {"cron_expression": cron_expression(self.cron or "")}

    @property
    def mode(self) -> Mapping[str, Any]:
        """The concurrency, catch-up and state of the schedule, as API fields."""
        return {
            "max_concurrency": self.max_concurrency,
            "no_catchup": not self.catch_up,
            "enabled": not self.disabled,
        }


def list_schedules(backend: KfpConnection) -> Sequence[ScheduleStatus]:
    """Return all schedules of a backend.

    Raises:
        BackendError: If the backend rejects the request or is unavailable.
    """
    client = connect(backend)
    with translate_errors(backend.address):
        found = list(pages(client.list_recurring_runs, "recurring_runs", namespace=backend.namespace))
    return [
        ScheduleStatus(
            each.display_name,
            each.recurring_run_id,
            _format_trigger(each.trigger),
            str(each.status or each.mode).lower(),
            int(each.max_concurrency),
            catch_up=not each.no_catchup,
        )
        for each in found
    ]


def switch_schedule(name: str, backend: KfpConnection, *, enabled: bool, dry_run: bool) -> str:
    """Enable or disable a schedule and return its name.

    Args:
        name: ID or name of the schedule.
        backend: Connection settings.
        enabled: Whether to enable it.
        dry_run: Whether to leave the schedule unchanged.

    Raises:
        BackendError: If the schedule does not exist, or the backend rejects the request or is unavailable.
    """
    client = connect(backend)
    found = find_schedule(client, backend, name)
    if not dry_run:
        with translate_errors(backend.address):
            switch = client.enable_recurring_run if enabled else client.disable_recurring_run
            switch(found.recurring_run_id)
    return str(found.display_name)


def would_delete_schedule(name: str, backend: KfpConnection) -> tuple[str, Sequence[str]]:
    """Return the name of a schedule, by its ID or name, and its active runs.

    Raises:
        BackendError: If the schedule does not exist, or the backend rejects the request or is unavailable.
    """
    client = connect(backend)
    found = find_schedule(client, backend, name)
    return str(found.display_name), [run.display_name for run in _alive(client, backend, found)]


def delete_schedule(name: str, backend: KfpConnection, report: ReportLine, warn: ReportLine) -> str:
    """Terminate the runs of a schedule, delete it, and return its name.

    Args:
        name: ID or name of the schedule.
        backend: Connection settings.
        report: Callback for status lines.
        warn: Callback for runs that could not be terminated.

    Raises:
        BackendError: If the schedule does not exist, or the backend rejects the request or is unavailable.
    """
    client = connect(backend)
    found = find_schedule(client, backend, name)
    with translate_errors(backend.address):
        # KFP does not update the runs of a deleted schedule, so they must end before it is deleted.
        client.disable_recurring_run(found.recurring_run_id)
    namespace = namespace_of(client, backend, found.experiment_id)
    for run in _alive(client, backend, found):
        report(f"terminating {run.display_name}")
        if reason := terminate_run(client, backend, run, namespace, report):
            warn(reason)
    with translate_errors(backend.address):
        client.delete_recurring_run(found.recurring_run_id)
    return str(found.display_name)


def _alive(
    client: kfp.Client, backend: KfpConnection, schedule: kfp_server_api.V2beta1RecurringRun
) -> list[kfp_server_api.V2beta1Run]:
    """Return the active runs of a schedule."""
    with translate_errors(backend.address):
        runs = list(pages(client.list_runs, "runs", experiment_id=schedule.experiment_id))
    return [run for run in runs if run.recurring_run_id == schedule.recurring_run_id and run.state not in ENDED]


def _format_trigger(trigger: kfp_server_api.V2beta1Trigger | None) -> str:
    if trigger and trigger.cron_schedule:
        return str(trigger.cron_schedule.cron)
    if trigger and trigger.periodic_schedule:
        return f"every {trigger.periodic_schedule.interval_second} s"
    return ""
