"""Versions of a model and labels: which to load, and which version a request means. Decisions without files."""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from qcnn.errors import ConfigError, format_value
from qcnn.serving.errors import not_found

_LATEST = re.compile(r"latest:([1-9][0-9]{0,5})", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_VERSION = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


@dataclasses.dataclass(frozen=True)
class VersionPolicy:
    """Versions to load: that of `label`, `only` these if there are any, the `latest` highest ones, or all if it is 0.

    Without `label` and `only`, the versions with a label are loaded, too.
    """

    latest: int = 1
    only: frozenset[int] = frozenset()
    label: str | None = None

    def labels_of(self, labels: Mapping[str, int]) -> Mapping[str, int]:
        """Return the labels that requests may use.

        Args:
            labels: Version of each label.
        """
        if self.label is not None:
            return {label: version for label, version in labels.items() if label == self.label}
        if self.only:
            return {label: version for label, version in labels.items() if version in self.only}
        return labels


class Mirror(Protocol):
    """Copy of the versions of a service. It can be pickled, because each process of a server has a copy."""

    def open(self, folder: Path) -> AbstractContextManager[Callable[[], None]]:
        """Return a context manager that yields a function, which downloads the changes to a folder."""
        ...


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """Path or URI of a model, and its versions to load.

    With `mirror`, the address is for messages only.
    """

    address: str
    policy: VersionPolicy = VersionPolicy()
    mirror: Mirror | None = None


def parse_policy(text: str) -> VersionPolicy:
    """Parse the option --versions.

    Raises:
        ConfigError: If it is neither `latest:N`, `all` nor versions.
    """
    if text == "all":
        return VersionPolicy(0)
    if match := _LATEST.fullmatch(text):
        return VersionPolicy(int(match[1]))
    numbers = [parse_version(part) for part in text.split(",")]
    if None not in numbers:
        return VersionPolicy(only=frozenset(filter(None, numbers)))
    raise ConfigError(f"versions: must be latest:N, all, or versions as 1,3. Given: {format_value(text)}")


def parse_version(name: str) -> int | None:
    """Return the version that a folder of this name contains, or None if it is no version."""
    return int(name) if _VERSION.fullmatch(name) else None


def check_name(name: str, field: str = "name") -> str:
    """Return the name of a model or label.

    Raises:
        ConfigError: If it is not letters, digits, dots, dashes and underscores.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{field}: must be at most 100 letters, digits, dots, dashes and underscores, and begin with a letter or "
            f"digit. Given: {format_value(name)}"
        )
    return name


def is_name(name: str) -> bool:
    """Return whether a model may have a name, see `check_name`."""
    try:
        check_name(name)
    except ConfigError:
        return False
    return True


def wanted_versions(available: Collection[int], policy: VersionPolicy, labels: Mapping[str, int]) -> list[int]:
    """Return the versions to load, ascending: those of the policy, and those with a label unless it names versions.

    Args:
        available: Versions with a model folder that can be loaded.
        policy: Versions to load.
        labels: Version of each label.
    """
    if policy.label is not None:
        return sorted({labels[policy.label]} & {*available}) if policy.label in labels else []
    if policy.only:
        return sorted(policy.only & {*available})
    latest = sorted(available)[-policy.latest :] if policy.latest else available
    return sorted({*latest, *labels.values()} & {*available})


def moved_labels(current: Mapping[str, int], requested: Mapping[str, int], loaded: Collection[int]) -> dict[str, int]:
    """Return the version of each label: a label moves only to a loaded version.

    Args:
        current: Present versions of the labels.
        requested: Versions of the labels in the file.
        loaded: Loaded versions.
    """
    moved = {}
    for label, version in requested.items():
        target = version if version in loaded else current.get(label)
        if target is not None and target in loaded:
            moved[label] = target
    return moved


def kept_versions(loaded: Collection[int], wanted: Collection[int], labels: Mapping[str, int]) -> set[int]:
    """Return the loaded versions that stay: wanted ones, those with a label, and the last one if none is wanted."""
    kept = {*loaded} & {*wanted, *labels.values()}
    return kept or ({max(loaded)} if loaded else set())


def resolve(
    name: str, loaded: Collection[int], labels: Mapping[str, int], version: str | None = None, label: str | None = None
) -> int:
    """Return the version that a request means, by default the highest.

    Args:
        name: Name of the model, for the message.
        loaded: Loaded versions.
        labels: Version of each label.
        version: Requested version as text, or None.
        label: Requested label, or None.

    Raises:
        RequestError: If the version or label does not exist.
    """
    versions = ", ".join(map(str, sorted(loaded))) or "none"
    if label is not None:
        if label not in labels:
            raise not_found(
                f"label: model {name} must have it: {', '.join(sorted(labels)) or 'none'}. Given: {format_value(label)}"
            )
        return labels[label]
    if version is not None:
        number = parse_version(version)
        if number is None or number not in loaded:
            raise not_found(f"version: model {name} must have it: {versions}. Given: {format_value(version)}")
        return number
    if not loaded:
        raise not_found(f"model: {name} must have a loaded version. Given: none")
    return max(loaded)
