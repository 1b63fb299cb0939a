"""Settings of the last step of a pipeline, which registers the model."""

from __future__ import annotations

import dataclasses

from qcnn.errors import ConfigError, format_value
from qcnn.registry.address import check_for_steps
from qcnn.serving.versions import check_name


@dataclasses.dataclass(frozen=True)
class RegistrationSettings:
    """Registered model and registry of the last step, which the steps can reach.

    Attributes:
        name: Name of the model in the registry.
        registry: URI of a folder in a bucket, an absolute path at which the steps have a volume, mlflow:URL, or
            kubeflow:URL#FOLDER.

    Raises:
        ConfigError: If the name is invalid, or the registry cannot be reached.
    """

    name: str
    registry: str

    def __post_init__(self) -> None:
        check_name(self.name, "register")
        check_for_steps(self.registry)


def parse_registration(name: str | None, registry: str | None) -> RegistrationSettings | None:
    """Return the settings from the options --register and --registry, or None without them.

    Args:
        name: Name of the model, or None.
        registry: Address of the registry, or None.

    Raises:
        ConfigError: If only one of them is given, or one is invalid.
    """
    if (name is None) != (registry is None):
        given = format_value(name or registry)
        raise ConfigError(f"register: must be given together with --registry. Given: only {given}")
    return None if name is None or registry is None else RegistrationSettings(name, registry)
