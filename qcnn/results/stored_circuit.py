"""Circuit of an experiment in the form that model folders store, read by Cirq."""

from typing import Any

from qcnn.circuits.input_expressions import array_form
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.heads import head_of
from qcnn.results import predictor_file
from qcnn.results.predictor_file import StoredCircuit
from qcnn.simulators.structure.gates import fingerprint_of, read_model


def circuit_content(config: ExperimentConfig) -> dict[str, Any]:
    """Return the content of predictor.json for rows.

    Raises:
        ConfigError: If the circuit cannot be built.
    """
    joint = config.options.head == "probabilities"
    ansatz, network = read_model(config.model, config.qubits, config.preparation, joint=joint)
    fingerprint = fingerprint_of(config.model, network)
    return predictor_file.circuit_content(network, head_of(config, ansatz.readouts), fingerprint, array_form)


def read_circuit(config: ExperimentConfig) -> StoredCircuit:
    """Return the circuit of an experiment as if a model folder stored it.

    Raises:
        ConfigError: If the circuit cannot be built.
    """
    return predictor_file.circuit_of(circuit_content(config), config.qubits, config.preparation)
