"""qcnn plan: estimate of the runtime, memory and cost of an experiment."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qcnn.cli.estimates import SECONDS, cones_line, estimate_as_json, simulators_table
from qcnn.cli.options.cost import format_usd, prices_option, read_prices
from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.settings import format_option, settings_options
from qcnn.cli.output import format_table, on_stderr, report_gpu_image
from qcnn.cli.target_choice import TargetName
from qcnn.components.resources import IMAGE
from qcnn.errors import ConfigError
from qcnn.jobs.accelerators import ACCELERATORS, DATE
from qcnn.targets import target_class, target_classes
from qcnn.targets.base import Submits
from qcnn.targets.settings import PodFields

if TYPE_CHECKING:
    from qcnn.costs.scaling import ScalingOption, ScalingOptions
    from qcnn.experiment.config import ExperimentConfig
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.planning.machine_cache import CachedMachine
    from qcnn.planning.plan import Counts, Prediction

_LOCAL = "local"
_SCALING_HEADER = ("workers", SECONDS, "training", "machines", "machine hours", "USD", "USD on Spot", "")


@dataclasses.dataclass(frozen=True)
class _RemoteTarget:
    """Target with the settings of its pods, its prices and the estimates by number of workers."""

    target: str
    pod: PodSettings
    prices: Prices
    scaling: ScalingOptions


@click.command()
@click.option(
    "--target",
    type=TargetName([_LOCAL, *target_classes(Submits)]),
    default=_LOCAL,
    show_default=True,
    help="Execution target. Remote targets include machines and cost.",
)
@format_option
@prices_option
@click.option(
    "--machine-type",
    metavar="NAME",
    help="Machine type to price.  [default: the cheapest; on Vertex AI the smallest]",
)
@settings_options(PodFields, "plan", "pod")
@experiment_options
def plan(
    target: str,
    output_format: str,
    prices: Path | None,
    machine_type: str | None,
    pod: PodFields,
    options: ExperimentOptions,
) -> None:
    """Estimate circuits, light cones, memory, runtime, machines and cost."""
    experiment = options.experiment()
    _check_target(target, prices, machine_type, pod)
    from qcnn.planning.checks import PLANNED, PLANNED_REMOTELY, check_experiments, on_gpus

    # Files are read before the benchmark, which takes seconds.
    settings, price_list = pod.pod_with(image=IMAGE), read_prices(prices)
    place = PLANNED if target == _LOCAL else on_gpus(PLANNED_REMOTELY, settings.for_role("worker").gpus)
    (experiment,) = check_experiments([experiment], place, on_stderr)
    # Imported after the check, because importing cirq takes a second.
    from qcnn.planning.plan import count, predict

    report_gpu_image(settings)
    platform = None
    if target != _LOCAL:
        platform = target_class(target, Submits).platform(settings, price_list, machine_type or "")
    counts = count(experiment, is_remote=platform is not None)
    cached = _machine()
    predicted = predict(experiment, counts, cached.machine)
    remote = None
    if platform:
        from qcnn.costs.scaling import compare_worker_counts

        scaling = compare_worker_counts(experiment, counts, platform, cached.machine, settings.spot)
        remote = _RemoteTarget(target, settings, price_list, scaling)
    if output_format == "json":
        click.echo(json.dumps(_as_json(experiment, counts, predicted, cached, remote), indent=2))
        return
    for line in _lines(experiment, counts, predicted, cached, remote):
        click.echo(line)


def _check_target(target: str, prices: Path | None, machine_type: str | None, pod: PodFields) -> None:
    """Raise ConfigError if an option of remote targets is given for the local target."""
    has_pod = pod.has_pod_settings or None
    given = {"--prices": prices, "--machine-type": machine_type, "--pod and pod settings": has_pod}
    if target == _LOCAL and (options := [option for option, value in given.items() if value is not None]):
        raise ConfigError(
            f"plan: {options[0]} must be given with --target {', '.join(target_classes(Submits))}. "
            f"Given: --target {target}"
        )


def _machine() -> CachedMachine:
    """Return the profile of the local machine from the cache, or benchmark the machine."""
    from qcnn.planning.machine_cache import load_or_measure

    return load_or_measure(lambda: click.echo("benchmarking this machine, which takes a few seconds", err=True))


def _lines(
    experiment: ExperimentConfig,
    counts: Counts,
    predicted: Prediction,
    cached: CachedMachine,
    remote: _RemoteTarget | None,
) -> list[str]:
    from qcnn.planning.training_estimate import strategy_does_not_pay

    lines = [
        _counts(counts),
        simulators_table(counts.estimates, counts.chosen, predicted.by_simulator),
        _simulator(counts, predicted, experiment, cached),
        _training(predicted, experiment),
        _memory(counts),
    ]
    if counts.trajectories:
        lines.append(
            f"the evaluation also samples {counts.trajectories} trajectories of {experiment.qubits} qubits, which this "
            "estimate does not include"
        )
    if remote:
        return [*lines, *_remote_lines(remote, experiment, counts, predicted)]
    hint = strategy_does_not_pay(experiment.strategy, predicted.chosen, predicted.by_workers[1])
    return [*lines, _workers(predicted), *([hint] if hint else [])]


def _counts(counts: Counts) -> str:
    return "\n".join(
        (
            f"{counts.samples} samples; an epoch runs {counts.circuits} circuits in {counts.train_steps} training and "
            f"{counts.validation_steps} validation steps",
            cones_line(counts.readouts, counts.strings, counts.cones),
            "",
        )
    )


def _simulator(counts: Counts, predicted: Prediction, experiment: ExperimentConfig, cached: CachedMachine) -> str:
    from qcnn.planning.training_estimate import where_planned

    reason = "the cheapest that is exact and fits in memory" if experiment.simulator == "auto" else "as requested"
    cache = f"delete {cached.path} to repeat the benchmark" if cached.path else "the benchmark could not be cached"
    busy = ", because other processes used the machine" if cached.was_busy else ""
    return (
        f"\nsimulator {counts.chosen.simulator}, {reason}: about {predicted.chosen:.3g} seconds per epoch "
        f"{where_planned(experiment)}, which was benchmarked on {cached.day} with a spread of "
        f"{cached.spread:.0%}{busy}; {cache}"
    )


def _training(predicted: Prediction, experiment: ExperimentConfig) -> str:
    from qcnn.model.history import describe_search, epochs_left
    from qcnn.planning.training_estimate import format_duration, seconds_of_epochs, where_planned

    search = describe_search(experiment)
    included = f", including {search}" if search else ""
    seconds = format_duration(seconds_of_epochs(predicted.chosen, epochs_left(experiment)))
    return (
        f"{experiment.epochs} epochs with batches of {experiment.batch_size}{included}: about {seconds} after "
        f"compilation, {where_planned(experiment)}"
    )


def _memory(counts: Counts) -> str:
    from qcnn.planning.memory import PROCESS_BYTES, process_bytes
    from qcnn.simulators.costs.cost import format_bytes

    states = counts.chosen.cost.memory
    return (
        f"memory per process: about {format_bytes(process_bytes(states))}, of which {format_bytes(states)} for states, "
        f"{format_bytes(PROCESS_BYTES)} for TensorFlow, modules and compiled functions"
    )


def _workers(predicted: Prediction) -> str:
    from qcnn.planning.training_estimate import break_even_workers, worker_limit_message

    best = break_even_workers(predicted.by_workers)
    times = ", ".join(f"{workers}: {seconds:.3g} s" for workers, seconds in predicted.by_workers.items())
    advice = (
        f"up to {best} workers reduce the time" if best == max(predicted.by_workers) > 1 else worker_limit_message(best)
    )
    return f"seconds per epoch by number of workers, each on a machine like this one: {times}; {advice}"


def _remote_lines(
    remote: _RemoteTarget, experiment: ExperimentConfig, counts: Counts, predicted: Prediction
) -> list[str]:
    from qcnn.costs.scaling import local_is_sufficient, total_seconds
    from qcnn.planning.training_estimate import format_duration

    scaling, prices = remote.scaling, remote.prices
    rows = [
        (
            option.workers,
            f"{option.epoch_seconds:.3g}",
            format_duration(option.seconds),
            f"{option.bill.machines} x {option.bill.machine}",
            f"{option.bill.hours:.3g}",
            *(format_usd(value) for value in (option.bill.dollars, option.bill.spot_dollars)),
            ", ".join(_notes(option, scaling)),
        )
        for option in scaling.compared
    ]
    lines = [
        f"\n--target {remote.target}, each process with {scaling.cores:g} {'core' if scaling.cores == 1 else 'cores'} "
        f"and a memory request of {remote.pod.memory}; "
        f"prices of {prices.region} on {prices.date}, without taxes and discounts",
        format_table(_SCALING_HEADER, rows),
    ]
    lines += _gpu_lines(remote, experiment)
    local = total_seconds(experiment, predicted.by_workers[1])
    if local_is_sufficient(local, counts.by_workers[1].cost.memory, scaling):
        lines.append(f"the local machine is sufficient: one process trains in about {format_duration(local)}")
    return lines


def _gpu_lines(remote: _RemoteTarget, experiment: ExperimentConfig) -> list[str]:
    """Return the line about the origin of the times on GPUs, or no line without GPUs."""
    from qcnn.experiment.requirements import STRATEGIES

    worker, simulator = remote.pod.for_role("worker"), remote.scaling.simulator
    if not worker.gpus:
        return []
    if not worker.accelerator:
        return [f"the times are those of the CPU cores with simulator {simulator}: --accelerator names the GPU model"]
    if not remote.scaling.requested.on_gpu:
        return [f"the times are those of the CPU cores, because simulator {simulator} does not use GPUs"]
    gpu = ACCELERATORS[worker.accelerator]
    used = experiment.num_replicas_in_sync if STRATEGIES[experiment.strategy].devices else 1
    count = f"{min(used, worker.gpus)} of {worker.gpus} GPUs" if worker.gpus > 1 else "1 GPU"
    return [
        f"the times are estimates from data sheets ({DATE}), not measured: {count} {worker.accelerator} per process "
        f"with simulator {simulator}, {gpu.flops / 1e12:.3g} TFLOPS ({gpu.double_flops / 1e12:.3g} in 64 bits), "
        f"{gpu.traffic / 1e9:.4g} GB/s, {gpu.memory / 1e9:.3g} GB",
        "run a probe there, such as the same training with --epochs 3, and compare the seconds of an epoch in its log",
    ]


def _notes(option: ScalingOption, scaling: ScalingOptions) -> list[str]:
    notes = {
        "requested": option is scaling.requested,
        "cheapest": option is scaling.cheapest,
        "fastest": option is scaling.fastest,
        "needs more GPU memory": not option.fits_gpu,
        "needs more memory": option.fits_gpu and not option.fits,
    }
    return [note for note, applies in notes.items() if applies]


def _as_json(
    experiment: ExperimentConfig,
    counts: Counts,
    predicted: Prediction,
    cached: CachedMachine,
    remote: _RemoteTarget | None,
) -> dict[str, Any]:
    """Return all values of a plan, with null for numbers that exceed the memory of any machine."""
    from qcnn.model.history import epochs_left
    from qcnn.planning.memory import process_bytes
    from qcnn.planning.training_estimate import seconds_of_epochs

    seconds = predicted.by_simulator
    simulators = {
        estimate.simulator: estimate_as_json(estimate, epoch_seconds=seconds[estimate.simulator])
        for estimate in counts.estimates
    }
    values: dict[str, Any] = {
        "samples": counts.samples,
        "circuits": counts.circuits,
        "train_steps": counts.train_steps,
        "validation_steps": counts.validation_steps,
        "readouts": counts.readouts,
        "cones": [list(cone) for cone in counts.cones],
        "simulators": simulators,
        "simulator": counts.chosen.simulator,
        "machine": {"cores": cached.machine.cores, "measured": cached.day, "spread": cached.spread},
        "processes": sum(experiment.replicas.values()),
        "process_memory_bytes": process_bytes(counts.chosen.cost.memory),
        "trajectories": counts.trajectories,
        "epoch_seconds": predicted.chosen,
        "seconds": seconds_of_epochs(predicted.chosen, epochs_left(experiment)),
        "epoch_seconds_by_workers": predicted.by_workers,
    }
    if remote:
        scaling, prices = remote.scaling, remote.prices
        values |= {
            "target": remote.target,
            "prices": {"date": prices.date, "region": prices.region, "source": prices.source},
            "asked": scaling.requested.workers,
            "cheapest": scaling.cheapest.workers,
            "fastest": scaling.fastest.workers,
            "remote_simulator": scaling.simulator,
            "gpu_data_sheets": DATE if scaling.requested.on_gpu else None,
            "ways": [dataclasses.asdict(option) for option in scaling.compared],
        }
    return values
