"""Estimate of a training run before its first epoch, from operation counts without any measurement."""

import dataclasses
from collections.abc import Iterator, Mapping

from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.requirements import SINGLE_PROCESS, STRATEGIES, SYNCHRONOUS
from qcnn.planning.machine import NOMINAL_MACHINE, expected_seconds
from qcnn.simulators import registry
from qcnn.simulators.costs.cost import format_bytes
from qcnn.simulators.registry import Estimate
from qcnn.simulators.structure.network import CircuitIR

# Seconds to write history, events and checkpoints of an epoch. Measured on two cores with 4 to 1,024 qubits: 0.004 to
# 0.014.
_WRITING_SECONDS = 0.01
# Minimum speedup and minimum saving for a hint.
_MIN_SPEEDUP, _MIN_SAVED_SECONDS = 2.0, 10.0
# Numbers of workers to compare, and the minimum fraction by which more workers must shorten an epoch.
WORKERS = (1, 2, 4, 8, 16, 32)
_MIN_GAIN = 0.05


@dataclasses.dataclass(frozen=True)
class SpeedupHint:
    """Field of the experiment with a value that makes an epoch faster, and the seconds of that epoch.

    `same_training` is whether the result of training does not change.
    """

    field: str
    value: object
    epoch_seconds: float
    same_training: bool


@dataclasses.dataclass(frozen=True)
class TrainingEstimate:
    """Seconds of an epoch of training and validation on machines with two cores, and bytes of a worker's states.

    Each of `processes` processes runs on a separate machine. `enough_workers` is None unless there are more workers
    than useful.
    """

    epoch_seconds: float
    memory: float
    faster: SpeedupHint | None
    enough_workers: int | None = None
    processes: int = 1

    def lines(self, epochs: int) -> Iterator[str]:
        """Yield the log lines for a training run of `epochs` epochs."""
        each = f" for each of {self.processes} processes" if self.processes > 1 else ""
        yield (
            f"expected on two cores{each}: about {format_duration(self.epoch_seconds)} an epoch, "
            f"{format_duration(seconds_of_epochs(self.epoch_seconds, epochs))} for {epochs} once compiled; "
            f"{format_bytes(self.memory)} for states"
        )
        if self.faster:
            change = "" if self.faster.same_training else ", with fewer updates"
            seconds = format_duration(self.faster.epoch_seconds)
            yield f"{self.faster.field} {self.faster.value} would be much faster: about {seconds} an epoch{change}"
        if self.enough_workers is not None:
            yield worker_limit_message(self.enough_workers)


def expectation(config: ExperimentConfig, network: CircuitIR, simulator: str, epochs: int) -> TrainingEstimate:
    """Return the estimate of a training run.

    Args:
        config: Experiment.
        network: Circuit of the experiment.
        simulator: Name of the simulator.
        epochs: Number of remaining epochs.
    """
    estimate = estimate_for_workers(config, network, simulator, config.workers)
    seconds = _seconds(config, network, estimate)
    faster = next(
        (
            faster
            for faster in (_fastest(config, network, _same(config)), _fastest(config, network, _fewer_updates(config)))
            if faster
            and faster.epoch_seconds * _MIN_SPEEDUP <= seconds
            and (seconds - faster.epoch_seconds) * epochs >= _MIN_SAVED_SECONDS
        ),
        None,
    )
    enough = _enough(config, network, simulator, epochs, faster)
    return TrainingEstimate(seconds, estimate.cost.memory, faster, enough, sum(config.replicas.values()))


def estimate_for_workers(
    config: ExperimentConfig, network: CircuitIR, simulator: str, workers: int, *, is_remote: bool = False
) -> Estimate:
    """Return the estimated cost of a training step on each worker.

    Args:
        config: Experiment.
        network: Circuit of the experiment.
        simulator: Name of the simulator.
        workers: Number of workers, in place of that of the experiment.
        is_remote: Whether the workers run on other machines, which may have other simulators than this one.
    """
    limits = dataclasses.replace(_with(config, "workers", workers).limits, is_remote=is_remote)
    return registry.estimate_of(simulator, network, limits)


def break_even_workers(seconds: Mapping[int, float]) -> int:
    """Return the largest useful number of workers, from the seconds of an epoch by number."""
    shortest = min(seconds.values())
    return min(workers for workers, each in seconds.items() if each * (1 - _MIN_GAIN) <= shortest)


def strategy_does_not_pay(strategy: str, seconds: float, alone: float) -> str | None:
    """Return a warning if a strategy is not faster than one device, or None.

    Strategy multi_worker gives None, because `worker_limit_message` covers it.

    Args:
        strategy: Distribution strategy.
        seconds: Seconds of an epoch with the strategy.
        alone: Seconds of an epoch on one device.
    """
    if strategy in (SINGLE_PROCESS, SYNCHRONOUS) or seconds < alone * (1 - _MIN_GAIN):
        return None
    return f"strategy {strategy} does not pay here: {SINGLE_PROCESS} takes about {format_duration(alone)} an epoch"


def where_planned(config: ExperimentConfig) -> str:
    """Return the numbers of processes and machines of a plan as text."""
    processes = sum(config.replicas.values())
    if processes == 1:
        return "in 1 process on this machine"
    return f"in {processes} processes, if each has a machine like this one"


def worker_limit_message(workers: int) -> str:
    """Return a message that more than this number of workers are not faster."""
    return "more than one worker does not pay" if workers == 1 else f"more than {workers} workers do not pay"


def _enough(
    config: ExperimentConfig, network: CircuitIR, simulator: str, epochs: int, faster: SpeedupHint | None
) -> int | None:
    """Return the useful number of workers, or None if it need not be reported."""
    is_synchronous = STRATEGIES[config.strategy].is_synchronous
    if config.workers == 1 or not is_synchronous or (faster and faster.field == "workers"):
        return None
    seconds = {}
    for workers in sorted({*WORKERS, config.workers}):
        if workers <= config.workers:
            estimate = estimate_for_workers(config, network, simulator, workers)
            seconds[workers] = _seconds(_with(config, "workers", workers), network, estimate)
    enough = break_even_workers(seconds)
    return enough if enough < config.workers and seconds[config.workers] * epochs >= _MIN_SAVED_SECONDS else None


def seconds_of_epochs(epoch_seconds: float, epochs: int) -> float:
    """Return the seconds of epochs after compilation, writing included, from the seconds of an epoch."""
    return (epoch_seconds + _WRITING_SECONDS) * epochs


def format_duration(seconds: float) -> str:
    """Return a duration as text with a unit, for example 2.5 min."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _same(config: ExperimentConfig) -> Iterator[tuple[str, object]]:
    """Yield fields and values that change the cost of training, but not its result."""
    if config.simulator != "auto":
        yield "simulator", "auto"
    if config.workers > 1 and STRATEGIES[config.strategy].is_synchronous:
        yield "workers", 1
    if config.strategy != SINGLE_PROCESS and not (config.workers > 1 and STRATEGIES[config.strategy].is_synchronous):
        yield "strategy", SINGLE_PROCESS
    if config.options.precision != "complex64":
        yield "precision", "complex64"
    yield "simulator_memory_gib", 8 * config.options.simulator_memory_gib


def _fewer_updates(config: ExperimentConfig) -> Iterator[tuple[str, object]]:
    larger = min(16 * config.batch_size, config.split_counts.train)
    if larger > config.batch_size:
        yield "batch_size", larger


def _fastest(config: ExperimentConfig, network: CircuitIR, changes: Iterator[tuple[str, object]]) -> SpeedupHint | None:
    hints = []
    for field, value in changes:
        changed = _with(config, field, value)
        if estimate := _estimate_of_auto(changed, network):
            seconds = _seconds(changed, network, estimate)
            hints.append(SpeedupHint(field, value, seconds, same_training=field != "batch_size"))
    return min(hints, key=lambda hint: hint.epoch_seconds, default=None)


def _with(config: ExperimentConfig, field: str, value: object) -> ExperimentConfig:
    if field == "strategy":
        return config.model_copy(update={field: value, "workers": 1})
    if field in type(config).model_fields:
        return config.model_copy(update={field: value})
    return config.model_copy(update={"options": config.options.model_copy(update={field: value})})


def _estimate_of_auto(config: ExperimentConfig, network: CircuitIR) -> Estimate | None:
    """Return the estimate of the simulator that would run, or None if it cannot run."""
    estimates = registry.estimates(network, config.limits, config.simulator)
    if config.simulator != "auto":
        return next(each if each.fits else None for each in estimates if each.simulator == config.simulator)
    try:
        return registry.cheapest(estimates, network, config.limits)
    except ConfigError:
        return None


def _seconds(config: ExperimentConfig, network: CircuitIR, estimate: Estimate) -> float:
    return expected_seconds(config, len(network.readouts), estimate, NOMINAL_MACHINE)
