"""qcnn status, logs, delete and terminate: management of the jobs of a target."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from tabulate import tabulate

from qcnn.cli.options.settings import (
    Decorator,
    dry_run_option,
    follow_option,
    format_option,
    passing,
    settings_options,
    target_flags,
    yes_option,
)
from qcnn.cli.output import confirm, format_duration, format_table, show_table, stdout_to_stderr
from qcnn.errors import ConfigError
from qcnn.process.signals import terminated_as_interrupt
from qcnn.targets import has_capability
from qcnn.targets.base import (
    Deletable,
    JobStatus,
    PartStatus,
    ReadsContainerLogs,
    ReadsJobs,
    Selection,
    TargetSettings,
    Terminates,
)

_JOB_HEADER = ("job", "name", "state", "processes", "restarts", "age", "duration")
_PART_HEADER = ("part", "runs as", "state", "exit code", "duration", "reason")
_DELETABLE_HEADER = ("kind", "job", "name", "run", "state")


def status_command(kind: type[ReadsJobs]) -> click.Command:
    """Return the status command of a target."""

    @click.argument("name", required=False, metavar="[JOB]")
    @_experiment_option(kind)
    @settings_options(kind.connection_settings, kind.name, "connection")
    @format_option
    def status(name: str | None, experiment: str | None, connection: TargetSettings, output_format: str) -> None:
        with kind(connection) as target:
            if name is not None:
                job = target.get_job(name)
                click.echo(json.dumps(dataclasses.asdict(job)) if output_format == "json" else _details(job))
                return
            jobs = target.list_jobs(experiment)
            if output_format == "json":
                click.echo(json.dumps([dataclasses.asdict(job) for job in jobs]))
            elif jobs:
                click.echo(_table(jobs))
            else:
                click.echo(f"no {kind.job_kind} of qcnn in {target.place()}", err=True)

    return click.command(
        "status",
        help=f"List the jobs that qcnn created in {kind.title}, or show the processes or steps of JOB.\n\n"
        "JOB is the name or ID of the job on the target, or the name given at submission. Restarts are counted from "
        "the available status of the processes.",
    )(status)


def logs_command(kind: type[ReadsJobs]) -> click.Command:
    """Return the logs command of a target."""

    @click.argument("name", metavar="JOB")
    @follow_option
    @_containers_option(kind)
    @settings_options(kind.connection_settings, kind.name, "connection")
    def logs(name: str, should_follow: bool, all_containers: bool, connection: TargetSettings) -> None:
        with kind(connection) as target:
            read = target.container_logs if all_containers and isinstance(target, ReadsContainerLogs) else target.logs

            def echo_lines() -> None:
                for line in read(name, follow=should_follow):
                    click.echo(line)

            if not should_follow:
                echo_lines()
            elif all_containers:
                _watch(target, name, "text", echo_lines)
                target.check_succeeded(name)
            else:
                follow(target, name)

    return click.command(
        "logs",
        help="Print the logs of JOB in chronological order, each line with the name of its process or step.",
    )(logs)


def follow(target: ReadsJobs, job: str, output_format: str = "text", restarts: int | None = None) -> None:
    """Stream the logs of a job until it ends.

    Ctrl-C stops the stream, but not the job.

    Args:
        target: Target of the job.
        job: Name of the job on the target.
        output_format: With "json", the logs go to stderr.
        restarts: Number of restarts after which the job is given up, or None for no limit.

    Raises:
        StepError: If the job fails.
    """
    _watch(target, job, output_format, lambda: target.follow(job, click.echo, restarts))


def wait(target: ReadsJobs, job: str, output_format: str) -> None:
    """Print the state changes of a job until it ends.

    Ctrl-C stops the output, but not the job.

    Args:
        target: Target of the job.
        job: Name of the job on the target.
        output_format: With "json", the states go to stderr.

    Raises:
        StepError: If the job fails.
    """
    _watch(target, job, output_format, lambda: target.wait(job, click.echo))


def _watch(target: ReadsJobs, job: str, output_format: str, watch: Callable[[], object]) -> None:
    try:
        with stdout_to_stderr(output_format), terminated_as_interrupt():
            watch()
    except KeyboardInterrupt:
        command = f"qcnn logs -f {job}{target_flags(target)}"
        click.echo(f"\nstopped following; the job continues. Follow again: {command}", err=True)
        raise


def delete_command(kind: type[ReadsJobs]) -> click.Command:
    """Return the delete command of a target."""

    @click.argument("names", nargs=-1, metavar="[JOB]...")
    @_selection_options(kind)
    @settings_options(kind.connection_settings, kind.name, "connection")
    @format_option
    @dry_run_option
    @yes_option
    def delete(
        names: tuple[str, ...],
        connection: TargetSettings,
        output_format: str,
        dry_run: bool,
        yes: bool,
        **selected: Any,
    ) -> None:
        selection = Selection(names, **selected)
        _check_one_given(kind, selection)
        with kind(connection) as target:
            objects = target.find(selection)
            show_table(
                output_format, _DELETABLE_HEADER, _deletable_rows(objects), f"nothing to delete in {target.place()}"
            )
            if dry_run or not objects:
                return
            confirm(len(objects), yes)
            if selection.orphans:
                # An owner may have been created again since the objects were listed.
                orphans = {(each.kind, each.job) for each in target.find(selection)}
                objects = [each for each in objects if (each.kind, each.job) in orphans]
            target.delete_found(objects)
        click.echo("deleted", err=output_format == "json")

    return click.command(
        "delete",
        help=f"List jobs and their dependent objects, delete them, and wait for the deletion.\n\n{kind.delete_notes}",
    )(delete)


def terminate_command(kind: type[Terminates]) -> click.Command:
    """Return the terminate command of a target."""

    @click.argument("run")
    @click.option(
        "--timeout",
        type=click.FloatRange(0),
        metavar="SECONDS",
        default=kind.patience,
        show_default=True,
        help="Seconds to wait for the run to stop.",
    )
    @dry_run_option
    @settings_options(kind.connection_settings, kind.name, "connection")
    def terminate(run: str, timeout: float, dry_run: bool, connection: TargetSettings) -> None:
        with kind(connection) as target:
            if dry_run:
                click.echo(target.would_terminate(run))
            else:
                target.terminate(run, click.echo, timeout)

    return click.command(
        "terminate",
        help=f"Terminate RUN of {kind.title} and its training jobs, and wait for it to stop.\n\n"
        "RUN is an ID or a name. Training jobs are terminated first, if their API server is reachable.",
    )(terminate)


def _table(jobs: Sequence[JobStatus]) -> str:
    return format_table(_JOB_HEADER, [_row(job) for job in jobs])


def _row(job: JobStatus) -> tuple[str, ...]:
    processes = "" if job.processes is None else str(job.processes)
    if job.running is not None:
        processes = f"{job.running}/{processes}"
    restarts = "" if job.restarts is None else str(job.restarts)
    return (job.job, job.name, job.state, processes, restarts, format_duration(job.age), format_duration(job.duration))


def _details(job: JobStatus) -> str:
    """Return the row of a job, its message, parts, output locations and web page as text."""
    parts = [_part(part) for part in job.parts]
    outputs = tabulate(job.outputs.items(), tablefmt="plain", disable_numparse=True)
    table = format_table(_PART_HEADER, parts) if parts else ""
    return "\n\n".join(filter(None, (_table([job]), job.message, table, outputs, job.page)))


def _part(part: PartStatus) -> tuple[str, ...]:
    code = "" if part.exit_code is None else str(part.exit_code)
    return (part.name, part.resource, part.state, code, format_duration(part.duration), part.reason)


def _deletable_rows(objects: Sequence[Deletable]) -> list[tuple[str, ...]]:
    return [(each.kind, each.job, each.name, each.run, each.state) for each in objects]


_ALL_CONTAINERS = click.option(
    "--all-containers",
    is_flag=True,
    help="Print the lines of all containers of all pods, with those of the platform's executors.",
)


def _containers_option(kind: type[ReadsJobs]) -> Decorator:
    """Return a decorator that adds --all-containers to a command, or passes False if the target has no such logs."""
    return _ALL_CONTAINERS if has_capability(kind, ReadsContainerLogs) else passing(all_containers=False)


_EXPERIMENT = click.option("--experiment", metavar="NAME", help="List only the runs of this experiment.")
# By field of `Selection`.
_SELECTIONS: Mapping[str, tuple[str, Decorator]] = {
    "run": (
        "--run",
        click.option("--run", metavar="NAME", help="Select all objects of the run with exactly this name."),
    ),
    "experiment": (
        "--experiment",
        click.option("--experiment", metavar="NAME", help="Select all runs of this experiment."),
    ),
    "orphans": (
        "--orphans",
        click.option("--orphans", is_flag=True, help="Select objects whose launcher or run no longer exists."),
    ),
    "everything": ("--all", click.option("--all", "everything", is_flag=True, help="Select all objects of qcnn.")),
}


def _experiment_option(kind: type[ReadsJobs]) -> Decorator:
    """Return a decorator that adds --experiment to a command, or passes None if jobs have no experiment."""
    return _EXPERIMENT if kind.has_experiments else passing(experiment=None)


def _selection_options(kind: type[ReadsJobs]) -> Decorator:
    """Return a decorator that adds the selection flags of a target to a command."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(kind.selections):
            if name == "kind":
                command = click.option(
                    "--kind", type=click.Choice(kind.kinds), help="Restrict --run to objects of this kind."
                )(command)
            else:
                command = _SELECTIONS[name][1](command)
        return command

    return decorate


def _check_one_given(kind: type[ReadsJobs], selection: Selection) -> None:
    """Validate that exactly one selection is given.

    Raises:
        ConfigError: If there is no selection, or more than one.
    """
    given = {"JOB": bool(selection.names)}
    for name in kind.selections:
        if name in _SELECTIONS:
            given[_SELECTIONS[name][0]] = getattr(selection, name) not in (None, False)
    if sum(given.values()) != 1:
        selections = " ".join(name for name, is_given in given.items() if is_given) or "none"
        raise ConfigError(f"delete: must have exactly one of {', '.join(given)}. Given: {selections}")
