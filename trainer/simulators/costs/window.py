"""What windows cost: each kind of part once, whatever the batch."""

import dataclasses
import math

from trainer.errors import ConfigError
from trainer.simulators.costs.cost import Cost, evolution, in_words, step, sweeps
from trainer.simulators.interface import Limits
from trainer.simulators.structure.cones import TooWideError
from trainer.simulators.structure.gates import Network
from trainer.simulators.structure.readouts import absorbed, alike_kinds, alike_parts, find_readouts, groups_of

# Parts are small: they are evolved in complex128, whatever state vectors are.
_REAL_BYTES = 8
# States that the sweeps hold at a time, and their density matrices. Measured.
_COPIES = 8
# Of a batch of parts, and of a batch of kinds of readouts, put together from them. Counted, see `costs.cost`.
_KERNELS_OF_PARTS, _KERNELS_OF_KINDS = 15, 15


def estimate(network: Network, limits: Limits) -> Cost:
    """Return the cost of a training step, one sample a reached readout included."""
    try:
        readouts = find_readouts(network)
    except TooWideError:
        return Cost(memory=math.inf)
    batches = alike_parts(readouts.kinds)
    groups = [group for cones in batches for cone in cones for group in groups_of(cone)]
    total = step([*groups, *map(absorbed, readouts.kinds)])
    total += Cost(kernels=_KERNELS_OF_KINDS * len(alike_kinds(readouts.kinds)) + _KERNELS_OF_PARTS * len(batches))
    memory = 0.0
    for cones in batches:
        total += sweeps(groups_of(cones[0]))
        for cone in cones:
            total += evolution(groups_of(cone), cone.amplitudes, _REAL_BYTES)
            memory += cone.amplitudes * 2.0 * _REAL_BYTES * _COPIES
    # Putting together: every sample reads what it reaches and writes all readouts, and the gradient does so again.
    reached, written = readouts.reached.shape[1], len(network.readouts)
    total += Cost(flops=4.0 * limits.share * reached * written, traffic=2.0 * 8 * limits.share * (reached + written))
    # The gradient adds up over all qubits what one value of a kind did: a product with a matrix of ones and zeros.
    ones = float(readouts.mixed.max()) * readouts.mixed.size
    total += Cost(flops=3 * 2 * ones, traffic=3 * 8 * ones)
    return dataclasses.replace(total, memory=memory)


def check(network: Network, limits: Limits) -> None:
    """Refuse what windows cannot run.

    Raises:
        ConfigError: the light cones do not fall into parts that fit.
    """
    need = estimate(network, limits).memory
    if need > limits.memory:
        raise ConfigError(
            f"qubits: the light cones of this circuit are too wide for simulator window, which needs "
            f"{in_words(need)}; memory_gib gives it {in_words(limits.memory)}. Given: {network.qubits}"
        )
