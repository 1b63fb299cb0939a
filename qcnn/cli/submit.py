"""qcnn submit, and qcnn study of a target: sent to a cluster or a cloud; schedules are sent the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from qcnn.cli.jobs import follow, wait
from qcnn.cli.options.cost import CostOptions, confirm_cost, cost_options
from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.search import STUDY_HELP, SearchOptions, read_study, search_options
from qcnn.cli.options.settings import OutputOptions, flags_of, options_as, sending_options, settings_options
from qcnn.cli.output import print_requests, show_rows, warn_of_gpu_image
from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.targets.base import Predicts, Prepared, ReadsJobs, RunsStudies, Schedules, Submits, Submitted
from qcnn.targets.errors import logs_to_stderr
from qcnn.targets.settings import connection_of, described

_OUTCOMES = {"created": "is created", "adopted": "runs already", "succeeded": "has already succeeded"}


class Ending:
    """Whether a job is waited for, and what is shown meanwhile.

    Raises:
        ConfigError: both are asked for.
    """

    def __init__(self, *, is_waited: bool, is_followed: bool) -> None:
        if is_waited and is_followed:
            raise ConfigError("follow: shows lines where --wait shows states; takes one of them. Given: both")
        self.is_waited, self.is_followed = is_waited, is_followed


# Gives a command --wait and --follow, and hands it `ending`.
ending_options = options_as(
    "ending",
    lambda is_waited, is_followed: Ending(is_waited=is_waited, is_followed=is_followed),
    click.option(
        "--wait",
        "is_waited",
        is_flag=True,
        help="Show how its state changes until it has ended; fail where it fails.",
    ),
    click.option(
        *("-f", "--follow"),
        "is_followed",
        is_flag=True,
        help="Show what its processes print until it has ended; fail where it fails.",
    ),
)


def submit_command(target: Submits) -> click.Command:
    """Return the command of a target."""

    @ending_options
    @sending_options(target.requests_are)
    @settings_options(target.settings, target.name)
    @cost_options
    @experiment_options
    def submit(
        ending: Ending, sending: OutputOptions, settings: Any, cost: CostOptions, words: ExperimentOptions
    ) -> None:
        experiment = words.experiment()
        prepared = target.prepare(experiment, settings)
        send(target, prepared, settings, cost, [experiment], sending, ending)

    return click.command("submit", help=f"Submit an experiment to {target.title}.\n\n{target.notes}")(submit)


def send(
    target: Submits,
    prepared: Prepared,
    settings: Any,
    cost: CostOptions,
    trials: Sequence[ExperimentConfig],
    sending: OutputOptions,
    ending: Ending,
) -> None:
    """Submit a job, and print where it is; or print the requests that would do it, and ask nothing of a network.

    What training its `trials` is estimated to cost is said before.

    Raises:
        ConfigError: the target refuses it, or it costs more than it may.
        StepError: the job that was waited for failed.
    """
    if sending.dry_run and (ending.is_waited or ending.is_followed):
        flag = "--follow" if ending.is_followed else "--wait"
        raise ConfigError(f"dry_run: creates nothing that could be followed. Given: --dry-run {flag}")
    done = submitted(target, prepared, cost, trials, sending)
    if done is None:
        return
    connection = connection_of(target.connection, settings)
    if sending.form == "text":
        click.echo(f"{target.job_kind} {done.job} {_OUTCOMES[done.outcome]} in {target.place(connection)}")
    rows = _rows(target, done, connection)
    show_rows(sending.form, {"job": done.job, **rows} if sending.form == "json" else rows)
    if done.outcome == "succeeded" or not isinstance(target, ReadsJobs):
        return
    if ending.is_followed:
        restarts = trials[0].options.max_restarts if len(trials) == 1 else None
        follow(target, done.job, connection, sending.form, restarts)
    elif ending.is_waited:
        wait(target, done.job, connection, sending.form)


def submitted(
    target: Submits | Schedules,
    prepared: Prepared,
    cost: CostOptions,
    trials: Sequence[ExperimentConfig],
    sending: OutputOptions,
) -> Submitted | None:
    """Return what submitting creates; None where the requests that would do it are printed instead.

    Raises:
        ConfigError: the target refuses it, or it costs more than it may.
    """
    if prepared.pod:
        warn_of_gpu_image(prepared.pod)
    if sending.dry_run:
        print_requests(prepared.requests(), target.requests_are, sending.form)
        return None
    confirm_cost(cost, target.platform, prepared.pod, trials)
    with logs_to_stderr():
        return prepared.submit()


def _rows(target: Submits, done: Submitted, connection: Any) -> Mapping[str, str]:
    """Return where a job writes, and the page or the commands by which people look at it."""
    rows = {**done.outputs, **({"look at it": done.page} if done.page else {}), **done.pages}
    where = f" --target {target.name}{flags_of(connection)}"
    if isinstance(target, ReadsJobs):
        if not done.page:
            rows["look at it"] = f"qcnn status {done.job}{where}"
        rows["follow it"] = f"qcnn logs -f {done.job}{where}"
        if isinstance(target, Predicts) and any(each.name == "job" for each in described(target.predict_settings)):
            rows["predict"] = f"qcnn predict {done.job}{where}"
        rows["delete it"] = f"qcnn delete {done.job}{where}"
    return rows


def study_command(target: RunsStudies) -> click.Command:
    """Return the command of a target, which trains several trials at the same time."""

    @search_options
    @ending_options
    @sending_options(target.requests_are)
    @settings_options(target.study_settings, target.name)
    @cost_options
    @experiment_options
    def study(
        search: SearchOptions,
        ending: Ending,
        sending: OutputOptions,
        settings: Any,
        cost: CostOptions,
        words: ExperimentOptions,
    ) -> None:
        asked = read_study(search, words)
        send(target, target.prepare_study(asked, settings), settings, cost, asked.trials, sending, ending)

    return click.command("study", help=STUDY_HELP)(study)
