"""Every simulator by the experiment's word for it. A new one is a module beside these and a line here."""

from typing import Protocol

from trainer.simulators import statevector, tfq, window
from trainer.simulators.cost import Cost
from trainer.simulators.gates import Network
from trainer.simulators.interface import Limits, Simulator


class SimulatorModule(Protocol):
    """What the module of a simulator offers."""

    def estimate(self, network: Network, limits: Limits, /) -> Cost:
        """Return the cost of a training step, counted before anything runs; infinite memory where it is impossible."""

    def create(self, network: Network, limits: Limits, /) -> Simulator:
        """Create the simulator.

        Raises:
            ConfigError: it cannot run the circuit, or not in that memory.
        """


# In the order in which their estimates are shown; of equally fast ones the first is taken.
SIMULATORS: dict[str, SimulatorModule] = {
    "window": window,
    "statevector": statevector,
    "tfq": tfq,
}
