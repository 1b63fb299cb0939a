"""qcnn plan: what an experiment will cost, before it runs."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import click
from tabulate import tabulate

from cli.options.experiment import Words, check_model, experiment_options
from trainer.startup import load_tensorflow, start_compiler

if TYPE_CHECKING:
    from trainer.config import ExperimentConfig
    from trainer.planning.kept_machine import KeptMachine
    from trainer.planning.plan import Counts, Prediction

_COLUMNS = ("simulator", "flops a step", "traffic a step", "memory", "seconds an epoch", "")


@click.command()
@experiment_options
def plan(words: Words) -> None:
    """Print what an experiment will cost: circuits, light cones, memory, seconds an epoch, the simulator and why."""
    experiment = words.experiment()
    check_model(experiment)
    from trainer.planning.expectation import strategy_does_not_pay
    from trainer.planning.plan import count, predict

    counts = count(experiment)
    kept = _machine()
    predicted = predict(experiment, counts, kept.machine)
    click.echo(_counts(counts))
    click.echo(_simulators(counts, predicted))
    click.echo(_choice(counts, predicted, experiment.simulator, kept))
    click.echo(_whole(predicted, experiment))
    click.echo(_workers(predicted))
    if said := strategy_does_not_pay(experiment.strategy, predicted.chosen, predicted.by_workers[1]):
        click.echo(said)


def _machine() -> KeptMachine:
    """Return how fast this machine is, measured if nothing is kept of it."""
    from trainer.planning.kept_machine import keep, load

    if kept := load():
        return kept
    click.echo("measuring this machine, which takes some seconds", err=True)
    load_tensorflow()
    start_compiler()
    from trainer.planning.probe import probe

    return keep(probe())


def _counts(counts: Counts) -> str:
    kinds = Counter(counts.cones)
    cones = ", ".join(" + ".join(f"{qubits} qubits" for qubits in cone) for cone in kinds)
    return "\n".join(
        (
            f"{counts.samples} samples; an epoch runs {counts.circuits} circuits in {counts.train_steps} training and "
            f"{counts.validation_steps} validation steps",
            f"{counts.readouts} readouts of {len(counts.cones)} kinds; independent parts of their light cones, with "
            f"what is traced out: {cones}",
            "",
        )
    )


def _simulators(counts: Counts, predicted: Prediction) -> str:
    from trainer.simulators.costs.cost import in_words

    rows = []
    for estimate in counts.estimates:
        cost = estimate.cost
        numbers = ["", "", "", ""]
        if math.isfinite(cost.memory):
            seconds = f"{predicted.by_simulator[estimate.simulator]:.3g}"
            numbers = [f"{cost.operations:.2g}", in_words(cost.traffic), in_words(cost.memory), seconds]
        fits = "" if estimate.fits else "does not fit in memory_gib"
        rows.append((estimate.simulator, *numbers, "chosen" if estimate is counts.chosen else fits))
    return tabulate(rows, headers=_COLUMNS, tablefmt="simple", disable_numparse=True)


def _choice(counts: Counts, predicted: Prediction, asked: str, kept: KeptMachine) -> str:
    why = "the cheapest that is exact and fits in memory" if asked == "auto" else "as asked"
    where = f"; delete {kept.path} to measure it again" if kept.path else ", and could not be kept"
    return (
        f"\nsimulator {counts.chosen.simulator}, {why}: about {predicted.chosen:.3g} seconds an epoch on this machine, "
        f"which was measured on {kept.day}{where}"
    )


def _whole(predicted: Prediction, experiment: ExperimentConfig) -> str:
    from trainer.planning.expectation import in_time
    from trainer.training.history import epochs_left

    starts = experiment.options.starts
    tried = f", {starts} starts tried for a tenth of them each included" if starts > 1 else ""
    seconds = in_time(predicted.chosen * epochs_left(experiment))
    return f"{experiment.epochs} epochs of batches of {experiment.batch_size}{tried}: about {seconds} once compiled"


def _workers(predicted: Prediction) -> str:
    from trainer.planning.expectation import more_do_not_pay, paying_workers

    best = paying_workers(predicted.by_workers)
    times = ", ".join(f"{workers}: {seconds:.3g} s" for workers, seconds in predicted.by_workers.items())
    advice = f"up to {best} workers pay" if best == max(predicted.by_workers) > 1 else more_do_not_pay(best)
    return f"workers, each on a machine like this, and seconds an epoch: {times}; {advice}"
