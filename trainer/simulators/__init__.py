"""Simulators behind one interface; `create` imports only the one that is asked for."""

import logging
from collections.abc import Callable

import cirq

from trainer.errors import ConfigError, one_line
from trainer.quantum.circuits import Ansatz
from trainer.simulators.interface import Batch, Limits, Simulator, Table

logger = logging.getLogger("qcnn")

__all__ = ["Batch", "Limits", "Simulator", "Table", "create"]


def create(simulator: str, ansatz: Ansatz, qubits: list[cirq.GridQubit], limits: Limits) -> Simulator:
    """Create the simulator of that name, or with `auto` the cheapest, for an ansatz on a ring of qubits.

    Raises:
        ConfigError: it cannot run the circuit, or not in that memory.
    """
    from trainer.simulators import choice, statevector, window
    from trainer.simulators.gates import Network, read_network

    # One reader for all: what one simulator refuses, none runs.
    network = read_network(ansatz, qubits)
    if simulator == "auto":
        simulator = choice.cheapest(choice.estimates(network, limits), network, limits).simulator
        logger.info("simulator: %s, the cheapest that is exact and fits", simulator)
    if simulator == "tfq":
        try:
            from trainer.simulators import tfq
        except ImportError as error:
            reason = one_line(error)
            raise ConfigError(f"simulator: TensorFlow Quantum is not installed here ({reason}). Given: tfq") from None

        return tfq.create(ansatz, qubits, network)
    creators: dict[str, Callable[[Network, Limits], Simulator]] = {
        "window": window.create,
        "statevector": statevector.create,
    }
    return creators[simulator](network, limits)
