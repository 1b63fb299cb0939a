"""Paths and URIs of model registries."""

from __future__ import annotations

import os
import urllib.parse
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError, has_credentials
from qcnn.registry.defaults import FOLDER
from qcnn.registry.kubeflow_address import PREFIX, parse_kubeflow
from qcnn.storage.store import check_reachable

if TYPE_CHECKING:
    from qcnn.registry.interface import Registry

# Environment variable with the address of the registry, and the address without it.
VARIABLE, DEFAULT = "QCNN_REGISTRY", FOLDER
# Help of the option --registry.
HELP = "Model registry: a folder, one in a bucket, mlflow:URL, or kubeflow:URL#FOLDER."
_MLFLOW = "mlflow:"


def open_registry(address: str | None = None) -> Registry:
    """Return the registry of an address. Each type of registry has a module in this package.

    Args:
        address: Path or URI of a folder, mlflow:URL of an MLflow server, or kubeflow:URL#FOLDER of a Kubeflow Model
            Registry and the folder of its files. None: the address in the environment, or the default folder.

    Raises:
        ConfigError: If the address is invalid, or a bucket has no credentials.
        UnreachableError: If a server does not respond.
    """
    address = address or os.environ.get(VARIABLE) or DEFAULT
    # These imports load NumPy and pydantic, or the client of the server.
    if address.startswith(_MLFLOW):
        from qcnn.registry.mlflow_registry import MlflowRegistry

        return MlflowRegistry(address)
    if address.startswith(PREFIX):
        from qcnn.registry.kubeflow_registry import KubeflowRegistry

        return KubeflowRegistry(address)
    from qcnn.registry.folder_registry import FolderRegistry

    return FolderRegistry(address)


def check_for_steps(address: str) -> None:
    """Check an address that the steps of a pipeline use.

    Raises:
        ConfigError: If the steps cannot reach its files, or it has secrets.
    """
    check_without_secrets(address)
    if address.startswith(PREFIX):
        check_reachable("registry: the folder of the files", parse_kubeflow(address).files)
    elif not address.startswith(_MLFLOW):
        check_reachable("registry", address)


def check_without_secrets(address: str) -> None:
    """Check an address that pipelines and processes of a run display.

    Raises:
        ConfigError: If it is that of a server and has a user name, password or query.
    """
    if address.startswith(PREFIX):
        parse_kubeflow(address)
    elif address.startswith(_MLFLOW):
        uri = address.removeprefix(_MLFLOW)
        if has_credentials(uri) or urllib.parse.urlsplit(uri).query:
            raise ConfigError(
                "registry: must have no credentials for a step of a pipeline; set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD. Given: an mlflow URL with credentials"
            )
