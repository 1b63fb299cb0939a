"""Which simulator: the cheapest exact one that fits in memory, by a count of what each would do."""

import dataclasses

from qcnn.trainer.errors import ConfigError
from qcnn.trainer.simulators.costs.cost import NOMINAL, Cost, in_words
from qcnn.trainer.simulators.interface import Limits
from qcnn.trainer.simulators.registry import SIMULATORS, estimate
from qcnn.trainer.simulators.structure.gates import Network


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a training step would cost a simulator, and whether it fits."""

    simulator: str
    cost: Cost
    fits: bool


def estimates(network: Network, limits: Limits) -> tuple[Estimate, ...]:
    """Return what a training step would cost each simulator."""
    costs = {name: estimate(name, network, limits) for name in SIMULATORS}
    return tuple(Estimate(name, cost, cost.memory <= limits.memory) for name, cost in costs.items())


def cheapest(every: tuple[Estimate, ...], network: Network, limits: Limits) -> Estimate:
    """Return the estimate of the fastest that fits.

    Raises:
        ConfigError: none fits.
    """
    fitting = [estimate for estimate in every if estimate.fits]
    if not fitting:
        least = min(every, key=lambda estimate: estimate.cost.memory)
        raise ConfigError(
            f"qubits: no simulator can run this circuit in {in_words(limits.memory)} (memory_gib); {least.simulator} "
            f"needs the least, {in_words(least.cost.memory)}. Given: {network.qubits}"
        )
    return min(fitting, key=lambda estimate: NOMINAL.seconds(estimate.cost))
