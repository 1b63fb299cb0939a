"""What windows cost: each kind of part once, whatever the batch."""

import dataclasses
import math

from trainer.errors import ConfigError
from trainer.simulators.costs.cost import Cost, evolution, in_words
from trainer.simulators.interface import Limits
from trainer.simulators.structure.cones import TooWideError
from trainer.simulators.structure.gates import Network
from trainer.simulators.structure.groups import collect, fuse
from trainer.simulators.structure.readouts import find_readouts

# Parts are small: they are evolved in complex128, whatever state vectors are.
_REAL_BYTES = 8
# States that the sweeps hold at a time, and their density matrices. Measured.
_COPIES = 8
# Kernels of its observable and of putting its parts together, forward and back. Counted in a compiled program.
_KERNELS_OF_A_KIND = 40


def estimate(network: Network, limits: Limits) -> Cost:
    """Return the cost of a training step, one sample a reached readout included."""
    try:
        readouts = find_readouts(network)
    except TooWideError:
        return Cost(memory=math.inf)
    parts = {part.cone.key: part.cone for kind in readouts.kinds for part in kind.parts}.values()
    total = Cost(kernels=_KERNELS_OF_A_KIND * len(readouts.kinds))
    for cone in parts:
        total += evolution(collect(fuse(reversed(cone.gates))), cone.amplitudes, _REAL_BYTES)
    # Putting together: every sample reads what it reaches and writes all readouts, and the gradient does so again.
    reached, written = readouts.reached.shape[1], len(network.readouts)
    total += Cost(flops=4.0 * limits.share * reached * written, traffic=2.0 * 8 * limits.share * (reached + written))
    # The gradient adds up over all qubits what one value of a kind did: a product with a matrix of ones and zeros.
    ones = float(readouts.mixed.max()) * readouts.mixed.size
    total += Cost(flops=3 * 2 * ones, traffic=3 * 8 * ones)
    memory = sum(cone.amplitudes * 2.0 * _REAL_BYTES * _COPIES for cone in parts)
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
