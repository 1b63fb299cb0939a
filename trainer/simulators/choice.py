"""Which simulator: the cheapest exact one that fits in memory, by a count of what each would do."""

import dataclasses
import math

from trainer.config import TFQ_MAX_QUBITS
from trainer.errors import ConfigError
from trainer.simulators import statevector, window
from trainer.simulators.cost import NOMINAL, Cost, in_words
from trainer.simulators.gates import Network
from trainer.simulators.interface import Limits

# What TensorFlow Quantum spends on a gate of a sample beside the arithmetic: it reads the circuit anew. Measured.
_TFQ_KERNELS_OF_A_GATE = 1.5


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a training step would cost a simulator, and whether it fits."""

    simulator: str
    cost: Cost
    fits: bool


def estimates(network: Network, limits: Limits) -> tuple[Estimate, ...]:
    """Return what a training step would cost each simulator."""
    costs = {
        "window": window.estimate(network, limits),
        "statevector": statevector.estimate(network, limits),
        "tfq": _tfq(network, limits),
    }
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


def _tfq(network: Network, limits: Limits) -> Cost:
    """Every gate of every sample on its own, forward, back twice, and its gradient."""
    if network.qubits > TFQ_MAX_QUBITS:
        return Cost(memory=math.inf)
    amplitudes = 2.0**network.qubits
    circuit = Cost(
        flops=sum(8.0 * 2 ** len(gate.qubits) for gate in network.gates) * amplitudes,
        kernels=_TFQ_KERNELS_OF_A_GATE * len(network.gates),
        memory=3 * 8 * amplitudes,
    )
    return circuit * (4 * limits.batch)
