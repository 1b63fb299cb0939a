"""qcnn submit and qcnn study of a target: submission of jobs, which schedules share."""

from __future__ import annotations

from collections.abc import Mapping

import click

from qcnn.cli.jobs import follow, wait
from qcnn.cli.options.cost import CostOptions, confirm_cost, cost_options
from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.search import STUDY_NOTES, SearchOptions, read_study, search_options
from qcnn.cli.options.settings import (
    OutputOptions,
    follow_option,
    options_as,
    output_options,
    settings_options,
    target_flags,
)
from qcnn.cli.output import on_stderr, print_requests, report_gpu_image, report_unpinned_image, show_rows
from qcnn.errors import ConfigError
from qcnn.planning.checks import SUBMITTED, check_experiments, on_gpus
from qcnn.targets.base import (
    Compiles,
    Predicts,
    Prepared,
    Prepares,
    ReadsJobs,
    RunsStudies,
    Submits,
    Submitted,
    TargetSettings,
)
from qcnn.targets.errors import logs_to_stderr
from qcnn.targets.settings import describe_settings

_OUTCOMES = {"created": "is created", "adopted": "already runs", "succeeded": "has already succeeded"}


class WaitOptions:
    """Options to wait for a job and to stream its logs.

    Raises:
        ConfigError: If both are requested.
    """

    def __init__(self, *, should_wait: bool, should_follow: bool) -> None:
        if should_wait and should_follow:
            raise ConfigError("follow: must be given without --wait. Given: both")
        self.should_wait, self.should_follow = should_wait, should_follow


# Adds --wait and --follow to a command, and passes it `waiting`.
wait_options = options_as(
    "waiting",
    lambda should_wait, should_follow: WaitOptions(should_wait=should_wait, should_follow=should_follow),
    click.option(
        "--wait",
        "should_wait",
        is_flag=True,
        help="Wait for the job to end and print state changes. Fail if the job fails.",
    ),
    follow_option,
)


def submit_command(kind: type[Submits[TargetSettings]]) -> click.Command:
    """Return the submit command of a target."""

    @wait_options
    @output_options(kind.requests_are)
    @settings_options(kind.submit_settings, kind.name)
    @cost_options
    @experiment_options
    def submit(
        waiting: WaitOptions,
        printing: OutputOptions,
        settings: TargetSettings,
        cost: CostOptions,
        options: ExperimentOptions,
    ) -> None:
        with kind(settings) as target:
            send(target, target.prepare(options.experiment(), settings), cost, printing, waiting)

    return click.command("submit", help=f"Submit an experiment to {kind.title}.\n\n{kind.notes}")(submit)


def send(
    target: Prepares, prepared: Prepared, cost: CostOptions, printing: OutputOptions, waiting: WaitOptions
) -> None:
    """Submit a job and print its location, or print its requests with --dry-run.

    Args:
        target: Target of the job.
        prepared: Job to submit.
        cost: Options of the cost estimate, which is printed before submission.
        printing: Output format, and whether to print the requests without sending them.
        waiting: Whether to wait for the job.

    Raises:
        ConfigError: If the target rejects the job, or the cost exceeds the limit.
        StepError: If the job fails while this command waits for it.
    """
    if printing.dry_run and (waiting.should_wait or waiting.should_follow):
        flag = "--follow" if waiting.should_follow else "--wait"
        raise ConfigError(f"dry_run: must be given without --wait and --follow. Given: --dry-run {flag}")
    submitted = submit_prepared(target, prepared, cost, printing)
    if submitted is None:
        return
    if printing.output_format == "text":
        click.echo(f"{target.job_kind} {submitted.job} {_OUTCOMES[submitted.outcome]} in {target.place()}")
    rows = _rows(target, submitted)
    show_rows(printing.output_format, {"job": submitted.job, **rows} if printing.output_format == "json" else rows)
    if submitted.outcome == "succeeded" or not isinstance(target, ReadsJobs):
        return
    if waiting.should_follow:
        restarts = prepared.trials[0].options.max_restarts if len(prepared.trials) == 1 else None
        follow(target, submitted.job, printing.output_format, restarts)
    elif waiting.should_wait:
        wait(target, submitted.job, printing.output_format)


def submit_prepared(
    target: Prepares,
    prepared: Prepared,
    cost: CostOptions,
    printing: OutputOptions,
) -> Submitted | None:
    """Submit a job after confirmation of its cost and return it, or print its requests with --dry-run.

    An unavailable target is reported before the cost.

    Args:
        target: Target of the job.
        prepared: Job to submit.
        cost: Options of the cost estimate.
        printing: Output format, and whether to print the requests without sending them.

    Returns:
        The submitted job, or None with --dry-run.

    Raises:
        ConfigError: If an experiment cannot be trained, the target rejects the job, or the cost exceeds the limit.
    """
    gpus = prepared.pod.for_role("worker").gpus if prepared.pod else 0
    check_experiments(prepared.trials, on_gpus(SUBMITTED, gpus), on_stderr)
    if prepared.pod:
        report_gpu_image(prepared.pod)
        if isinstance(target, Compiles):
            report_unpinned_image(prepared.pod)
    if printing.dry_run:
        print_requests(prepared.requests(), target.requests_are, printing.output_format)
        return None
    with logs_to_stderr():
        prepared.check()
    confirm_cost(cost, target.platform, prepared.pod, prepared.trials)
    with logs_to_stderr():
        return prepared.submit()


def _rows(target: Prepares, submitted: Submitted) -> Mapping[str, str]:
    """Return the output locations of a job, its web pages and its commands by JSON key."""
    job = submitted.job
    rows = {**submitted.outputs, **({"look at it": submitted.page} if submitted.page else {}), **submitted.pages}
    flags = target_flags(target)
    if isinstance(target, ReadsJobs):
        if not submitted.page:
            rows["look at it"] = f"qcnn status {job}{flags}"
        rows["follow it"] = f"qcnn logs -f {job}{flags}"
        if isinstance(target, Predicts) and any(
            each.name == "job" for each in describe_settings(target.predict_settings)
        ):
            rows["predict"] = f"qcnn predict {job}{flags}"
        rows["delete it"] = f"qcnn delete {job}{flags}"
    return rows


def study_command(kind: type[RunsStudies[TargetSettings]]) -> click.Command:
    """Return the study command of a target."""

    @search_options
    @wait_options
    @output_options(kind.requests_are)
    @settings_options(kind.study_settings, kind.name)
    @cost_options
    @experiment_options
    def study(
        search: SearchOptions,
        waiting: WaitOptions,
        printing: OutputOptions,
        settings: TargetSettings,
        cost: CostOptions,
        options: ExperimentOptions,
    ) -> None:
        plan = read_study(search, options)
        with kind(settings) as target:
            send(target, target.prepare_study(plan, settings), cost, printing, waiting)

    help_text = f"Submit a hyperparameter search to {kind.title} as one pipeline run.\n{STUDY_NOTES}"
    return click.command("study", help=help_text)(study)
