"""The description of an artifact: JSON of a known version, with a digest that shows any change."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn.trainer.errors import ArtifactError
from qcnn.trainer.folders import readable
from qcnn.trainer.untrusted import text_of

# Version 1 had no digest of its own content; it can still be read.
_VERSIONS = (1, 2)
_DIGEST = "sha256"


def save_description(values: Mapping[str, Any], path: Path) -> None:
    """Write the description of an artifact, with its version and the digest of its content."""
    content = {"schema_version": _VERSIONS[-1], **values}
    path.write_text(json.dumps({**content, _DIGEST: _digest(content)}, indent=2) + "\n", encoding="utf-8")


def load_description(kind: str, path: Path) -> dict[str, Any]:
    """Read what `save_description` wrote; messages call the artifact by its kind.

    Raises:
        ArtifactError: it is missing, damaged or changed, or of another version.
    """
    with readable(kind, path):
        content = json.loads(text_of(path))
        if not (isinstance(content, dict) and "schema_version" in content):
            raise ValueError("it does not describe an artifact")
        version, digest = content.get("schema_version"), content.pop(_DIGEST, None)
        if type(version) is not int or version not in _VERSIONS:
            raise ArtifactError(f"{kind}: schema_version must be one of {_VERSIONS}. Given: {version} in {path}")
        if digest != _digest(content) and (version > 1 or digest is not None):
            raise ValueError(f"{_DIGEST} is not that of the content")
    return content


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
