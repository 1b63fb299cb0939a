"""qcnn plan: what an experiment will cost, before it runs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tabulate import tabulate

from qcnn.cli.options.cost import format_usd, read_prices
from qcnn.cli.options.experiment import ExperimentOptions, experiment_options, prepare_experiments
from qcnn.cli.options.settings import form_option, settings_options
from qcnn.cli.output import warn_of_gpu_image
from qcnn.components.resources import IMAGE
from qcnn.errors import ConfigError
from qcnn.targets import targets_that
from qcnn.targets.base import Submits
from qcnn.targets.settings import PodFields

if TYPE_CHECKING:
    from qcnn.components.cost_estimate import ScalingOption, ScalingOptions
    from qcnn.experiment import ExperimentConfig
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.planning.machine_cache import CachedMachine
    from qcnn.planning.plan import Counts, Prediction
    from qcnn.simulators.registry import Estimate

_LOCAL = "local"
_SECONDS = "seconds an epoch"
_SIMULATORS = ("simulator", "flops a step", "traffic a step", "memory of states", _SECONDS, "")
# Those of a simulator, of a step and of an epoch, as JSON names them.
_NUMBERS = ("flops", "traffic_bytes", "memory_bytes", "epoch_seconds")
_WAYS = ("workers", "seconds an epoch", "training", "machines", "machine hours", "dollars", "on Spot", "")


@dataclasses.dataclass(frozen=True)
class _RemoteTarget:
    """A training on a platform, of pods with these settings, at these prices."""

    target: str
    pod: PodSettings
    prices: Prices
    ways: ScalingOptions


@click.command()
@click.option(
    "--target",
    type=click.Choice([_LOCAL, *targets_that(Submits)]),
    default=_LOCAL,
    show_default=True,
    help="Where; all but local tell machines and money, by the number of workers.",
)
@form_option
@click.option(
    "--prices",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Machines and what they cost, as in qcnn/jobs/costs/prices.yaml.  [default: that file]",
)
@click.option(
    "--machine-type",
    metavar="NAME",
    help="Machine of the prices to run on.  [default: the cheapest; with Vertex AI the smallest]",
)
@settings_options(PodFields, "plan", "pod")
@experiment_options
def plan(
    target: str, form: str, prices: Path | None, machine_type: str | None, pod: PodFields, words: ExperimentOptions
) -> None:
    """Print what an experiment will cost: circuits, light cones, memory, seconds, machines and money, and why."""
    (experiment,) = prepare_experiments([words.experiment()])
    _check_target(target, prices, machine_type, pod)
    from qcnn.planning.plan import count, predict

    # What is given is read before anything is measured.
    settings, priced = pod.pod_with(image=IMAGE), read_prices(prices)
    warn_of_gpu_image(settings)
    platform = (
        targets_that(Submits)[target].platform(settings, priced, machine_type or "") if target != _LOCAL else None
    )
    counts = count(experiment)
    kept = _machine()
    predicted = predict(experiment, counts, kept.machine)
    elsewhere = None
    if platform:
        from qcnn.components.cost_estimate import compare_worker_counts

        found = compare_worker_counts(experiment, counts, platform, kept.machine, settings.spot)
        elsewhere = _RemoteTarget(target, settings, priced, found)
    if form == "json":
        click.echo(json.dumps(_as_json(experiment, counts, predicted, kept, elsewhere), indent=2))
        return
    for line in _lines(experiment, counts, predicted, kept, elsewhere):
        click.echo(line)


def _check_target(target: str, prices: Path | None, machine_type: str | None, pod: PodFields) -> None:
    """Refuse what has no meaning on this machine."""
    has_pod = pod.has_pod_settings or None
    given = {"--prices": prices, "--machine-type": machine_type, "--pod or a setting of pods": has_pod}
    if target == _LOCAL and (words := [word for word, value in given.items() if value is not None]):
        raise ConfigError(
            f"plan: takes {words[0]} with --target {', '.join(targets_that(Submits))} alone. Given: --target {target}"
        )


def _machine() -> CachedMachine:
    """Return how fast this machine is, measured if nothing is kept of it."""
    from qcnn.planning.machine_cache import load_or_measure

    return load_or_measure(lambda: click.echo("measuring this machine, which takes some seconds", err=True))


def _lines(
    experiment: ExperimentConfig,
    counts: Counts,
    predicted: Prediction,
    kept: CachedMachine,
    elsewhere: _RemoteTarget | None,
) -> list[str]:
    from qcnn.planning.training_estimate import strategy_does_not_pay

    lines = [
        _counts(counts),
        simulators_table(counts.estimates, counts.chosen, predicted.by_simulator),
        _choice(counts, predicted, experiment, kept),
        _whole(predicted, experiment),
        _memory(counts),
    ]
    if counts.trajectories:
        lines.append(
            f"the evaluation then draws {counts.trajectories} trajectories of {experiment.qubits} qubits, which is not "
            "counted here"
        )
    if elsewhere:
        return [*lines, *_elsewhere(elsewhere, experiment, counts, predicted)]
    said = strategy_does_not_pay(experiment.strategy, predicted.chosen, predicted.by_workers[1])
    return [*lines, _workers(predicted), *([said] if said else [])]


def _counts(counts: Counts) -> str:
    return "\n".join(
        (
            f"{counts.samples} samples; an epoch runs {counts.circuits} circuits in {counts.train_steps} training and "
            f"{counts.validation_steps} validation steps",
            cones_line(counts.readouts, counts.cones),
            "",
        )
    )


def cones_line(readouts: int, cones: Sequence[Sequence[int]]) -> str:
    """Return how wide the light cones of every kind of readout are, as `Counts` has them."""
    widths = ", ".join(" + ".join(f"{qubits} qubits" for qubits in cone) for cone in dict.fromkeys(cones))
    return (
        f"{readouts} readouts of {len(cones)} kinds; independent parts of their light cones, with what is traced out: "
        f"{widths}"
    )


def simulators_table(
    estimates: Sequence[Estimate], chosen: Estimate | None, seconds: Mapping[str, float] | None = None
) -> str:
    """Return what a step costs each simulator, and an epoch in seconds where these are known."""
    from qcnn.simulators.costs.cost import format_bytes

    rows = []
    for estimate in estimates:
        cost = estimate.cost
        numbers, why_not = [""] * (len(_SIMULATORS) - 2), "cannot run this"
        if math.isfinite(cost.memory):
            time = f"{seconds[estimate.simulator]:.3g}" if seconds else ""
            numbers = [f"{cost.operations:.2g}", format_bytes(cost.traffic), format_bytes(cost.memory), time]
            why_not = "does not fit in simulator_memory_gib"
        fits = "" if estimate.fits else why_not
        row = [estimate.simulator, *numbers, "chosen" if estimate is chosen else fits]
        rows.append([cell for cell, name in zip(row, _SIMULATORS, strict=True) if seconds or name != _SECONDS])
    headers = [name for name in _SIMULATORS if seconds or name != _SECONDS]
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True)


def _choice(counts: Counts, predicted: Prediction, experiment: ExperimentConfig, kept: CachedMachine) -> str:
    from qcnn.planning.training_estimate import where_planned

    why = "the cheapest that is exact and fits in memory" if experiment.simulator == "auto" else "as asked"
    where = f"; delete {kept.path} to measure it again" if kept.path else ", and could not be kept"
    busy = ", so it was busy with other work" if kept.was_busy else ""
    return (
        f"\nsimulator {counts.chosen.simulator}, {why}: about {predicted.chosen:.3g} seconds an epoch "
        f"{where_planned(experiment)}, which was measured on {kept.day} with a spread of {kept.spread:.0%}{busy}{where}"
    )


def _whole(predicted: Prediction, experiment: ExperimentConfig) -> str:
    from qcnn.model.history import epochs_left
    from qcnn.planning.training_estimate import format_duration, where_planned

    starts = experiment.options.num_initializations
    tried = f", {starts} starts tried for a tenth of them each included" if starts > 1 else ""
    seconds = format_duration(predicted.chosen * epochs_left(experiment))
    return (
        f"{experiment.epochs} epochs of batches of {experiment.batch_size}{tried}: about {seconds} once compiled, "
        f"{where_planned(experiment)}"
    )


def _memory(counts: Counts) -> str:
    from qcnn.planning.plan import PROCESS_BYTES, process_bytes
    from qcnn.simulators.costs.cost import format_bytes

    states = counts.chosen.cost.memory
    return (
        f"a process takes about {format_bytes(process_bytes(states))} of memory: {format_bytes(states)} for states, "
        f"{format_bytes(PROCESS_BYTES)} for TensorFlow, modules and compiled programs"
    )


def _workers(predicted: Prediction) -> str:
    from qcnn.planning.training_estimate import more_do_not_pay, paying_workers

    best = paying_workers(predicted.by_workers)
    times = ", ".join(f"{workers}: {seconds:.3g} s" for workers, seconds in predicted.by_workers.items())
    advice = f"up to {best} workers pay" if best == max(predicted.by_workers) > 1 else more_do_not_pay(best)
    return f"workers, each on a machine like this one, and seconds an epoch: {times}; {advice}"


def _elsewhere(
    elsewhere: _RemoteTarget, experiment: ExperimentConfig, counts: Counts, predicted: Prediction
) -> list[str]:
    from qcnn.components.cost_estimate import local_is_sufficient, seconds_of_all
    from qcnn.planning.training_estimate import format_duration

    ways, prices = elsewhere.ways, elsewhere.prices
    rows = [
        (
            way.workers,
            f"{way.epoch_seconds:.3g}",
            format_duration(way.seconds),
            f"{way.bill.machines} x {way.bill.machine}",
            f"{way.bill.hours:.3g}",
            *(format_usd(value) for value in (way.bill.dollars, way.bill.spot_dollars)),
            ", ".join(_said_of(way, ways)),
        )
        for way in ways.compared
    ]
    lines = [
        f"\n--target {elsewhere.target}, a process has {ways.cores:g} {'core' if ways.cores == 1 else 'cores'} "
        f"and asks for {elsewhere.pod.memory} of memory; "
        f"prices of {prices.region} on {prices.date}, without taxes and discounts",
        tabulate(rows, headers=_WAYS, tablefmt="simple", disable_numparse=True),
    ]
    if elsewhere.pod.gpus:
        lines.append("GPUs are charged, but how fast they are is not known: these are the seconds of the cores")
    here = seconds_of_all(experiment, predicted.by_workers[1])
    if local_is_sufficient(here, counts.by_workers[1].cost.memory, ways):
        lines.append(f"this machine is enough: one process trains in about {format_duration(here)} here, for nothing")
    return lines


def _said_of(way: ScalingOption, ways: ScalingOptions) -> list[str]:
    said = {
        "as asked": way is ways.asked,
        "cheapest": way is ways.cheapest,
        "fastest": way is ways.fastest,
        "needs more memory": not way.fits,
    }
    return [word for word, holds in said.items() if holds]


def _as_json(
    experiment: ExperimentConfig,
    counts: Counts,
    predicted: Prediction,
    kept: CachedMachine,
    elsewhere: _RemoteTarget | None,
) -> dict[str, Any]:
    """Return all numbers of a plan; null for those that are more than any machine has."""
    from qcnn.model.history import epochs_left
    from qcnn.planning.plan import process_bytes

    simulators = {
        estimate.simulator: {
            **(_numbers(estimate, predicted) if math.isfinite(estimate.cost.memory) else dict.fromkeys(_NUMBERS)),
            "fits": estimate.fits,
        }
        for estimate in counts.estimates
    }
    found: dict[str, Any] = {
        "samples": counts.samples,
        "circuits": counts.circuits,
        "train_steps": counts.train_steps,
        "validation_steps": counts.validation_steps,
        "readouts": counts.readouts,
        "cones": [list(cone) for cone in counts.cones],
        "simulators": simulators,
        "simulator": counts.chosen.simulator,
        "machine": {"cores": kept.machine.cores, "measured": kept.day, "spread": kept.spread},
        "processes": sum(experiment.replicas.values()),
        "process_memory_bytes": process_bytes(counts.chosen.cost.memory),
        "trajectories": counts.trajectories,
        "epoch_seconds": predicted.chosen,
        "seconds": predicted.chosen * epochs_left(experiment),
        "epoch_seconds_by_workers": predicted.by_workers,
    }
    if elsewhere:
        ways, prices = elsewhere.ways, elsewhere.prices
        found |= {
            "target": elsewhere.target,
            "prices": {"date": prices.date, "region": prices.region, "source": prices.source},
            "asked": ways.asked.workers,
            "cheapest": ways.cheapest.workers,
            "fastest": ways.fastest.workers,
            "ways": [dataclasses.asdict(way) for way in ways.compared],
        }
    return found


def _numbers(estimate: Estimate, predicted: Prediction) -> dict[str, float]:
    cost = estimate.cost
    numbers = (cost.operations, cost.traffic, cost.memory, predicted.by_simulator[estimate.simulator])
    return dict(zip(_NUMBERS, numbers, strict=True))
