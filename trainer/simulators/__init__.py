"""Simulators behind one interface; `create` imports only the one that is asked for."""

import importlib

import cirq

from trainer.circuits import Ansatz
from trainer.simulators.interface import Batch, Simulator

__all__ = ["Batch", "Simulator", "create"]


def create(simulator: str, ansatz: Ansatz, qubits: list[cirq.GridQubit]) -> Simulator:
    """Create the simulator of that name, which is also its module's, for an ansatz on a ring of qubits."""
    module = importlib.import_module(f"trainer.simulators.{simulator}")
    created: Simulator = module.create(ansatz, qubits)
    return created
