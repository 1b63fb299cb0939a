"""Quantum circuit simulators with a common interface."""

import logging
from typing import TYPE_CHECKING

from qcnn.circuits.noise import NOISELESS, Noise
from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.simulators.interface import (
    AmplitudeBatch,
    CircuitInputBatch,
    ExcitationBatch,
    Inputs,
    ProductStateBatch,
    Simulator,
    SimulatorLimits,
    StateBatch,
    StringCoefficients,
    batch_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cirq

    from qcnn.circuits.circuits import Ansatz

logger = logging.getLogger("qcnn")

__all__ = [
    "AmplitudeBatch",
    "CircuitInputBatch",
    "ExcitationBatch",
    "Inputs",
    "ProductStateBatch",
    "Simulator",
    "SimulatorLimits",
    "StateBatch",
    "StringCoefficients",
    "batch_of",
    "create",
]


def create(
    simulator: str,
    ansatz: "Ansatz",
    qubits: "Sequence[cirq.Qid]",
    limits: SimulatorLimits,
    preparation: Preparation = EXCITATION,
    noise: Noise = NOISELESS,
    gradient: str = "adjoint",
    *,
    joint: bool = False,
) -> Simulator:
    """Create a simulator for an ansatz on a ring of qubits.

    Args:
        simulator: Name of the simulator. `auto` selects the cheapest one that fits in memory.
        ansatz: Circuit, symbols and readouts.
        qubits: Ring of qubits.
        limits: Memory limit, batch size and number of replicas.
        preparation: Preparation of the data states.
        noise: Noise channels after the gates.
        gradient: `adjoint`, the simulator's own gradient, or `parameter_shift`.
        joint: Whether the joint probabilities of the readouts are predicted.

    Raises:
        ConfigError: If the simulator cannot run the circuit, or needs more memory than the limit.

    >>> import tensorflow as tf
    >>> from qcnn.circuits import circuits
    >>> from qcnn.simulators import ExcitationBatch, SimulatorLimits
    >>> ansatz = circuits.build("hybrid", 4)
    >>> simulator = create("auto", ansatz, circuits.ring(4), SimulatorLimits(memory=2**30, batch=3))
    >>> samples = ExcitationBatch(tf.constant([0, 1, 3]), tf.constant([0.1, 3.0, -2.0]))
    >>> parameters = tf.zeros(len(ansatz.symbols), tf.float64)
    >>> simulator.name, simulator.expectations(parameters, samples).shape
    ('statevector_cpu', TensorShape([3, 2]))
    """
    # Deferred imports: cirq and TensorFlow take seconds to load, and the interface does not need them.
    from qcnn.simulators import registry
    from qcnn.simulators.structure.gates import read_network
    from qcnn.simulators.structure.shift_rules import with_shift_rule

    network = read_network(ansatz, qubits, preparation, noise, joint=joint)
    simulated = with_shift_rule(network, gradient)
    if simulator == "auto":
        simulator = registry.cheapest(registry.estimates(simulated, limits), simulated, limits).simulator
        logger.info("simulator: %s, the cheapest that is exact and fits", simulator)
    created = registry.create(simulator, simulated, limits)
    if simulated is network:
        return created
    from qcnn.simulators.parameter_shift import ParameterShift

    return ParameterShift(network, created)
