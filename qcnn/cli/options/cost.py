"""What a training costs, said before it is sent to a cluster or a cloud, and asked about above a limit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qcnn.cli.options.settings import options_as
from qcnn.cli.output import ask
from qcnn.errors import ConfigError
from qcnn.experiment_io import read_file
from qcnn.jobs.pricing import load_default_prices, prices_from

if TYPE_CHECKING:
    from qcnn.components.cost_estimate import PricingPlatform, ScalingOption
    from qcnn.experiment import ExperimentConfig
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.planning.machine import MachineProfile


# What pods with these settings run on, by these prices.
OnPlatform = Callable[["PodSettings", "Prices"], "PricingPlatform"]


def read_prices(file: Path | None) -> Prices:
    """Return the prices of a file, or those that come with this package.

    Raises:
        ConfigError: the file cannot be read, or one line with the first that is wrong in it.
    """
    return prices_from(read_file(file, "prices")) if file else load_default_prices()


def format_usd(value: float | None) -> str:
    """Return dollars as text, to the cent; an empty one for None.

    >>> in_dollars(1234.5), in_dollars(0.004)
    ('1,234.50', 'below 0.01')
    """
    if value is None:
        return ""
    return "below 0.01" if value < 0.01 else f"{value:,.2f}"


def about_dollars(value: float) -> str:
    """Return an estimate in dollars as text.

    >>> about_dollars(1234.5), about_dollars(0.004)
    ('about 1,234.50 dollars', 'below 0.01 dollars')
    """
    text = format_usd(value)
    return f"{text} dollars" if text.startswith("below") else f"about {text} dollars"


# Dollars.
_LIMIT = 10.0
# The trials of a study are much alike: so many of them are estimated.
_TRIALS = 8


@dataclasses.dataclass(frozen=True)
class CostOptions:
    """Above how many dollars to ask, whether that is answered beforehand, and a file of prices.

    Raises:
        ConfigError: the limit is no number of dollars.
    """

    limit: float
    yes: bool
    prices: Path | None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.limit) and self.limit >= 0):
            raise ConfigError(f"cost_limit: must be a number of dollars, at least 0. Given: {self.limit}")


# Gives a command --cost-limit, --yes and --prices, and hands it `cost`.
cost_options = options_as(
    "cost",
    lambda cost_limit, yes, prices: CostOptions(cost_limit, yes, prices),
    click.option(
        "--cost-limit",
        type=float,
        envvar="QCNN_COST_LIMIT",
        default=_LIMIT,
        show_default=True,
        metavar="DOLLARS",
        help="Ask before what is estimated to cost more.",
    ),
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option(
        "--prices",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Machines and what they cost, as for qcnn plan.",
    ),
)


def confirm_cost(
    cost: CostOptions, platform: OnPlatform, pod: PodSettings | None, trials: Sequence[ExperimentConfig]
) -> None:
    """Say on stderr what trainings are estimated to cost where pods run so, and ask about more than the limit.

    Where no estimate can be made, that is said, and nothing is asked.

    Raises:
        ConfigError: the prices are wrong; or the estimate is above the limit, and there is no terminal to ask at.
    """
    if pod is None:
        click.echo("no estimate of the cost: the package does not say what its pods are given", err=True)
        return
    prices = read_prices(cost.prices)
    try:
        ways = _estimated(platform, pod, prices, trials)
    except (ConfigError, ImportError) as error:
        click.echo(f"no estimate of the cost: {error}", err=True)
        return
    share = len(trials) / len(ways)
    bills = [way.bill for way in ways]
    dollars = share * sum(bill.charged(pod.spot) for bill in bills)
    click.echo(_line(len(trials), ways, share, dollars, pod, prices), err=True)
    if dollars <= cost.limit or cost.yes:
        return
    refusal = (
        f"cost_limit: this is estimated to cost {about_dollars(dollars)}; give --yes or a higher "
        f"--cost-limit. Given: {cost.limit:g}"
    )
    ask(f"submit what may cost more than {cost.limit:g} dollars?", refusal, err=True)


def _estimated(
    platform: OnPlatform, pod: PodSettings, prices: Prices, trials: Sequence[ExperimentConfig]
) -> list[ScalingOption]:
    """Return what some of the trials take as they are asked for: all of few, else each of as many steps."""
    from qcnn.components.cost_estimate import compare_worker_counts
    from qcnn.planning.plan import count

    there = platform(pod, prices)
    machine = _machine()
    picked = trials[:: math.ceil(len(trials) / _TRIALS)]
    return [compare_worker_counts(trial, count(trial), there, machine, pod.spot).asked for trial in picked]


def _machine() -> MachineProfile:
    """Return what is known of this machine without measuring it."""
    from importlib.metadata import PackageNotFoundError

    from qcnn.planning.machine import NOMINAL_MACHINE
    from qcnn.planning.machine_cache import load

    try:
        kept = load()
    except PackageNotFoundError:
        # Where TensorFlow is not installed, nothing was measured.
        kept = None
    return kept.machine if kept else NOMINAL_MACHINE


def _line(
    trials: int, ways: Sequence[ScalingOption], share: float, dollars: float, pod: PodSettings, prices: Prices
) -> str:
    from qcnn.planning.training_estimate import format_duration

    seconds = share * sum(way.seconds for way in ways)
    hours = share * sum(way.bill.hours for way in ways)
    bill = ways[0].bill
    what = "training" if trials == 1 else f"{trials} trainings, one after the other"
    short = "" if all(way.fits for way in ways) else "; its processes need more memory than they ask for"
    on = f"{bill.machines} x {bill.machine}{' (Spot)' if pod.spot else ''}"
    return (
        f"estimate: {what} {format_duration(seconds)} on {on}, {hours:.2g} machine hours, {about_dollars(dollars)} "
        f"by the prices of {prices.region} on {prices.date}{short}"
    )
