"""The digest by which a checkpoint or a model recognises the user's own circuit."""

import hashlib

from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import MODELS
from qcnn.simulators.structure.gates import Network, read_model


def fingerprint(model: str, qubits: int) -> str:
    """Return a digest of the user's own circuit; empty for a built-in model.

    Raises:
        ConfigError: the circuit cannot be used.
    """
    return "" if model in MODELS else _digest(read_model(model, qubits)[1])


def fingerprint_of(model: str, network: Network) -> str:
    """Return the `fingerprint` of a model whose circuit has been read."""
    return "" if model in MODELS else _digest(network)


def _digest(network: Network) -> str:
    return hashlib.sha256((_as_json(network.ansatz) or _as_read(network)).encode()).hexdigest()


def _as_json(ansatz: Ansatz) -> str | None:
    """Return the circuit as cirq writes it, None where it has gates of the user's own that cirq cannot write."""
    try:
        return cirq_json.written(ansatz)
    except (TypeError, ValueError):
        return None


def _as_read(network: Network) -> str:
    gates = [
        (gate.qubits, *(part.hex() for part in gate.spectrum.key), gate.exponent.constant, gate.exponent.coefficients)
        for gate in network.gates
    ]
    return repr((network.qubits, network.parameters, network.readouts, gates))
