"""Schedules of a KFP backend: list, enable, disable and delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.targets.base import Prepared, ReportLine, Schedules, ScheduleStatus, Submitted
from qcnn.targets.cluster import P_contra
from qcnn.targets.compiled_pipeline import (
    RegistrationFields,
    check_arguments,
    compile_for_schedule,
    main_inputs,
    pod_settings_in,
    read_package,
)
from qcnn.targets.cron import cron_expression, interval_seconds
from qcnn.targets.kubeflow.bound import KubeflowBound
from qcnn.targets.kubeflow.client import KfpBackend, page_of, translate_errors
from qcnn.targets.kubeflow.runs import ENDED, find_schedule, namespace_of, pages, terminate_run
from qcnn.targets.kubeflow.submission import RunSettings, create_schedule, request
from qcnn.targets.settings import setting

if TYPE_CHECKING:
    import kfp_server_api


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleSettings(RegistrationFields, RunSettings):
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


class KubeflowSchedules(KubeflowBound[P_contra], Schedules[ScheduleSettings]):
    """Schedules of the target kubeflow."""

    schedule_settings: ClassVar[type[ScheduleSettings]] = ScheduleSettings

    @override
    def prepare_schedule(self, experiment: ExperimentConfig, settings: ScheduleSettings) -> Prepared:
        """Compile the pipeline, and return a recurring run of it. The run name is also the name of the schedule."""
        with compile_for_schedule(settings, settings.registration(settings.package), type(self)) as package:
            documents = read_package(package, type(self))
        inputs = main_inputs(experiment, per_run_seed=True)
        arguments = inputs.arguments
        name = settings.run_name or settings.experiment
        check_arguments(documents[0], arguments)
        times, mode = settings.trigger, settings.mode

        def create() -> Submitted:
            as_text = {"max_concurrency": str(settings.max_concurrency)}
            schedule = create_schedule(self.backend, documents, arguments, name, settings, {**times, **mode, **as_text})
            return Submitted(schedule, page=page_of(settings, f"recurringrun/details/{schedule}"))

        return Prepared(
            lambda: [{**request(documents, arguments, name, settings), **times, **mode}],
            lambda: self.backend.client,
            create,
            pod_settings_in(documents[0]),
            inputs.trials,
        )

    @override
    def list_schedules(self) -> Sequence[ScheduleStatus]:
        backend = self.backend
        with translate_errors(backend.address):
            found = list(pages(backend.client.list_recurring_runs, "recurring_runs", namespace=backend.namespace))
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

    @override
    def switch_schedule(self, name: str, *, enabled: bool, dry_run: bool) -> str:
        client = self.backend.client
        found = find_schedule(self.backend, name)
        if not dry_run:
            with translate_errors(self.backend.address):
                switch = client.enable_recurring_run if enabled else client.disable_recurring_run
                switch(found.recurring_run_id)
        return str(found.display_name)

    @override
    def would_delete_schedule(self, name: str) -> tuple[str, Sequence[str]]:
        found = find_schedule(self.backend, name)
        return str(found.display_name), [run.display_name for run in _alive(self.backend, found)]

    @override
    def delete_schedule(self, name: str, report: ReportLine, warn: ReportLine) -> str:
        backend = self.backend
        found = find_schedule(backend, name)
        with translate_errors(backend.address):
            # KFP does not update the runs of a deleted schedule, so they must end before it is deleted.
            backend.client.disable_recurring_run(found.recurring_run_id)
        namespace = namespace_of(backend, found.experiment_id)
        for run in _alive(backend, found):
            report(f"terminating {run.display_name}")
            if reason := terminate_run(backend, run, namespace, report):
                warn(reason)
        with translate_errors(backend.address):
            backend.client.delete_recurring_run(found.recurring_run_id)
        return str(found.display_name)


def _alive(backend: KfpBackend, schedule: kfp_server_api.V2beta1RecurringRun) -> list[kfp_server_api.V2beta1Run]:
    """Return the active runs of a schedule."""
    with translate_errors(backend.address):
        runs = list(pages(backend.client.list_runs, "runs", experiment_id=schedule.experiment_id))
    return [run for run in runs if run.recurring_run_id == schedule.recurring_run_id and run.state not in ENDED]


def _format_trigger(trigger: kfp_server_api.V2beta1Trigger | None) -> str:
    if trigger and trigger.cron_schedule:
        return str(trigger.cron_schedule.cron)
    if trigger and trigger.periodic_schedule:
        return f"every {trigger.periodic_schedule.interval_second} s"
    return ""
