"""One experiment from its data to the error on its test split, in this process and a folder that is left to nobody."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn import data
from qcnn.experiment_io import from_mapping, merge

if TYPE_CHECKING:
    from qcnn.results.evaluate import Evaluation

# One process, which saves seldom.
_WORDS = {"workers": 1, "strategy": "none", "checkpoint_seconds": 60.0, "profile_batches": ""}


def evaluated(words: dict[str, Any], **flags: Any) -> "Evaluation":
    """Train an experiment, some of its words laid over the others, and evaluate what is exported."""
    from qcnn.results import evaluate, export
    from qcnn.trainer.loop import train

    config = from_mapping(merge(words, {**_WORDS, **flags}))
    dataset = data.generate(config)
    config = data.with_file_metadata(config, dataset)
    with tempfile.TemporaryDirectory() as folder:
        training, model = Path(folder, "training"), Path(folder, "model")
        train(config, dataset, training)
        export.export(training, model)
        return evaluate.evaluate(model, dataset)
