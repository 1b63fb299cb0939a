"""How fast a machine is, and the seconds of an epoch on it: counted work over rates."""

import dataclasses
import math

from trainer.config import ExperimentConfig
from trainer.simulators.choice import Estimate
from trainer.simulators.costs.cost import NOMINAL, Speed

# The share of a training step's work, forward and back, that a step without a gradient does.
_FORWARD = 0.25
# A reduction over workers, each on a machine of its own: two trips through a data centre's network.
_REDUCTION_SECONDS = 1e-3
# Programs that an epoch enters: training and validation.
_CALLS = 2
# A hidden unit's activation takes as long as so many readouts of its sum. Measured.
_ACTIVATION = 16


@dataclasses.dataclass(frozen=True)
class Machine:
    """How fast it evolves states, and the seconds of what is around them.

    These are the seconds of entering a compiled program, of an update of the weights, and of a weight of the hidden
    layer for each sample.
    """

    speed: Speed
    call_seconds: float
    update_seconds: float
    weight_seconds: float


# Two cores of a present-day machine.
NOMINAL_MACHINE = Machine(NOMINAL, call_seconds=5e-4, update_seconds=5e-6, weight_seconds=5e-10)


def steps_of(config: ExperimentConfig) -> tuple[int, int]:
    """Return the training and the validation steps of an epoch."""
    counts = config.split_counts
    return math.ceil(counts.train / config.batch_size), math.ceil(counts.validation / config.batch_size)


def epoch_seconds(config: ExperimentConfig, readouts: int, estimate: Estimate, machine: Machine) -> float:
    """Return the seconds of an epoch of training and validation, without its checkpoint and events.

    Of a network of so many readouts, whose states take each worker what is estimated, on machines like this one.
    """
    train, validation = steps_of(config)
    step = machine.speed.seconds(estimate.cost) + layer_weights(config, readouts) * machine.weight_seconds
    # One reduction an update, one for validation.
    reductions = (train + 1) * _REDUCTION_SECONDS if config.workers > 1 else 0.0
    calls = _CALLS * machine.call_seconds + train * machine.update_seconds
    return calls + (train + _FORWARD * validation) * step + reductions


def layer_weights(config: ExperimentConfig, readouts: int) -> int:
    """Return how many weights of the hidden layer a worker's samples meet in a step; a single readout has none."""
    if readouts == 1:
        return 0
    return math.ceil(config.batch_size / config.workers) * config.hidden_units * (readouts + _ACTIVATION)
