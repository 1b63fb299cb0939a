"""Description of a data file in a JSON file next to it, which datasets, checkpoints and models keep."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from qcnn.errors import QcnnError
from qcnn.frozen import FrozenDict, freeze
from qcnn.input_files import read_input
from qcnn.storage.copies import local_file

_DATASET, _SHA256 = "dataset", "sha256"
_MAX_BYTES = 2**16


def sidecar_of(uri: str) -> str:
    """Return the path or URI of the description of a data file."""
    return f"{uri}.json"


def to_text(description: Mapping[str, Any], sha256: str) -> str:
    """Return the content of a description.

    Args:
        description: JSON values, with the name of the dataset as `dataset`.
        sha256: SHA-256 of the data file.
    """
    return json.dumps({**description, _SHA256: sha256}, indent=2, allow_nan=False) + "\n"


def read_sidecar(uri: str, sha256: str, warn: Callable[[str], None]) -> FrozenDict:
    """Return the description of a data file without its hash, empty if the file has none.

    A description is no input of a run. If it cannot be read, the file has none.

    Args:
        uri: Path or URI of the data file.
        sha256: SHA-256 of the data file.
        warn: Callback for the warning about the description of other content.
    """
    with contextlib.suppress(QcnnError, OSError, ValueError, RecursionError), local_file(sidecar_of(uri)) as path:
        found = json.loads(read_input("data", path, _MAX_BYTES), parse_constant=_reject)
        if isinstance(found, dict) and isinstance(found.get(_DATASET), str):
            if found.pop(_SHA256, None) == sha256:
                description: FrozenDict = freeze(found)
                return description
            warn(f"data: {sidecar_of(uri)} describes other content than that of {uri}, so it is ignored")
    return FrozenDict()


def _reject(constant: str) -> None:
    raise ValueError(constant)
