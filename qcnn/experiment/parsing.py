"""Conversion of experiments from and to files, flags and JSON. It does not import TensorFlow."""

import contextlib
import json
import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from qcnn.circuits.formats.embedded import is_file, model_display_name
from qcnn.errors import ConfigError, format_value, single_line
from qcnn.experiment.config import (
    ALL_FIELDS,
    AUTO_FIELDS,
    CIRCUIT_FIELDS,
    EXPERIMENT_FIELDS,
    OPTION_FIELDS,
    ExperimentConfig,
)
from qcnn.experiment.fields import describe_allowed, field_type

logger = logging.getLogger("qcnn")


def from_mapping(values: Mapping[str, Any]) -> ExperimentConfig:
    """Validate an experiment, whose option fields may be in `options` or at the top level.

    Raises:
        ConfigError: If a field is invalid. The message names the first one, its allowed values and its value.

    >>> config = from_mapping({"qubits": 4, "rounds": 10})
    >>> config.split_counts
    SplitCounts(train=28, validation=6, test=6)
    >>> from_mapping({"qubits": 3})
    Traceback (most recent call last):
    qcnn.errors.ConfigError: qubits: must be at least 4 with hybrid. Given: 3
    """
    values = with_options(values)
    options = values.get("options")
    if isinstance(options, Mapping) and any(options.get(name) for name in CIRCUIT_FIELDS):
        # Imported here, because most experiments have no circuit file.
        from qcnn.circuits.formats.loading import with_embedded_circuit

        values = with_embedded_circuit(values)
    try:
        return ExperimentConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def with_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an experiment with its option fields moved into `options`.

    Raises:
        ConfigError: If an option field is in `options` and at the top level with different values.

    >>> with_options({"qubits": 4, "shots": 100, "options": {"warmup_fraction": 0.1}})
    {'qubits': 4, 'options': {'warmup_fraction': 0.1, 'shots': 100}}
    """
    others = {name: value for name, value in values.items() if name not in OPTION_FIELDS}
    top_level = {name: value for name, value in values.items() if name in OPTION_FIELDS}
    options = others.get("options", {})
    # Validation rejects options that are no mapping.
    if not top_level or not isinstance(options, Mapping):
        return others
    for name, value in top_level.items():
        if name in options and options[name] != value:
            raise ConfigError(
                f"{name}: must have one value, in options or at the top level. Given: "
                f"{format_value(options[name])} and {format_value(value)}"
            )
    return {**others, "options": {**options, **top_level}}


def as_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Validate an experiment and return all fields, with 0 for automatic values.

    Other fields may still change, from which the automatic values are computed.

    Raises:
        ConfigError: If a field is invalid, see `from_mapping`.
    """
    values = with_options(values)
    fields = from_mapping(values).model_dump()
    given = values.get("options") or {}
    options = {**fields["options"], "num_initializations": given.get("num_initializations", 0)}
    return {**fields, **{name: values.get(name, 0) for name in AUTO_FIELDS}, "options": options}


def from_json(text: str, overrides: Mapping[str, str] | None = None) -> ExperimentConfig:
    """Read an experiment from JSON, such as that of `ExperimentConfig.to_json`.

    Args:
        text: JSON object of fields, which may be incomplete.
        overrides: Values of other fields as the text of flags, which take precedence.

    Raises:
        ConfigError: If the text is no JSON object, or a field is invalid.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ConfigError(f"experiment: must be a JSON object of experiment fields. Given: {format_value(text)}")
    flags = {name: parse_flag(ALL_FIELDS[name], text) for name, text in (overrides or {}).items()}
    return from_mapping(merge(values, flags))


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    path = [str(part) for part in first["loc"]]
    known = OPTION_FIELDS if path[0] == "options" and len(path) > 1 else ExperimentConfig.model_fields
    name, value = path[-1], format_value(first["input"])
    if first["type"] == "extra_forbidden":
        if known is OPTION_FIELDS and name in EXPERIMENT_FIELDS:
            return f"{name}: must be at the top level, not in options. Given: {name}={value}"
        return f"{single_line(name)}: unknown field; valid fields: {', '.join(known)}. Given: {name}={value}"
    if name == "options":
        return f"options: must be a mapping with any of {', '.join(OPTION_FIELDS)}. Given: {value}"
    return f"{name}: must be {describe_allowed(known[name])}. Given: {value}"


def with_circuit_read(config: ExperimentConfig) -> ExperimentConfig:
    """Return an experiment with the file name of its circuit replaced by the content of the file.

    Raises:
        ConfigError: If the file does not exist or does not contain a trainable circuit.
    """
    if not is_file(config.model):
        return config
    # Imported here, because most experiments have no circuit file.
    from qcnn.circuits.formats.loading import embed_file

    return config.model_copy(update={"model": embed_file(config.model)})


def with_display_values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields for display: an embedded circuit is replaced by the name of its file."""
    model = fields.get("model")
    return {**fields, "model": model_display_name(model)} if isinstance(model, str) else dict(fields)


def parse_flag(field: FieldInfo, text: str) -> int | float | str:
    """Convert a command-line value to the type of its field.

    Text that cannot be converted is returned unchanged, so that validation rejects it.
    """
    kind = field_type(field)
    if kind is str or "_" in text:
        return text
    # Tuners write 8 as 8.0.
    for read in (int, float) if kind is int else (float,):
        with contextlib.suppress(ValueError):
            return read(text)
    return text


def merge(base: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an experiment file, overridden by flags.

    Raises:
        ConfigError: If the file has an option field with two values, see `with_options`.
    """
    merged = with_options(base)
    for name, value in flags.items():
        if name in OPTION_FIELDS:
            options = merged.get("options", {})
            merged["options"] = {**options, name: value} if isinstance(options, Mapping) else options
        else:
            merged[name] = value
    return merged
