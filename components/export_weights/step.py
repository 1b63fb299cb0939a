"""What the export_weights step does."""

from pathlib import Path
from typing import Any

from qcnn.trainer.startup import load_tensorflow, one_line_errors


def export_weights(training: str, model: str) -> dict[str, Any]:
    """Write the model folder; return its metadata."""
    with one_line_errors():
        load_tensorflow()
        from qcnn.trainer.results.export import export

        description = export(Path(training), Path(model))
    words = {name: description[name] for name in ("dataset_digest", "weights")}
    measured = {"framework": "tensorflow", **words, **description["training"]}
    return {**measured, **description["provenance"]}
