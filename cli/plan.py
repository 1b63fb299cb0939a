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
    from trainer.plan import Plan

_COLUMNS = ("simulator", "flops a step", "traffic a step", "memory", "seconds an epoch", "")


@click.command()
@experiment_options
def plan(words: Words) -> None:
    """Print what an experiment will cost: circuits, light cones, memory, seconds an epoch, the simulator and why."""
    experiment = words.experiment()
    check_model(experiment)
    # After the words are known to be right: TensorFlow takes seconds to load.
    load_tensorflow()
    start_compiler()
    from trainer.plan import plan as make_plan

    made = make_plan(experiment)
    click.echo(_counts(made))
    click.echo(_simulators(made))
    click.echo(_choice(made, experiment.simulator))
    click.echo(_whole(made, experiment))
    click.echo(_workers(made))


def _counts(made: Plan) -> str:
    kinds = Counter(made.cones)
    cones = ", ".join(" + ".join(f"{qubits} qubits" for qubits in cone) for cone in kinds)
    return "\n".join(
        (
            f"{made.samples} samples; an epoch runs {made.circuits} circuits in {made.train_steps} training and "
            f"{made.validation_steps} validation steps",
            f"{made.readouts} readouts of {len(made.cones)} kinds; independent parts of their light cones, with what "
            f"is traced out: {cones}",
            "",
        )
    )


def _simulators(made: Plan) -> str:
    from trainer.simulators.costs.cost import in_words

    rows = []
    for prediction in made.predictions:
        cost = prediction.estimate.cost
        numbers = ["", "", "", ""]
        if math.isfinite(cost.memory):
            seconds = f"{prediction.epoch_seconds:.3g}"
            numbers = [f"{cost.flops:.2g}", in_words(cost.traffic), in_words(cost.memory), seconds]
        fits = "" if prediction.estimate.fits else "does not fit in memory_gib"
        rows.append((prediction.estimate.simulator, *numbers, "chosen" if prediction is made.chosen else fits))
    return tabulate(rows, headers=_COLUMNS, tablefmt="simple", disable_numparse=True)


def _choice(made: Plan, asked: str) -> str:
    name = made.chosen.estimate.simulator
    why = "the cheapest that is exact and fits in memory" if asked == "auto" else "as asked"
    return (
        f"\nsimulator {name}, {why}: about {made.chosen.epoch_seconds:.3g} seconds an epoch on this machine, which was "
        f"measured for {made.probe_seconds:.1f} s"
    )


def _whole(made: Plan, experiment: ExperimentConfig) -> str:
    from trainer.expectation import in_time
    from trainer.training.history import epochs_left

    starts = experiment.options.starts
    tried = f", {starts} starts tried for a tenth of them each included" if starts > 1 else ""
    seconds = in_time(made.chosen.epoch_seconds * epochs_left(experiment))
    return f"{experiment.epochs} epochs of batches of {experiment.batch_size}{tried}: about {seconds} once compiled"


def _workers(made: Plan) -> str:
    from trainer.expectation import more_do_not_pay, paying_workers

    best = paying_workers(made.by_workers)
    times = ", ".join(f"{workers}: {seconds:.3g} s" for workers, seconds in made.by_workers.items())
    advice = f"up to {best} workers pay" if best == max(made.by_workers) > 1 else more_do_not_pay(best)
    return f"workers, each on a machine like this, and seconds an epoch: {times}; {advice}"
