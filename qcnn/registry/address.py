"""Paths and URIs of model registries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qcnn.registry.interface import Registry

# Environment variable with the address of the registry, and the address without it.
VARIABLE, DEFAULT = "QCNN_REGISTRY", "models"


def open_registry(address: str | None = None) -> Registry:
    """Return the registry of an address. Each type of registry has a module in this package.

    Args:
        address: Path or URI of a folder. None: the address in the environment, or the default folder.

    Raises:
        ConfigError: If the address is invalid, or a bucket has no credentials.
    """
    # This import loads NumPy and pydantic.
    from qcnn.registry.folder import FolderRegistry

    return FolderRegistry(address or os.environ.get(VARIABLE) or DEFAULT)
