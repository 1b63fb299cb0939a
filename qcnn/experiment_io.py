"""An experiment's fields read from files, flags and JSON, and written again. Imports no TensorFlow."""

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
from qcnn.errors import ConfigError, format_value, single_line
from qcnn.experiment import ALL_FIELDS, AUTO_FIELDS, EXPERIMENT_FIELDS, OPTION_FIELDS, ExperimentConfig
from qcnn.fields import describe_allowed, field_type

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
    """Return the name of a field that may be given by an earlier name, and report it if it is."""
    if name not in RENAMED_FIELDS:
        return name
    report(f"{name}: renamed to {RENAMED_FIELDS[name]}; the earlier name is accepted until version 0.2")
    return RENAMED_FIELDS[name]


def current_value(name: str, value: Any, report: Callable[[str], None] = logger.warning) -> Any:
    """Return the value of a field that may be given by an earlier name, and report it if it is."""
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
    """Validate an experiment.

    Raises:
        ConfigError: one line with the first field that is wrong, its value and what is allowed.

    The fields of `options` may stand beside the others.

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
    """Return an experiment's values with the fields of `options` in there, not beside the others.

    Raises:
        ConfigError: a field stands in both places with different values.

    >>> with_options({"qubits": 4, "shots": 100, "options": {"warmup_fraction": 0.1}})
    {'qubits': 4, 'options': {'warmup_fraction': 0.1, 'shots': 100}}
    """
    values = with_current_names(values, logger.warning)
    others = {name: value for name, value in values.items() if name not in OPTION_FIELDS}
    beside = {name: value for name, value in values.items() if name in OPTION_FIELDS}
    options = others.get("options", {})
    # What is no mapping is refused as it is.
    if not beside or not isinstance(options, Mapping):
        return others
    for name, value in beside.items():
        if name in options and options[name] != value:
            raise ConfigError(
                f"{name}: must have the same value under options and beside it, or stand in one place only. Given: "
                f"{format_value(options[name])} and {format_value(value)}"
            )
    return {**others, "options": {**options, **beside}}


def as_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all words of an experiment, checked; what rules choose stays 0, as other words may still change.

    Raises:
        ConfigError: as `from_mapping`.
    """
    values = with_options(values)
    words = from_mapping(values).model_dump()
    given = values.get("options") or {}
    options = {**words["options"], "num_initializations": given.get("num_initializations", 0)}
    return {**words, **{name: values.get(name, 0) for name in AUTO_FIELDS}, "options": options}


def from_saved(values: Mapping[str, Any]) -> ExperimentConfig:
    """Return an experiment that was kept with a result; a word that came later has the value that stood for it then.

    Raises:
        ConfigError: as `from_mapping`.
    """
    values = with_options(with_current_names(values))
    options = values.get("options", {})
    return from_mapping({**values, "options": {**_EARLIER, **options}} if isinstance(options, Mapping) else values)


def from_json(text: str, typed: Mapping[str, str] | None = None) -> ExperimentConfig:
    """Read what `ExperimentConfig.to_json` wrote, or words of it; what was typed of others is laid over them.

    Raises:
        ConfigError: it is not that.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ConfigError(f"experiment: must be a JSON object of the experiment's words. Given: {format_value(text)}")
    flags = {name: parse_flag(ALL_FIELDS[name], text) for name, text in (typed or {}).items()}
    return from_mapping(merge(values, flags))


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    path = [str(part) for part in first["loc"]]
    known = OPTION_FIELDS if path[0] == "options" and len(path) > 1 else ExperimentConfig.model_fields
    name, value = path[-1], format_value(first["input"])
    if first["type"] == "extra_forbidden":
        if known is OPTION_FIELDS and name in EXPERIMENT_FIELDS:
            return f"{name}: must stand beside options, not under it. Given: {name}={value}"
        return f"{single_line(name)}: unknown key; the keys are {', '.join(known)}. Given: {name}={value}"
    if name == "options":
        return f"options: must be a mapping with any of {', '.join(OPTION_FIELDS)}. Given: {value}"
    return f"{name}: must be {describe_allowed(known[name])}. Given: {value}"


def with_circuit_read(config: ExperimentConfig) -> ExperimentConfig:
    """Return an experiment with the circuit in place of its file's name.

    Raises:
        ConfigError: there is no such file, or it holds no circuit that can be trained; one line.
    """
    if not is_file(config.model):
        return config
    # Loaded here: most experiments have no file.
    from qcnn.circuits.formats.loading import embedded

    return config.model_copy(update={"model": embedded(config.model)})


def as_shown(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return words as people read them: a model that holds a circuit by its file's name."""
    model = words.get("model")
    return {**words, "model": model_display_name(model)} if isinstance(model, str) else dict(words)


def parse_flag(field: FieldInfo, text: str) -> int | float | str:
    """Read a command-line value as its field's type; what does not fit stays text, for validation to refuse."""
    kind = field_type(field)
    if kind is str or "_" in text:
        return text
    # A tuner writes 8 as 8.0.
    for read in (int, float) if kind is int else (float,):
        with contextlib.suppress(ValueError):
            return read(text)
    return text


def read_file(path: Path, name: str = "config") -> dict[str, Any]:
    """Read a YAML (or JSON) file into a mapping, not yet validated; errors call it by a name.

    Raises:
        ConfigError: the file is missing, empty, too large, not parseable, or not a mapping.
    """
    try:
        with path.open("rb") as file:
            read = file.read(_MAX_BYTES + 1)
        if len(read) > _MAX_BYTES:
            raise ConfigError(f"{name}: the file must have at most {_MAX_BYTES} bytes. Given: {path}")
        text = read.decode()
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file. Given: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: the file cannot be read ({single_line(error)}). Given: {path}") from None
    try:
        with warnings.catch_warnings():
            # The parser warns of names that are given twice.
            warnings.simplefilter("ignore")
            # Counted before it is built: a value with a name may stand in many places, and those in many more.
            if _values(YAML(typ="safe", pure=True).compose(text), {}) > _MAX_VALUES:
                raise ConfigError(f"{name}: the file must hold at most {_MAX_VALUES} values. Given: {path}")
            content = YAML(typ="safe", pure=True).load(text)
    except ConfigError:
        raise
    except Exception as error:  # The parser's own, and any that a value with a tag of its own is made with.
        raise ConfigError(f"{name}: the file is not valid YAML ({single_line(error)}). Given: {path}") from None
    if content is None:
        raise ConfigError(f"{name}: the file is empty; it must hold keys and values. Given: {path}")
    if not isinstance(content, dict):
        raise ConfigError(f"{name}: the file must be a mapping of keys to values. Given: {path}")
    return {str(key): value for key, value in content.items()}


def as_yaml(values: Mapping[str, Any]) -> str:
    """Return the text of a file that `read_file` reads as these values."""
    text = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    # In the order of the words.
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(dict(values), text)
    return text.getvalue()


def merge(base: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Lay flags over a config file's values; option flags go into the options struct.

    Raises:
        ConfigError: as `with_options`, of the file's values.
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
    """Count the values below a node of a YAML file, each as often as it occurs; infinite if one contains itself."""
    if not isinstance(node, CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        pairs = node.value if isinstance(node, MappingNode) else [(item,) for item in node.value]
        known[id(node)] = 1 + sum(_values(item, known) for pair in pairs for item in pair)
    return known[id(node)]
