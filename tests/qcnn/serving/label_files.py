"""Files of labels, as a user replaces them."""

import json
from pathlib import Path

from qcnn.atomic_files import new_file
from qcnn.serving.labels import FILE


def write_labels(folder: Path, labels: dict[str, int]) -> None:
    """Write the file atomically."""
    with new_file(folder / FILE) as path:
        path.write_text(json.dumps(labels, indent=2, sort_keys=True) + "\n", encoding="utf-8")
