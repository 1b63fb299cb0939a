"""Conversion of experiments from and to files, flags and JSON. It does not import TensorFlow."""

import contextlib
import io
import json
import logging
import math
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node

from qcnn.circuits.formats.embedded import is_file, model_display_name
from qcnn.errors import ConfigError, describe_yaml_error, format_value, single_line
from qcnn.experiment import ALL_FIELDS, AUTO_FIELDS, EXPERIMENT_FIELDS, OPTION_FIELDS, ExperimentConfig
from qcnn.fields import describe_allowed, field_type
from qcnn.input_files import read_input

# Maximum bytes and values of an experiment file.
_MAX_BYTES = 1_000_000
_MAX_VALUES = 10_000
# Behavior of training runs that were saved before these fields existed.
_EARLIER = {
    "learning_rate_schedule": "constant",
    "warmup_fraction": 0.0,
    "readout_normalization": "none",
    "initialization": "uniform",
    "num_initializations": 1,
}
# Earlier names of fields and values. Files, flags and Python accept them with a warning until 0.2; saved artifacts
# forever.
RENAMED_FIELDS: Mapping[str, str] = {
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
_RENAMED_VALUES: Mapping[str, Mapping[str, str]] = {
    "feature_scaling": {"range": "minmax"},
    "readout_normalization": {"centred": "centered", "plain": "none"},
    "simulator": {"window": "lightcone"},
}

logger = logging.getLogger("qcnn")


def _ignore(line: str) -> None:
    """Report nothing."""


def current_name(name: str, report: Callable[[str], None] = logger.warning) -> str:
    """Return the current name of a field, and report an earlier name."""
    if name not in RENAMED_FIELDS:
        return name
    report(f"{name}: renamed to {RENAMED_FIELDS[name]}; the earlier name is accepted until version 0.2")
    return RENAMED_FIELDS[name]


def current_value(name: str, value: Any, report: Callable[[str], None] = logger.warning) -> Any:
    """Return the current value of a field, and report an earlier name of the value."""
    renamed = _RENAMED_VALUES.get(name, {})
    if not isinstance(value, str) or value not in renamed:
        return value
    report(f"{name}: value {value} is renamed to {renamed[value]}; the earlier name is accepted until version 0.2")
    return renamed[value]


def with_current_names(values: Mapping[str, Any], report: Callable[[str], None] = _ignore) -> dict[str, Any]:
    """Return the values of an experiment with earlier names of fields and values replaced.

    Args:
        values: Values by field, with or without a mapping `options`.
        report: Called with one line for each earlier name.

    Raises:
        ConfigError: If a field is given by both names with different values.
    """
    found: dict[str, Any] = {}
    for given_name, value in values.items():
        if given_name == "options" and isinstance(value, Mapping):
            name, current = given_name, with_current_names(value, report)
        else:
            name = current_name(given_name, report)
            current = current_value(name, value, report)
        if name in found and found[name] != current:
            raise ConfigError(
                f"{name}: must not be given by an earlier name too. Given: {format_value(found[name])} and "
                f"{format_value(value)}"
            )
        found[name] = current
    return found


def from_mapping(values: Mapping[str, Any]) -> ExperimentConfig:
    """Validate an experiment, whose option fields may be in `options` or at the top level.

    Raises:
        ConfigError: If a field is invalid. The message names the first one, its allowed values and its value.

    >>> config = from_mapping({"qubits": 4, "rounds": 10})
    >>> config.split_counts
    SplitCounts(train=28, validation=6, test=6)
    >>> from_mapping({"qubits": 3})
    Traceback (most recent call last):
    qcnn.errors.ConfigError: qubits: must be an integer, at least 4 and at most 32768. Given: 3
    """
    try:
        return ExperimentConfig.model_validate(with_options(values))
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def with_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an experiment with its option fields moved into `options`.

    Raises:
        ConfigError: If an option field is in `options` and at the top level with different values.

    >>> with_options({"qubits": 4, "shots": 100, "options": {"warmup_fraction": 0.1}})
    {'qubits': 4, 'options': {'warmup_fraction': 0.1, 'shots': 100}}
    """
    values = with_current_names(values, logger.warning)
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


def from_saved(values: Mapping[str, Any]) -> ExperimentConfig:
    """Return the experiment of a saved result.

    Fields that are newer than the result get the values that match its behavior.

    Raises:
        ConfigError: If a field is invalid, see `from_mapping`.
    """
    values = with_options(with_current_names(values))
    options = values.get("options", {})
    return from_mapping({**values, "options": {**_EARLIER, **options}} if isinstance(options, Mapping) else values)


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


def read_file(path: Path, name: str = "config") -> dict[str, Any]:
    """Read a YAML or JSON file into a mapping, without validation.

    Args:
        path: File to read.
        name: Name of the file in messages.

    Raises:
        ConfigError: If the file cannot be read (see `read_input`), is empty, invalid, or not a mapping.
    """
    text = read_input(name, path, _MAX_BYTES)
    try:
        with warnings.catch_warnings():
            # The parser warns about duplicate anchors.
            warnings.simplefilter("ignore")
            # Counts the values before constructing them, because nested aliases grow exponentially.
            if _values(YAML(typ="safe", pure=True).compose(text), {}) > _MAX_VALUES:
                raise ConfigError(f"{name}: the file must hold at most {_MAX_VALUES} values. Given: {path}")
            content = YAML(typ="safe", pure=True).load(text)
    except ConfigError:
        raise
    except Exception as error:  # Constructors of tagged values raise errors of any type.
        raise ConfigError(f"{name}: the file is not valid YAML ({describe_yaml_error(error)}). Given: {path}") from None
    if content is None:
        raise ConfigError(f"{name}: the file must not be empty. Given: {path}")
    if not isinstance(content, dict):
        raise ConfigError(f"{name}: the file must be a mapping of keys to values. Given: {path}")
    return {str(key): value for key, value in content.items()}


def as_yaml(values: Mapping[str, Any]) -> str:
    """Return values as YAML, which `read_file` reads."""
    text = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    # Keeps the order of the fields.
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(dict(values), text)
    return text.getvalue()


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


def _values(node: Node | None, known: dict[int, float]) -> float:
    """Count the values in a YAML node, with each use of an alias. Recursive aliases count as infinite."""
    if not isinstance(node, CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        pairs = node.value if isinstance(node, MappingNode) else [(item,) for item in node.value]
        known[id(node)] = 1 + sum(_values(item, known) for pair in pairs for item in pair)
    return known[id(node)]
