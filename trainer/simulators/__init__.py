"""Simulators behind one interface; `create` returns the one that an experiment asks for."""

import logging
from typing import TYPE_CHECKING

from trainer.simulators.interface import Batch, Limits, Simulator, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cirq

    from trainer.quantum.circuits import Ansatz

logger = logging.getLogger("qcnn")

__all__ = ["Batch", "Limits", "Simulator", "Table", "create"]


def create(simulator: str, ansatz: "Ansatz", qubits: "Sequence[cirq.Qid]", limits: Limits) -> Simulator:
    """Create the simulator of that name, or with `auto` the cheapest, for an ansatz on a ring of qubits.

    Raises:
        ConfigError: it cannot run the circuit, or not in that memory.
    """
    # TensorFlow takes seconds to import; whoever needs only the interface does not wait for it.
    from trainer.simulators import choice
    from trainer.simulators.gates import read_network
    from trainer.simulators.registry import SIMULATORS

    # All simulators share one reader: what it refuses, none of them runs.
    network = read_network(ansatz, qubits)
    if simulator == "auto":
        simulator = choice.cheapest(choice.estimates(network, limits), network, limits).simulator
        logger.info("simulator: %s, the cheapest that is exact and fits", simulator)
    return SIMULATORS[simulator].create(network, limits)
