"""Names of registered models such as digits@champion or digits@2, and the versions that they mean."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from qcnn.errors import ArtifactError, format_value
from qcnn.registry.address import open_registry
from qcnn.registry.interface import ModelVersion, Registry
from qcnn.serving.versions import check_name, parse_version
from qcnn.storage.copies import local_copy

# Number of names in messages.
_NAMED = 10


@dataclasses.dataclass(frozen=True)
class ModelReference:
    """Registered model with a label or a version, of which one is None."""

    name: str
    label: str | None = None
    version: int | None = None


def parse_reference(text: str) -> ModelReference | None:
    """Return the registered model that NAME@LABEL or NAME@VERSION means, or None for a path or URI.

    >>> parse_reference("digits@champion")
    ModelReference(name='digits', label='champion', version=None)
    >>> parse_reference("digits@2")
    ModelReference(name='digits', label=None, version=2)

    Raises:
        ConfigError: If the name or the label is invalid.
    """
    name, separator, rest = text.partition("@")
    if not separator or "/" in text or Path(text).exists():
        return None
    check_name(name)
    version = parse_version(rest)
    return ModelReference(name, version=version) if version else ModelReference(name, check_name(rest, "label"))


def resolve(registry: Registry, reference: ModelReference) -> int:
    """Return the version that a reference means.

    Raises:
        ArtifactError: If it does not exist or cannot be used.
    """
    if reference.label is None:
        return find_version(registry, reference.name, reference.version)
    find_version(registry, reference.name)
    labels = registry.labels(reference.name).versions
    if reference.label not in labels:
        raise ArtifactError(
            f"label: must be one of {reference.name}: {', '.join(sorted(labels)) or 'none'}. "
            f"Given: {format_value(reference.label)}"
        )
    return find_version(registry, reference.name, labels[reference.label])


@contextlib.contextmanager
def model_copy(address: str, registry: str | None = None) -> Iterator[Path]:
    """Context manager that yields the local folder of a model or run, or a copy of it.

    Args:
        address: Path or URI, or NAME@LABEL or NAME@VERSION of a registered model.
        registry: Path or URI of its registry, or None for the default.

    Raises:
        ArtifactError: If the model is not registered.
    """
    if (reference := parse_reference(address)) is None:
        with local_copy(address) as folder:
            yield folder
        return
    with (
        contextlib.closing(open_registry(registry)) as opened,
        opened.open(reference.name, resolve(opened, reference)) as folder,
    ):
        yield folder


def find_version(registry: Registry, name: str, version: int | None = None) -> int:
    """Return a version of a model after a check, or the highest one that can be used.

    Args:
        registry: Registry.
        name: Name of the model.
        version: Version, or None for the highest one.

    Raises:
        ArtifactError: If it does not exist or cannot be used.
    """
    versions = check_registered(registry, name)
    usable = [each.number for each in versions if not each.problem]
    if version is None and usable:
        return max(usable)
    if version in usable:
        return version
    problems = [
        f"{each.number} ({each.problem})" for each in versions if each.problem and version in (None, each.number)
    ]
    raise ArtifactError(
        f"version: must be a complete one of {name}: {', '.join(map(str, usable[-_NAMED:])) or 'none'}. "
        f"Given: {problems[0] if problems else version}"
    )


def check_registered(registry: Registry, name: str) -> list[ModelVersion]:
    """Return the versions of a model.

    Raises:
        ArtifactError: If no model has this name.
        ConfigError: If the name is invalid.
    """
    versions = registry.versions(check_name(name))
    if not versions:
        known = ", ".join(registry.names()[:_NAMED]) or "none is registered"
        raise ArtifactError(f"name: must be that of a model in {registry.address}: {known}. Given: {name}")
    return versions
