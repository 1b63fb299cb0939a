"""Paths and URIs of model registries."""

from __future__ import annotations

import os
import urllib.parse
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError, has_credentials

if TYPE_CHECKING:
    from qcnn.registry.interface import Registry

# Environment variable with the address of the registry, and the address without it.
VARIABLE, DEFAULT = "QCNN_REGISTRY", "models"
_MLFLOW = "mlflow:"


def open_registry(address: str | None = None) -> Registry:
    """Return the registry of an address. Each type of registry has a module in this package.

    Args:
        address: Path or URI of a folder, or mlflow:URL of an MLflow server. None: the address in the environment, or
            the default folder.

    Raises:
        ConfigError: If the address is invalid, or a bucket has no credentials.
        UnreachableError: If a server does not respond.
    """
    address = address or os.environ.get(VARIABLE) or DEFAULT
    # These imports load NumPy and pydantic, or the client of the server.
    if is_service(address):
        from qcnn.registry.mlflow_registry import MlflowRegistry

        return MlflowRegistry(address)
    from qcnn.registry.folder_registry import FolderRegistry

    return FolderRegistry(address)


def is_service(address: str) -> bool:
    """Return whether an address is that of a server, and not of a folder."""
    return address.startswith(_MLFLOW)


def check_without_secrets(address: str) -> None:
    """Check an address that pipelines and processes of a run display.

    Raises:
        ConfigError: If it is that of a server and has a user name, password or query.
    """
    if is_service(address):
        uri = address.removeprefix(_MLFLOW)
        if has_credentials(uri) or urllib.parse.urlsplit(uri).query:
            raise ConfigError(
                "registry: must have no credentials for a step of a pipeline; set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD. Given: an mlflow URL with credentials"
            )
