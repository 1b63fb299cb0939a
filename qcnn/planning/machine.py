"""Performance profile of a machine, and estimated seconds of an epoch from counted operations."""

import dataclasses
import math
from collections.abc import Sequence

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.requirements import STRATEGIES
from qcnn.simulators.costs.cost import NOMINAL, MachineSpeed, StepCost
from qcnn.simulators.registry import Estimate

# Work of a step without gradient, as a fraction of a training step (forward and backward).
_FORWARD = 0.25
# Seconds of an all-reduce over workers on separate machines: two round trips in the network of a data center.
_REDUCTION_SECONDS = 1e-3
# Seconds in which the chief of parameter_server dispatches a batch, and the overhead of TensorFlow for a step on
# several devices of a processor. Measured on two cores.
_DISPATCH_SECONDS, _DEVICES_SECONDS = 8e-3, 3e-3
# Calls of compiled programs that take the time of an epoch beyond its steps: training, validation, and the order and
# transfer of the samples. Measured with 4 to 8 qubits on two cores.
_CALLS = 3
# Operations per weight of the hidden layer and sample, forward and backward. The activation of a hidden unit takes as
# long as `_ACTIVATION` weights. Measured with 4 to 512 readouts and batches of 32 to 4,096.
_WEIGHT_FLOPS, _ACTIVATION = 8, 16


@dataclasses.dataclass(frozen=True)
class MachineProfile:
    """Measured rates of a machine: steps, seconds per program call, and seconds per sample for ordering.

    `cores` is the number of cores at the time of the benchmark. With `has_gpus`, `speed` is that of a GPU, and every
    device has its own.
    """

    speed: MachineSpeed
    call_seconds: float
    sample_seconds: float
    cores: int
    has_gpus: bool = False

    def with_cores(self, cores: float) -> "MachineProfile":
        """Return the profile of the same machine with another number of cores, which may be less than one.

        Arithmetic on many numbers and memory traffic scale with the cores. Work on one core does not: arithmetic on few
        numbers, kernel launches, and sample ordering. A fraction of a core slows down all of it.
        `python -m benchmarks.core_scaling` measures this.
        """
        scale, one_core = cores / self.cores, min(1.0, cores)
        speed = MachineSpeed(
            flops=self.speed.flops * scale,
            traffic=self.speed.traffic * scale,
            few_flops=self.speed.few_flops * one_core,
            kernel_seconds=self.speed.kernel_seconds / one_core,
            compiled_flops=self.speed.compiled_flops * scale,
        )
        return MachineProfile(speed, self.call_seconds / one_core, self.sample_seconds / one_core, max(1, int(cores)))

    def with_gpus(self, speed: MachineSpeed) -> "MachineProfile":
        """Return the profile of the same machine if the simulator runs on GPUs of this speed."""
        return dataclasses.replace(self, speed=speed, has_gpus=True)


# Two cores of a typical machine.
NOMINAL_MACHINE = MachineProfile(NOMINAL, call_seconds=6.5e-4, sample_seconds=1e-7, cores=2)


def fastest(profiles: Sequence[MachineProfile]) -> MachineProfile:
    """Return the best of each rate over repeated benchmarks, because other load can only lower it."""
    speeds = [profile.speed for profile in profiles]
    speed = MachineSpeed(
        flops=max(each.flops for each in speeds),
        traffic=max(each.traffic for each in speeds),
        few_flops=max(each.few_flops for each in speeds),
        kernel_seconds=min(each.kernel_seconds for each in speeds),
        compiled_flops=max(each.compiled_flops for each in speeds),
    )
    call_seconds = min(profile.call_seconds for profile in profiles)
    sample_seconds = min(profile.sample_seconds for profile in profiles)
    return MachineProfile(speed, call_seconds, sample_seconds, profiles[0].cores)


def spread(profiles: Sequence[MachineProfile]) -> float:
    """Return the relative difference between the two fastest of at least two benchmarks.

    It is that of the rate that differs most. `call_seconds` is excluded: as a small difference of two times it varies
    on an idle machine, too.
    """
    seconds = [
        (1 / profile.speed.flops, 1 / profile.speed.few_flops, profile.speed.kernel_seconds, profile.sample_seconds)
        for profile in profiles
    ]
    shortest, second, *_ = zip(*(sorted(rate) for rate in zip(*seconds, strict=True)), strict=True)
    difference: float = max(later / first - 1 for first, later in zip(shortest, second, strict=True))
    return difference


def steps_of(config: ExperimentConfig) -> tuple[int, int]:
    """Return the numbers of training and validation steps of an epoch."""
    counts = config.split_counts
    return config.updates(counts.train), math.ceil(counts.validation / config.batch_size)


def expected_seconds(config: ExperimentConfig, readouts: int, estimate: Estimate, machine: MachineProfile) -> float:
    """Return the seconds of an epoch of training and validation, without checkpoint and events.

    Args:
        config: Experiment.
        readouts: Number of readouts of the network.
        estimate: Cost of a training step for each worker.
        machine: Profile of every machine.
    """
    train, validation = steps_of(config)
    step = machine.speed.seconds(estimate.cost + _hidden_layer(config, readouts))
    before = _CALLS * machine.call_seconds + config.split_counts.train * machine.sample_seconds
    needs = STRATEGIES[config.strategy]
    if not needs.is_synchronous:
        # Workers train in parallel, limited by the rate at which the chief dispatches batches. The chief validates.
        return before + train * max(_DISPATCH_SECONDS, step / config.workers) + _FORWARD * validation * step
    if needs.devices and not machine.has_gpus:
        # The devices share the cores of one machine.
        together = config.num_replicas_in_sync * step + (_DEVICES_SECONDS if config.num_replicas_in_sync > 1 else 0.0)
        return before + train * together + _FORWARD * validation * config.num_replicas_in_sync * step
    # One all-reduce per update, and one for validation.
    reductions = (train + 1) * _REDUCTION_SECONDS if config.workers > 1 else 0.0
    return before + (train + _FORWARD * validation) * step + reductions


def _hidden_layer(config: ExperimentConfig, readouts: int) -> StepCost:
    """Return the cost of the hidden layer for a worker's samples of a step, 0 for a single readout."""
    weights = config.hidden_units * (readouts + _ACTIVATION) if readouts > 1 else 0
    return StepCost(
        few_flops=float(_WEIGHT_FLOPS * math.ceil(config.batch_size / config.num_replicas_in_sync) * weights)
    )
