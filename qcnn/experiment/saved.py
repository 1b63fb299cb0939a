"""Experiments of saved results, whose fields may have earlier names or be older than a field."""

from collections.abc import Mapping
from typing import Any

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping, with_options

# Behavior of training runs that were saved before these fields existed.
_EARLIER = {
    "learning_rate_schedule": "constant",
    "warmup_fraction": 0.0,
    "readout_normalization": "none",
    "initialization": "uniform",
    "num_initializations": 1,
}
# Earlier names of fields and values.
_NAMES: Mapping[str, str] = {
    "hang_seconds": "heartbeat_timeout_seconds",
    "starts": "num_initializations",
    "restarts": "max_restarts",
    "samples": "max_samples",
    "scaling": "feature_scaling",
    "weights": "export_checkpoint",
    "stop_at": "target_val_loss",
    "schedule": "learning_rate_schedule",
    "warmup": "warmup_fraction",
    "readouts": "readout_normalization",
    "memory_gib": "simulator_memory_gib",
}
_VALUES: Mapping[str, Mapping[str, str]] = {
    "feature_scaling": {"range": "minmax"},
    "readout_normalization": {"centred": "centered", "plain": "none"},
    "simulator": {"window": "lightcone"},
}


def from_saved(values: Mapping[str, Any]) -> ExperimentConfig:
    """Return the experiment of a saved result.

    Fields that are newer than the result get the values that match its behavior.

    Raises:
        ConfigError: If a field is invalid, see `qcnn.experiment.parsing.from_mapping`.
    """
    values = with_options(_with_current_names(values))
    options = values.get("options", {})
    return from_mapping({**values, "options": {**_EARLIER, **options}} if isinstance(options, Mapping) else values)


def _with_current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given, value in values.items():
        name = _NAMES.get(given, given)
        if name == "options" and isinstance(value, Mapping):
            found[name] = _with_current_names(value)
        else:
            found[name] = _VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value
    return found
