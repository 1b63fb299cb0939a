"""Cost estimate of training runs before submission, and confirmation of costs above a limit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qcnn.cli.options.settings import options_as, yes_option
from qcnn.cli.output import ask
from qcnn.errors import ConfigError
from qcnn.jobs.pricing import load_default_prices, prices_from
from qcnn.yaml_files import read_file

if TYPE_CHECKING:
    from qcnn.costs.platforms import PricingPlatform
    from qcnn.costs.scaling import ScalingOption
    from qcnn.experiment.config import ExperimentConfig
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.planning.machine import MachineProfile


# Returns the platform of pods with these settings, at these prices.
OnPlatform = Callable[["PodSettings", "Prices"], "PricingPlatform"]


def read_prices(file: Path | None) -> Prices:
    """Return the prices of a file, or the default prices.

    Raises:
        ConfigError: If the file cannot be read or a price is invalid.
    """
    return prices_from(read_file(file, "prices")) if file else load_default_prices()


def format_usd(value: float | None) -> str:
    """Return an amount in USD as text, rounded to cents, or an empty text for None.

    >>> format_usd(1234.5), format_usd(0.004)
    ('1,234.50', 'below 0.01')
    """
    if value is None:
        return ""
    return "below 0.01" if value < 0.01 else f"{value:,.2f}"


def about_usd(value: float) -> str:
    """Return an estimate in USD as text.

    >>> about_usd(1234.5), about_usd(0.004)
    ('about 1,234.50 USD', 'below 0.01 USD')
    """
    text = format_usd(value)
    return f"{text} USD" if text.startswith("below") else f"about {text} USD"


# In USD.
_DEFAULT_LIMIT = 10.0
# The trials of a study have similar costs, so only this number of them is estimated.
_MAX_ESTIMATED_TRIALS = 8


@dataclasses.dataclass(frozen=True)
class CostOptions:
    """Options of the cost estimate.

    Attributes:
        limit: Estimated cost in USD above which the user must confirm.
        yes: Whether to skip the confirmation.
        prices: Price list, or None for the default prices.

    Raises:
        ConfigError: If the limit is negative or not finite.
    """

    limit: float
    yes: bool
    prices: Path | None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.limit) and self.limit >= 0):
            raise ConfigError(f"cost_limit: must be a number of USD, at least 0. Given: {self.limit}")


prices_option = click.option(
    "--prices",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Path to a price list (YAML).  [default: the price list of qcnn]",
)
# Adds --cost-limit, --yes and --prices to a command, and passes it `cost`.
cost_options = options_as(
    "cost",
    lambda cost_limit, yes, prices: CostOptions(cost_limit, yes, prices),
    click.option(
        "--cost-limit",
        type=float,
        envvar="QCNN_COST_LIMIT",
        default=_DEFAULT_LIMIT,
        show_default=True,
        metavar="USD",
        help="Prompt if the estimated cost exceeds this amount (USD).",
    ),
    yes_option,
    prices_option,
)


def confirm_cost(
    cost: CostOptions, platform: OnPlatform, pod: PodSettings | None, trials: Sequence[ExperimentConfig]
) -> None:
    """Print the estimated cost of training runs on stderr, and prompt if it exceeds the limit.

    If the cost cannot be estimated, print the reason instead.

    Args:
        cost: Limit, prices and whether to skip the prompt.
        platform: Returns the platform of the pods.
        pod: Settings of the pods, or None if they are unknown.
        trials: Experiments to train.

    Raises:
        ConfigError: If the prices are invalid, or the estimate exceeds the limit without a terminal.
    """
    if pod is None:
        click.echo("no cost estimate: the compiled pipeline does not define the resources of its pods", err=True)
        return
    prices = read_prices(cost.prices)
    try:
        estimates = _estimate_trials(platform, pod, prices, trials)
    except (ConfigError, ImportError) as error:
        click.echo(f"no cost estimate: {error}", err=True)
        return
    scale = len(trials) / len(estimates)
    dollars = scale * sum(estimate.bill.charged(pod.spot) for estimate in estimates)
    click.echo(_line(len(trials), estimates, scale, dollars, pod, prices), err=True)
    if dollars <= cost.limit or cost.yes:
        return
    message = (
        f"cost_limit: must be at least the estimated cost, {about_usd(dollars)}; pass --yes or a higher "
        f"--cost-limit. Given: {cost.limit:g}"
    )
    ask(f"The estimated cost exceeds {cost.limit:g} USD. Submit?", message, err=True)


def _estimate_trials(
    platform: OnPlatform, pod: PodSettings, prices: Prices, trials: Sequence[ExperimentConfig]
) -> list[ScalingOption]:
    """Return the estimates of evenly spaced trials, with their own number of workers."""
    from qcnn.costs.scaling import compare_worker_counts
    from qcnn.planning.plan import count

    pods_platform = platform(pod, prices)
    machine = _machine()
    sample = trials[:: math.ceil(len(trials) / _MAX_ESTIMATED_TRIALS)]
    return [
        compare_worker_counts(trial, count(trial, is_remote=True), pods_platform, machine, pod.spot).requested
        for trial in sample
    ]


def _machine() -> MachineProfile:
    """Return the cached profile of the local machine, or a nominal profile."""
    from importlib.metadata import PackageNotFoundError

    from qcnn.planning.machine import NOMINAL_MACHINE
    from qcnn.planning.machine_cache import load

    try:
        cached = load()
    except PackageNotFoundError:
        # Without TensorFlow there is no cached profile.
        cached = None
    return cached.machine if cached else NOMINAL_MACHINE


def _line(
    trials: int, estimates: Sequence[ScalingOption], scale: float, dollars: float, pod: PodSettings, prices: Prices
) -> str:
    from qcnn.planning.training_estimate import format_duration

    seconds = scale * sum(estimate.seconds for estimate in estimates)
    hours = scale * sum(estimate.bill.hours for estimate in estimates)
    bill = estimates[0].bill
    title = "training" if trials == 1 else f"{trials} sequential training runs"
    is_short = not all(estimate.fits for estimate in estimates)
    memory = "; the processes need more memory than their pods request" if is_short else ""
    gpus = "; the time on GPUs is from data sheets" if any(estimate.on_gpu for estimate in estimates) else ""
    machines = f"{bill.machines} x {bill.machine}{' (Spot)' if pod.spot else ''}"
    return (
        f"estimate: {title} {format_duration(seconds)} on {machines}, {hours:.2g} machine hours, {about_usd(dollars)} "
        f"at the prices of {prices.region} on {prices.date}{memory}{gpus}"
    )
