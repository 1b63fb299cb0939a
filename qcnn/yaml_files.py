"""YAML and JSON files of users: experiments, studies, pod settings and prices."""

import io
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node

from qcnn.errors import ConfigError, describe_yaml_error
from qcnn.input_files import read_input

# Maximum bytes and values of a file.
_MAX_BYTES = 1_000_000
_MAX_VALUES = 10_000


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


def read_documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file of this package."""
    return list(YAML(typ="safe", pure=True).load_all(path.read_text(encoding="utf-8")))


def as_yaml(values: Mapping[str, Any]) -> str:
    """Return values as YAML, which `read_file` reads."""
    text = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    # Keeps the order of the fields.
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(dict(values), text)
    return text.getvalue()


def _values(node: Node | None, known: dict[int, float]) -> float:
    """Count the values in a YAML node, with each use of an alias. Recursive aliases count as infinite."""
    if not isinstance(node, CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        pairs = node.value if isinstance(node, MappingNode) else [(item,) for item in node.value]
        known[id(node)] = 1 + sum(_values(item, known) for pair in pairs for item in pair)
    return known[id(node)]
