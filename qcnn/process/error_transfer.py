"""Errors that a process raises again in its parent process, with type and message."""

from collections.abc import Mapping

from qcnn.errors import (
    MAX_MESSAGE_LENGTH,
    ArtifactError,
    ConfigError,
    QcnnError,
    RetryableError,
    TrainingError,
    WriteError,
)

# Type of the event of a process that ends with an error.
ERROR = "error"
# No other type is created by its name, because the child process may run code of the user.
_TYPES = {kind.__name__: kind for kind in (ConfigError, ArtifactError, WriteError, TrainingError, RetryableError)}


def to_values(error: QcnnError) -> dict[str, str]:
    """Return an error as values of an event: its type, or the nearest known one, and its message."""
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _TYPES)
    return {"type": next(known, TrainingError.__name__), "message": str(error)}


def from_values(values: Mapping[str, str]) -> QcnnError:
    """Return the error of an event.

    >>> from_values({"type": "ConfigError", "message": "qubits: must be at least 4. Given: 3"})
    ConfigError('qubits: must be at least 4. Given: 3')
    """
    return _TYPES.get(values["type"], TrainingError)(values["message"], MAX_MESSAGE_LENGTH)
