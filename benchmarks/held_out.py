"""Train and evaluate an experiment in the current process, in a temporary folder."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn import data
from qcnn.experiment.parsing import from_mapping, merge

if TYPE_CHECKING:
    from qcnn.results.evaluate import EvaluationResult

# One process, with few checkpoints.
_FIELDS = {"workers": 1, "strategy": "none", "checkpoint_seconds": 60.0, "profile_batches": ""}


def train_and_evaluate(fields: dict[str, Any], **overrides: Any) -> "EvaluationResult":
    """Train an experiment, and evaluate the exported model on its test split.

    Args:
        fields: Fields of the experiment.
        **overrides: Values that replace those of `fields`.
    """
    from qcnn.results import evaluate, export
    from qcnn.trainer.loop import train

    config = from_mapping(merge(fields, {**_FIELDS, **overrides}))
    dataset = data.generate(config)
    config = data.with_file_metadata(config, dataset)
    with tempfile.TemporaryDirectory() as folder:
        training, model = Path(folder, "training"), Path(folder, "model")
        train(config, dataset, training)
        export.export(training, model)
        return evaluate.evaluate(model, dataset)
