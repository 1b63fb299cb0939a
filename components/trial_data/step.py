"""What the trial_data step does."""

from typing import Any

from qcnn.components.generate_data.step import generate_data
from qcnn.trainer.config import from_json
from qcnn.trainer.startup import one_line_errors


def trial_data(experiment: str, folder: str) -> dict[str, Any]:
    """Write the dataset; return its metadata."""
    with one_line_errors():
        words = from_json(experiment).model_dump()
    return generate_data(words, folder)[1]
