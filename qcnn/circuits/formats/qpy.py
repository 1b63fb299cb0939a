"""Import circuits from Qiskit's QPY files."""

import io
import warnings
from collections.abc import Sequence

from qcnn.circuits.ansatz import Ansatz
from qcnn.errors import ConfigError, single_line
from qcnn.process.installation import install_command


def read(content: bytes, name: str, inputs: Sequence[str] = ()) -> Ansatz:
    """Return the circuit of a QPY file, see `qiskit_circuits.from_qiskit`.

    Args:
        content: Content of the file.
        name: Name of the file, for error messages.
        inputs: Names of parameters that are inputs.

    Raises:
        ConfigError: If Qiskit is not installed, the file is invalid or has several circuits, or the circuit is not
            trainable.
    """
    try:
        from qiskit import QuantumCircuit, qpy

        from qcnn.circuits.formats.qiskit_circuits import from_qiskit
    except ImportError:
        raise ConfigError(
            f"model: needs Qiskit, which is not installed: {install_command('run')}. Given: {name}"
        ) from None
    try:
        with warnings.catch_warnings():
            # Qiskit emits warnings about files of other versions.
            warnings.simplefilter("ignore")
            circuits = qpy.load(io.BytesIO(content))
    except Exception as error:  # Qiskit raises errors of many types for damaged files.
        reason = f"{type(error).__name__}: {single_line(error)}"
        raise ConfigError(f"model: the file must be valid QPY ({reason}). Given: {name}") from None
    if len(circuits) != 1 or not isinstance(circuits[0], QuantumCircuit):
        raise ConfigError(f"model: a QPY file must have one circuit. Given: {len(circuits)} in {name}")
    return from_qiskit(circuits[0], name, inputs)
