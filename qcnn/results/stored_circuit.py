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
    return _read(config)[0]


def read_circuit(config: ExperimentConfig) -> tuple[StoredCircuit, str]:
    """Return the circuit of an experiment as if a model folder stored it, and its fingerprint.

    Raises:
        ConfigError: If the circuit cannot be built.
    """
    content, fingerprint = _read(config)
    return predictor_file.circuit_of(content, config.qubits, config.preparation), fingerprint


def _read(config: ExperimentConfig) -> tuple[dict[str, Any], str]:
    joint = config.options.head == "probabilities"
    ansatz, network = read_model(config.model, config.qubits, config.preparation, joint=joint)
    content = predictor_file.circuit_content(network, head_of(config, ansatz.readouts), array_form)
    return content, fingerprint_of(config.model, network)
