"""What a training is expected to take, before its first epoch: counted rather than measured, so it takes no time."""

import dataclasses
from collections.abc import Iterator, Mapping

from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.planning.machine import NOMINAL_MACHINE, expected_seconds
from qcnn.requirements import ALONE, IN_STEP, STRATEGIES
from qcnn.simulators import registry
from qcnn.simulators.costs.cost import format_bytes
from qcnn.simulators.registry import Estimate
from qcnn.simulators.structure.gates import CircuitIR

# Seconds of an epoch's checkpoint and events. Measured on two cores.
WRITING_SECONDS = 0.05
# Smaller gains are not worth a line.
_MUCH, _WORTH_SECONDS = 2.0, 10.0
# Numbers of workers that are compared. More do not pay that make an epoch shorter by less than this share.
WORKERS = (1, 2, 4, 8, 16, 32)
_PAYS = 0.05


@dataclasses.dataclass(frozen=True)
class SpeedupHint:
    """A word of the experiment with another value, and the seconds of an epoch with it; it may change the training."""

    word: str
    value: object
    epoch_seconds: float
    same_training: bool


@dataclasses.dataclass(frozen=True)
class TrainingEstimate:
    """Seconds of an epoch on machines of two cores, the bytes of a worker's states, and what is much faster if any.

    Of so many `processes`, each on a machine of its own. `enough_workers` is said where there are more.
    """

    epoch_seconds: float
    memory: float
    faster: SpeedupHint | None
    enough_workers: int | None = None
    processes: int = 1

    def lines(self, epochs: int) -> Iterator[str]:
        """Yield the lines to log about a training of so many epochs."""
        each = f" for each of {self.processes} processes" if self.processes > 1 else ""
        yield (
            f"expected on two cores{each}: about {format_duration(self.epoch_seconds)} an epoch, "
            f"{format_duration(self.epoch_seconds * epochs)} for {epochs} once compiled; "
            f"{format_bytes(self.memory)} for states"
        )
        if self.faster:
            change = "" if self.faster.same_training else ", of fewer updates"
            seconds = format_duration(self.faster.epoch_seconds)
            yield f"much faster would be {self.faster.word} {self.faster.value}: about {seconds} an epoch{change}"
        if self.enough_workers is not None:
            yield more_do_not_pay(self.enough_workers)


def expectation(config: ExperimentConfig, network: CircuitIR, simulator: str, epochs: int) -> TrainingEstimate:
    """Return what to expect of an experiment whose states this simulator evolves, with so many epochs to go."""
    estimate = estimate_for_workers(config, network, simulator, config.workers)
    seconds = _seconds(config, network, estimate)
    faster = next(
        (
            faster
            for faster in (_fastest(config, network, _same(config)), _fastest(config, network, _fewer_updates(config)))
            if faster
            and faster.epoch_seconds * _MUCH <= seconds
            and (seconds - faster.epoch_seconds) * epochs >= _WORTH_SECONDS
        ),
        None,
    )
    enough = _enough(config, network, simulator, epochs, faster)
    return TrainingEstimate(seconds, estimate.cost.memory, faster, enough, sum(config.replicas.values()))


def estimate_for_workers(config: ExperimentConfig, network: CircuitIR, simulator: str, workers: int) -> Estimate:
    """Return what a training step of an experiment would cost a simulator on each of so many workers."""
    estimates = registry.estimates(network, _with(config, "workers", workers).limits)
    return next(each for each in estimates if each.simulator == simulator)


def paying_workers(seconds: Mapping[int, float]) -> int:
    """Return from where on more workers do not pay, of the seconds of an epoch by their number."""
    least = min(seconds.values())
    return min(workers for workers, each in seconds.items() if each * (1 - _PAYS) <= least)


def strategy_does_not_pay(strategy: str, seconds: float, alone: float) -> str | None:
    """Say that an epoch takes no less than on one device, where that is so; how many workers pay is said apart."""
    if strategy in (ALONE, IN_STEP) or seconds < alone * (1 - _PAYS):
        return None
    return f"strategy {strategy} does not pay here: {ALONE} takes about {format_duration(alone)} an epoch"


def where_planned(config: ExperimentConfig) -> str:
    """Return of how many processes and machines the seconds of a plan are, in words."""
    processes = sum(config.replicas.values())
    if processes == 1:
        return "in 1 process on this machine"
    return f"in {processes} processes on {processes} machines like this one"


def more_do_not_pay(workers: int) -> str:
    """Say that more than so many workers do not pay."""
    return "more than one worker does not pay" if workers == 1 else f"more than {workers} workers do not pay"


def _enough(
    config: ExperimentConfig, network: CircuitIR, simulator: str, epochs: int, faster: SpeedupHint | None
) -> int | None:
    """Return how many workers would do, None where there are no more or nobody needs to be told."""
    in_step = STRATEGIES[config.strategy].in_step
    if config.workers == 1 or not in_step or (faster and faster.word == "workers"):
        return None
    seconds = {}
    for workers in sorted({*WORKERS, config.workers}):
        if workers <= config.workers:
            estimate = estimate_for_workers(config, network, simulator, workers)
            seconds[workers] = _seconds(_with(config, "workers", workers), network, estimate)
    enough = paying_workers(seconds)
    return enough if enough < config.workers and seconds[config.workers] * epochs >= _WORTH_SECONDS else None


def format_duration(seconds: float) -> str:
    """Return a duration in words."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _same(config: ExperimentConfig) -> Iterator[tuple[str, object]]:
    """Yield words that change what a training takes, and nothing else of it."""
    if config.simulator != "auto":
        yield "simulator", "auto"
    if config.workers > 1 and STRATEGIES[config.strategy].in_step:
        yield "workers", 1
    if config.strategy != ALONE and not (config.workers > 1 and STRATEGIES[config.strategy].in_step):
        yield "strategy", ALONE
    if config.options.precision != "complex64":
        yield "precision", "complex64"
    yield "simulator_memory_gib", 8 * config.options.simulator_memory_gib


def _fewer_updates(config: ExperimentConfig) -> Iterator[tuple[str, object]]:
    larger = min(16 * config.batch_size, config.split_counts.train)
    if larger > config.batch_size:
        yield "batch_size", larger


def _fastest(config: ExperimentConfig, network: CircuitIR, words: Iterator[tuple[str, object]]) -> SpeedupHint | None:
    faster = []
    for word, value in words:
        changed = _with(config, word, value)
        if estimate := _chosen(changed, network):
            seconds = _seconds(changed, network, estimate)
            faster.append(SpeedupHint(word, value, seconds, same_training=word != "batch_size"))
    return min(faster, key=lambda each: each.epoch_seconds, default=None)


def _with(config: ExperimentConfig, word: str, value: object) -> ExperimentConfig:
    if word == "strategy":
        return config.model_copy(update={word: value, "workers": 1})
    if word in type(config).model_fields:
        return config.model_copy(update={word: value})
    return config.model_copy(update={"options": config.options.model_copy(update={word: value})})


def _chosen(config: ExperimentConfig, network: CircuitIR) -> Estimate | None:
    """Return the estimate of the simulator that would run, None where it could not."""
    estimates = registry.estimates(network, config.limits)
    if config.simulator != "auto":
        return next(each if each.fits else None for each in estimates if each.simulator == config.simulator)
    try:
        return registry.cheapest(estimates, network, config.limits)
    except ConfigError:
        return None


def _seconds(config: ExperimentConfig, network: CircuitIR, estimate: Estimate) -> float:
    return WRITING_SECONDS + expected_seconds(config, len(network.readouts), estimate, NOMINAL_MACHINE)
