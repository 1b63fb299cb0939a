"""Plug-ins: simulators, stores and targets of other packages, which name them in their entry points.

Installed packages are searched only for a name that this package does not have, and never at import.
"""

import contextlib
import functools
import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from qcnn.errors import ConfigError, format_value, single_line

# Groups of entry points.
SIMULATORS, STORES, TARGETS = "qcnn.simulators", "qcnn.stores", "qcnn.targets"


def installed(group: str) -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return the plug-ins of a group by name."""
    return _installed(group, tuple(sys.path))


@functools.lru_cache
def _installed(group: str, path: tuple[str, ...]) -> Mapping[str, importlib.metadata.EntryPoint]:
    # The first package of the search path takes precedence, as for modules.
    return {each.name: each for each in reversed(tuple(importlib.metadata.entry_points(group=group)))}


def allowed(group: str) -> str:
    """Return a description of the plug-ins of a group, for messages about unknown names."""
    return f"a plug-in (entry points {group}: {', '.join(sorted(installed(group))) or 'none'})"


def load(field: str, group: str, name: str, own: str) -> Any:
    """Return the object that the entry point of a plug-in names.

    Args:
        field: Field or setting that has the name, for messages.
        group: Group of the entry point.
        name: Name of the plug-in.
        own: Description of the names that this package has, for messages.

    Raises:
        ConfigError: If no installed package has a plug-in of this name, or it cannot be imported.
    """
    if name not in installed(group):
        raise ConfigError(f"{field}: must be {own}, or {allowed(group)}. Given: {format_value(name)}")
    with import_errors(field, group, name):
        return installed(group)[name].load()


@contextlib.contextmanager
def import_errors(field: str, group: str, name: str) -> Iterator[None]:
    """Context manager that reports errors of a plug-in's modules in one line.

    Args:
        field: Field or setting that has the name.
        group: Group of the entry point.
        name: Name of the plug-in.

    Raises:
        ConfigError: If an error is raised in the context.
    """
    try:
        yield
    except Exception as error:
        package, version = distribution(group, name)
        reason = f"{type(error).__name__}: {single_line(error)}"
        raise ConfigError(
            f"{field}: cannot be imported from package {package} {version} ({reason}). Given: {name}"
        ) from error


def distribution(group: str, name: str) -> tuple[str, str]:
    """Return the name and the version of the package that has a plug-in."""
    found = installed(group)[name].dist
    assert found is not None
    return found.name, found.version
