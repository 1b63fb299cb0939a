"""Circuits from memory as models: circuits of Cirq and Qiskit, and functions that build them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from qcnn.circuits.formats.embedded import parse_input_names
from qcnn.errors import ConfigError, format_value, single_line
from qcnn.process.library_loading import importing

if TYPE_CHECKING:
    import cirq
    from qiskit import QuantumCircuit

    from qcnn.circuits.ansatz import Ansatz

    # Circuit, or function of the qubits of the ring that returns one.
    Circuit: TypeAlias = cirq.AbstractCircuit | Ansatz | QuantumCircuit
    CircuitFunction: TypeAlias = Callable[[Sequence[cirq.GridQubit]], Circuit]
else:
    Circuit = CircuitFunction = Any


def embedded_circuit(model: object, qubits: int, inputs: str = "") -> str:
    """Return a circuit from memory as embedded text, read like the content of a file.

    Args:
        model: Circuit, or function of the qubits of the ring that returns one.
        qubits: Number of qubits on the ring.
        inputs: Names of parameters that are inputs, as the field of an experiment.

    Raises:
        ConfigError: If it is no circuit that can be trained, or the function fails.
    """
    with importing("cirq"):
        from qcnn.circuits.ansatz import ring
        from qcnn.circuits.formats.loading import embed_ansatz

    name = "circuit"
    if is_circuit_function(model):
        name = getattr(model, "__name__", name).strip("<>")
        try:
            model = model(ring(qubits))
        except ConfigError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {single_line(error)}"
            raise ConfigError(f"model: the function fails ({reason}). Given: {name}") from error
    return embed_ansatz(_ansatz_of(model, name, parse_input_names(inputs) if inputs else ()), f"{name}.json")


def is_circuit_function(model: object) -> TypeGuard[Callable[..., object]]:
    """Return whether a model is a function of the qubits of the ring, instead of a circuit."""
    from qcnn.circuits.ansatz import Ansatz

    is_circuit = isinstance(model, Ansatz) or _is_of("cirq", "AbstractCircuit", model) or _is_of_qiskit(model)
    return callable(model) and not is_circuit


def _is_of_qiskit(model: object) -> bool:
    return _is_of("qiskit", "QuantumCircuit", model)


def _is_of(library: str, name: str, model: object) -> bool:
    """Return whether a value is of a class of a library, which is not imported for this."""
    return library in sys.modules and isinstance(model, getattr(sys.modules[library], name))


def _ansatz_of(model: object, name: str, inputs: Sequence[str]) -> Ansatz:
    import cirq

    from qcnn.circuits.ansatz import Ansatz
    from qcnn.circuits.formats import cirq_json

    if isinstance(model, Ansatz):
        return model.with_inputs(inputs) if inputs else model
    if isinstance(model, cirq.AbstractCircuit):
        ansatz = cirq_json.from_circuit(model.unfreeze(), name)
        return ansatz.with_inputs(inputs) if inputs else ansatz
    if _is_of_qiskit(model):
        from qcnn.circuits.formats.qiskit_circuits import from_qiskit

        return from_qiskit(model, name, inputs)
    raise ConfigError(
        "model: must be a name, a file, a qcnn.Ansatz, a cirq.Circuit, a qiskit.QuantumCircuit, or a function that "
        f"returns one. Given: {format_value(model)}"
    )
