"""Every simulator by the experiment's word for it: what it costs, and the module that computes."""

import importlib
from typing import Protocol, cast

from trainer.simulators.costs import statevector, tfq, window
from trainer.simulators.costs.cost import Cost
from trainer.simulators.interface import Limits, Simulator
from trainer.simulators.structure.gates import Network


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
}


def load(simulator: str) -> SimulatorModule:
    """Return the module that computes, which loads TensorFlow."""
    return cast(SimulatorModule, importlib.import_module(f"trainer.simulators.{simulator}"))
