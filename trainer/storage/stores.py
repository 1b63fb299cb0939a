"""Opens the store that keeps an address."""

import importlib
from collections.abc import Callable

from qcnn.trainer.storage.address import SCHEMES, Address
from qcnn.trainer.storage.interface import Store


def open_store(address: Address) -> Store:
    """Return the files at an address.

    Raises:
        ConfigError: there are no credentials for it.
    """
    # Only the library that is needed is imported: each takes a second.
    module, _, name = SCHEMES[address.scheme].partition(":")
    kind: Callable[[Address], Store] = getattr(importlib.import_module(module), name)
    return kind(address)
