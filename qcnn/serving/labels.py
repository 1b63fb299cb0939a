"""File labels.json beside the versions of a model: {"stable": 1, "canary": 2}."""

import json
from collections.abc import Mapping
from pathlib import Path

from qcnn.artifact_io import text_of
from qcnn.atomic_files import new_file, readable
from qcnn.errors import ConfigError
from qcnn.serving.versions import check_name

FILE = "labels.json"


def read_labels(folder: Path) -> dict[str, int]:
    """Return the version of each label, none without a file.

    Raises:
        ArtifactError: If the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    with readable("labels", path):
        try:
            labels = json.loads(text_of(path))
            if not isinstance(labels, dict):
                raise ValueError("it must be an object of versions by label")
            for label, version in labels.items():
                check_name(label, "label")
                if type(version) is not int or version < 1:
                    raise ValueError(f"the version of {label} must be a whole number, 1 or more")
        except (ConfigError, RecursionError) as error:
            raise ValueError(str(error)) from None
    return labels


def write_labels(labels: Mapping[str, int], folder: Path) -> None:
    """Write the version of each label to a folder, atomically."""
    with new_file(folder / FILE) as unfinished:
        unfinished.write_text(json.dumps(labels, indent=2, sort_keys=True) + "\n", encoding="utf-8")
