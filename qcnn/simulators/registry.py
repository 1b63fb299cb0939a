"""Every simulator by the experiment's word for it, what it costs, and which one `auto` chooses."""

import dataclasses
import importlib
import math
from typing import Protocol, cast

from qcnn.errors import ConfigError
from qcnn.requirements import unpublished
from qcnn.simulators.costs import density, statevector, tfq, window
from qcnn.simulators.costs.cost import NOMINAL, Cost, in_words
from qcnn.simulators.interface import Limits, Simulator
from qcnn.simulators.structure.gates import Network


class Costs(Protocol):
    """What a simulator's module in `costs` offers; to import it loads no TensorFlow."""

    def estimate(self, network: Network, limits: Limits, /) -> Cost:
        """Return the cost of a training step, counted before anything runs; infinite memory where it is impossible."""

    def check(self, network: Network, limits: Limits, /) -> None:
        """Refuse what cannot be run.

        Raises:
            ConfigError: it cannot run the circuit, or not in that memory.
        """


class SimulatorModule(Protocol):
    """What the module that computes offers."""

    def create(self, network: Network, limits: Limits, /) -> Simulator:
        """Create the simulator.

        Raises:
            ConfigError: as `Costs.check`.
        """


# In the order in which their estimates are shown; of equally fast ones the first is taken. A new one is a module in
# `costs`, a module of its name beside this one, and a line here.
SIMULATORS: dict[str, Costs] = {
    "window": window,
    "statevector": statevector,
    "tfq": tfq,
    "density": density,
}

# Those that compute what noise makes of a circuit, and the one that reads circuits instead of gates.
_KNOW_NOISE, _READS_CIRCUITS = ("density",), "tfq"
# Of a training step's time, evaluating the readouts alone.
_FORWARD = 0.3


def estimate(simulator: str, network: Network, limits: Limits) -> Cost:
    """Return what a training step would cost a simulator; infinite memory where it is impossible."""
    if _reason(simulator, network):
        return Cost(memory=math.inf)
    cost = SIMULATORS[simulator].estimate(network, limits)
    return cost * (_FORWARD * network.evaluations) if network.evaluations else cost


def check(simulator: str, network: Network, limits: Limits) -> None:
    """Refuse what a simulator cannot run.

    Raises:
        ConfigError: it cannot run the circuit, or not in that memory.
    """
    _refuse(simulator, network)
    SIMULATORS[simulator].check(network, limits)


def create(simulator: str, network: Network, limits: Limits) -> Simulator:
    """Create a simulator.

    Raises:
        ConfigError: as `check`.
    """
    _refuse(simulator, network)
    return load(simulator).create(network, limits)


def load(simulator: str) -> SimulatorModule:
    """Return the module that computes, which loads TensorFlow."""
    return cast(SimulatorModule, importlib.import_module(f"qcnn.simulators.{simulator}"))


def _reason(simulator: str, network: Network) -> str:
    """Say why a simulator runs no such networks; empty if it does."""
    if reason := unpublished(simulator):
        return reason
    if network.noise and simulator not in _KNOW_NOISE:
        return f"simulator: must be auto or {' or '.join(_KNOW_NOISE)} with noise. Given: {simulator}"
    if network.evaluations and simulator == _READS_CIRCUITS:
        return f"gradient: must be adjoint with simulator {simulator}. Given: parameter_shift"
    return ""


def _refuse(simulator: str, network: Network) -> None:
    if reason := _reason(simulator, network):
        raise ConfigError(reason)


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
