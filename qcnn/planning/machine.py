"""How fast a machine is, and the seconds of an epoch on it: counted work over rates."""

import dataclasses
import math
from collections.abc import Sequence

from qcnn.experiment import ExperimentConfig
from qcnn.requirements import STRATEGIES
from qcnn.simulators.costs.cost import NOMINAL, MachineSpeed, StepCost
from qcnn.simulators.registry import Estimate

# The share of a training step's work, forward and back, that a step without a gradient does.
_FORWARD = 0.25
# A reduction over workers, each on a machine of its own: two trips through a data centre's network.
_REDUCTION_SECONDS = 1e-3
# What it takes the chief of parameter_server to hand out a batch, and TensorFlow to run a step on several devices of a
# processor. Measured on two cores.
_HANDING_SECONDS, _DEVICES_SECONDS = 8e-3, 3e-3
# Programs that an epoch enters: training and validation.
_CALLS = 2
# Operations of a weight of the hidden layer for each sample, forward and back, in time. A hidden unit's activation
# takes as long as so many weights. Measured at 4 to 512 readouts and batches of 32 to 4,096.
_WEIGHT_FLOPS, _ACTIVATION = 8, 16


@dataclasses.dataclass(frozen=True)
class MachineProfile:
    """How fast it takes the steps of an epoch, the seconds of entering a program, and of ordering each sample.

    `cores` are those that were there when that was measured.
    """

    speed: MachineSpeed
    call_seconds: float
    sample_seconds: float
    cores: int

    def with_cores(self, cores: float) -> "MachineProfile":
        """Return a machine of the same kind with so many cores, also less than one.

        Arithmetic on many numbers and memory traffic grow with the cores. What one core does stays as it is: the
        arithmetic on few numbers, the start of kernels, the order of samples. A share of a core does all of it more
        slowly. `python -m benchmarks.cores` measures this.
        """
        share, alone = cores / self.cores, min(1.0, cores)
        speed = MachineSpeed(
            flops=self.speed.flops * share,
            traffic=self.speed.traffic * share,
            few_flops=self.speed.few_flops * alone,
            kernel_seconds=self.speed.kernel_seconds / alone,
        )
        return MachineProfile(speed, self.call_seconds / alone, self.sample_seconds / alone, max(1, int(cores)))


# Two cores of a present-day machine.
NOMINAL_MACHINE = MachineProfile(NOMINAL, call_seconds=5e-4, sample_seconds=1e-7, cores=2)


def fastest(moments: Sequence[MachineProfile]) -> MachineProfile:
    """Return the highest of each rate that a machine had at several moments: other work can only lower it."""
    speeds = [moment.speed for moment in moments]
    speed = MachineSpeed(
        flops=max(each.flops for each in speeds),
        traffic=max(each.traffic for each in speeds),
        few_flops=max(each.few_flops for each in speeds),
        kernel_seconds=min(each.kernel_seconds for each in speeds),
    )
    call_seconds = min(moment.call_seconds for moment in moments)
    sample_seconds = min(moment.sample_seconds for moment in moments)
    return MachineProfile(speed, call_seconds, sample_seconds, moments[0].cores)


def spread(moments: Sequence[MachineProfile]) -> float:
    """Return how much longer the second fastest of at least two moments took than the fastest, as a share.

    Of the rate that differs most. `call_seconds` is left out: it is a small difference of two times, so it scatters on
    an idle machine too.
    """
    seconds = [
        (1 / moment.speed.flops, 1 / moment.speed.few_flops, moment.speed.kernel_seconds, moment.sample_seconds)
        for moment in moments
    ]
    least, second, *_ = zip(*(sorted(rate) for rate in zip(*seconds, strict=True)), strict=True)
    differing: float = max(later / first - 1 for first, later in zip(least, second, strict=True))
    return differing


def steps_of(config: ExperimentConfig) -> tuple[int, int]:
    """Return the training and the validation steps of an epoch."""
    counts = config.split_counts
    return math.ceil(counts.train / config.batch_size), math.ceil(counts.validation / config.batch_size)


def expected_seconds(config: ExperimentConfig, readouts: int, estimate: Estimate, machine: MachineProfile) -> float:
    """Return the seconds of an epoch of training and validation, without its checkpoint and events.

    Of a network of so many readouts, whose states take each worker what is estimated, on machines like this one.
    """
    train, validation = steps_of(config)
    step = machine.speed.seconds(estimate.cost + _hidden_layer(config, readouts))
    before = _CALLS * machine.call_seconds + config.split_counts.train * machine.sample_seconds
    needs = STRATEGIES[config.strategy]
    if not needs.in_step:
        # Workers train on batches side by side, as fast as the chief hands them out; it validates by itself.
        return before + train * max(_HANDING_SECONDS, step / config.workers) + _FORWARD * validation * step
    if needs.devices:
        # The devices share the cores of one machine.
        together = config.num_replicas_in_sync * step + (_DEVICES_SECONDS if config.num_replicas_in_sync > 1 else 0.0)
        return before + train * together + _FORWARD * validation * config.num_replicas_in_sync * step
    # One reduction an update, one for validation.
    reductions = (train + 1) * _REDUCTION_SECONDS if config.workers > 1 else 0.0
    return before + (train + _FORWARD * validation) * step + reductions


def _hidden_layer(config: ExperimentConfig, readouts: int) -> StepCost:
    """Return the cost of the hidden layer for a worker's samples of a step; a single readout needs none."""
    weights = config.hidden_units * (readouts + _ACTIVATION) if readouts > 1 else 0
    return StepCost(
        few_flops=float(_WEIGHT_FLOPS * math.ceil(config.batch_size / config.num_replicas_in_sync) * weights)
    )
