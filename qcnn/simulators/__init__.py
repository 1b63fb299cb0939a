"""Simulators behind one interface; `create` returns the one that an experiment asks for."""

import logging
from typing import TYPE_CHECKING

from qcnn.circuits.noise import NOISELESS, Noise
from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.simulators.interface import (
    ExcitationBatch,
    Inputs,
    ProductStateBatch,
    ReadoutCoefficients,
    Simulator,
    SimulatorLimits,
    StateBatch,
    batch_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cirq

    from qcnn.circuits.circuits import Ansatz

logger = logging.getLogger("qcnn")

__all__ = [
    "ExcitationBatch",
    "Inputs",
    "ProductStateBatch",
    "ReadoutCoefficients",
    "Simulator",
    "SimulatorLimits",
    "StateBatch",
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
) -> Simulator:
    """Create the simulator of that name, or with `auto` the cheapest, for an ansatz on a ring of qubits.

    Its gradient is the simulator's own, or with `parameter_shift` made of the readouts of shifted circuits.

    Raises:
        ConfigError: it cannot run the circuit, or not in that memory.

    >>> import tensorflow as tf
    >>> from qcnn.circuits import circuits
    >>> from qcnn.simulators import ExcitationBatch, SimulatorLimits
    >>> ansatz = circuits.build("hybrid", 4)
    >>> simulator = create("auto", ansatz, circuits.ring(4), SimulatorLimits(memory=2**30, batch=3))
    >>> samples = ExcitationBatch(tf.constant([0, 1, 3]), tf.constant([0.1, 3.0, -2.0]))
    >>> parameters = tf.zeros(len(ansatz.symbols), tf.float64)
    >>> simulator.name, simulator.expectations(parameters, samples).shape
    ('statevector', TensorShape([3, 2]))
    """
    # Imported here: cirq and TensorFlow take seconds to load, and the interface does not need them.
    from qcnn.simulators import registry
    from qcnn.simulators.structure.gates import read_network
    from qcnn.simulators.structure.shift_rules import with_shift_rule

    # All simulators share one reader: what it refuses, none of them runs.
    network = read_network(ansatz, qubits, preparation, noise)
    own = with_shift_rule(network, gradient)
    if simulator == "auto":
        simulator = registry.cheapest(registry.estimates(own, limits), own, limits).simulator
        logger.info("simulator: %s, the cheapest that is exact and fits", simulator)
    created = registry.create(simulator, own, limits)
    if own is network:
        return created
    from qcnn.simulators.parameter_shift import ParameterShift

    return ParameterShift(network, created)
