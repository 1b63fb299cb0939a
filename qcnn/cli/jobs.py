"""qcnn status, logs, delete and terminate: jobs of a target, looked at, followed, deleted and ended."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from tabulate import tabulate

from qcnn.cli.options.settings import Decorator, flags_of, form_option, settings_options, shown_only_option
from qcnn.cli.output import confirm, format_duration, show_table, stdout_to_stderr
from qcnn.errors import ConfigError
from qcnn.startup import terminated_as_interrupt
from qcnn.targets.base import Deletable, JobStatus, PartStatus, ReadsJobs, Selection, Terminates

_JOBS = ("job", "name", "state", "processes", "restarts", "age", "duration")
_PARTS = ("part", "runs as", "state", "exit code", "duration", "reason")
_FOUND = ("kind", "job", "name", "run", "state")


def status_command(target: ReadsJobs) -> click.Command:
    """Return qcnn status of a target."""

    @click.argument("name", required=False, metavar="[JOB]")
    @_experiment_option(target)
    @settings_options(target.connection, target.name, "connection")
    @form_option
    def status(name: str | None, experiment: str | None, connection: Any, form: str) -> None:
        if name is not None:
            job = target.get_job(name, connection)
            click.echo(json.dumps(dataclasses.asdict(job)) if form == "json" else _described(job))
            return
        jobs = target.list_jobs(connection, experiment)
        if form == "json":
            click.echo(json.dumps([dataclasses.asdict(job) for job in jobs]))
        elif jobs:
            click.echo(_table(jobs))
        else:
            click.echo(f"no {target.job_kind} of qcnn in {target.place(connection)}", err=True)

    return click.command(
        "status",
        help=f"Print a table of the jobs that qcnn made in {target.title}, or one of them and its parts.\n\n"
        "JOB is its name or id there, or the name that it was given. Restarts are counted as far back as is known.",
    )(status)


def logs_command(target: ReadsJobs) -> click.Command:
    """Return qcnn logs of a target."""

    @click.argument("name", metavar="JOB")
    @click.option(
        *("-f", "--follow"),
        "is_followed",
        is_flag=True,
        help="Go on until the job has ended; fail if the job failed.",
    )
    @settings_options(target.connection, target.name, "connection")
    def logs(name: str, is_followed: bool, connection: Any) -> None:
        if is_followed:
            follow(target, name, connection)
            return
        for line in target.logs(name, connection, follow=False):
            click.echo(line)

    return click.command(
        "logs",
        help="Print what the processes of JOB have printed, in the order of time, each line with a process' or step's "
        "name.",
    )(logs)


def follow(target: ReadsJobs, job: str, connection: Any, form: str = "text", restarts: int | None = None) -> None:
    """Show what a job prints until it has ended; Ctrl-C stops only the showing.

    Raises:
        StepError: it failed.
    """
    _watched(target, job, connection, form, lambda: target.follow(job, connection, click.echo, restarts))


def wait(target: ReadsJobs, job: str, connection: Any, form: str) -> None:
    """Show the states of a job until it has ended; Ctrl-C stops only the showing.

    Raises:
        StepError: it failed.
    """
    _watched(target, job, connection, form, lambda: target.wait(job, connection, click.echo))


def _watched(target: ReadsJobs, job: str, connection: Any, form: str, watch: Callable[[], None]) -> None:
    try:
        with stdout_to_stderr(form), terminated_as_interrupt():
            watch()
    except KeyboardInterrupt:
        again = f"qcnn logs -f {job} --target {target.name}{flags_of(connection)}"
        click.echo(f"\nnot followed any more; the training goes on. Again: {again}", err=True)
        raise


def delete_command(target: ReadsJobs) -> click.Command:
    """Return qcnn delete of a target."""

    @click.argument("names", nargs=-1, metavar="[JOB]...")
    @_selection_options(target)
    @settings_options(target.connection, target.name, "connection")
    @form_option
    @shown_only_option
    @click.option("--yes", is_flag=True, help="Delete without asking.")
    def delete(names: tuple[str, ...], connection: Any, form: str, dry_run: bool, yes: bool, **chosen: Any) -> None:
        selection = Selection(names, **chosen)
        _check_one_given(target, selection)
        found = target.find(selection, connection)
        show_table(form, _FOUND, _found_rows(found), f"nothing to delete in {target.place(connection)}")
        if dry_run or not found:
            return
        confirm(len(found), yes)
        if selection.orphans:
            # What they belong to may have come back meanwhile.
            still = {(each.kind, each.job) for each in target.find(selection, connection)}
            found = [each for each in found if (each.kind, each.job) in still]
        target.delete_found(found, connection)
        click.echo("deleted", err=form == "json")

    return click.command(
        "delete",
        help="Show jobs with all that belongs to them, and delete them; wait until they are gone.\n\n"
        f"{target.delete_notes}",
    )(delete)


def terminate_command(target: Terminates) -> click.Command:
    """Return qcnn terminate of a target."""

    @click.argument("run")
    @click.option(
        "--timeout",
        type=click.FloatRange(0),
        default=target.patience,
        show_default=True,
        help="Seconds to wait for the run to stop.",
    )
    @shown_only_option
    @settings_options(target.connection, target.name, "connection")
    def terminate(run: str, timeout: float, dry_run: bool, connection: Any) -> None:
        if dry_run:
            click.echo(target.would_terminate(run, connection))
        else:
            target.terminate(run, connection, click.echo, timeout)

    return click.command(
        "terminate",
        help=f"Terminate RUN, its id or name, of {target.title}, and wait for its end.\n\n"
        "Its trainings are ended first, where they can be reached.",
    )(terminate)


def _table(jobs: Sequence[JobStatus]) -> str:
    return tabulate([_row(job) for job in jobs], headers=_JOBS, disable_numparse=True)


def _row(job: JobStatus) -> tuple[str, ...]:
    processes = "" if job.processes is None else str(job.processes)
    if job.running is not None:
        processes = f"{job.running}/{processes}"
    restarts = "" if job.restarts is None else str(job.restarts)
    return (job.job, job.name, job.state, processes, restarts, format_duration(job.age), format_duration(job.duration))


def _described(job: JobStatus) -> str:
    """Return a job as it is told to people: its row, its parts, where it writes, and its page."""
    parts = [_part(part) for part in job.parts]
    outputs = tabulate(job.outputs.items(), tablefmt="plain", disable_numparse=True)
    table = tabulate(parts, headers=_PARTS, disable_numparse=True) if parts else ""
    return "\n\n".join(filter(None, (_table([job]), job.message, table, outputs, job.page)))


def _part(part: PartStatus) -> tuple[str, ...]:
    code = "" if part.exit_code is None else str(part.exit_code)
    return (part.name, part.resource, part.state, code, format_duration(part.duration), part.reason)


def _found_rows(found: Sequence[Deletable]) -> list[tuple[str, ...]]:
    return [(each.kind, each.job, each.name, each.run, each.state) for each in found]


_EXPERIMENT = click.option("--experiment", metavar="NAME", help="Runs of this experiment alone.")
# By the fields of `Selection`.
_SELECTIONS: Mapping[str, tuple[str, Decorator]] = {
    "run": (
        "--run",
        click.option("--run", metavar="NAME", help="Everything that belongs to the run of exactly this name."),
    ),
    "experiment": ("--experiment", click.option("--experiment", metavar="NAME", help="All runs of this experiment.")),
    "orphans": (
        "--orphans",
        click.option("--orphans", is_flag=True, help="What nobody follows any more: its launcher or its run is gone."),
    ),
    "everything": ("--all", click.option("--all", "everything", is_flag=True, help="Everything that qcnn made there.")),
}


def _experiment_option(target: ReadsJobs) -> Decorator:
    """Return a decorator that gives a command --experiment where jobs have one; else it is handed None."""
    if target.has_experiments:
        return _EXPERIMENT

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(**values: Any) -> Any:
            return command(experiment=None, **values)

        return called

    return decorate


def _selection_options(target: ReadsJobs) -> Decorator:
    """Return a decorator that gives a command the flags by which a target knows what is to be deleted."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(target.selections):
            if name == "kind":
                command = click.option(
                    "--kind", type=click.Choice(target.kinds), help="Of --run only these: trainings, or predictions."
                )(command)
            else:
                command = _SELECTIONS[name][1](command)
        return command

    return decorate


def _check_one_given(target: ReadsJobs, selection: Selection) -> None:
    """Refuse all but exactly one of the ways to say what is to be deleted.

    Raises:
        ConfigError: there are none, or several.
    """
    given = {"JOB": bool(selection.names)}
    for name in target.selections:
        if name in _SELECTIONS:
            given[_SELECTIONS[name][0]] = getattr(selection, name) not in (None, False)
    if sum(given.values()) != 1:
        words = " ".join(word for word, is_given in given.items() if is_given) or "none"
        raise ConfigError(f"delete: takes one of {', '.join(given)}. Given: {words}")
