"""A trained network for new inputs: predictions from its exported weights."""

import dataclasses
from pathlib import Path

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.data import described
from qcnn.trainer.data.layout import Layout
from qcnn.trainer.results import export
from qcnn.trainer.results.description import describe
from qcnn.trainer.results.serving import ExactPredictor, exact_predictor


@dataclasses.dataclass(frozen=True)
class Predictor:
    """A network with the weights that were exported; `layout` says how a row of a table becomes what it takes.

    `predict` takes samples, by the names of the network's inputs, each (samples, ...), and returns the predictions,
    float64 (samples,): those of exact readouts, whatever shots it was trained with.
    """

    config: ExperimentConfig
    layout: Layout
    predict: ExactPredictor


def load_predictor(folder: Path) -> Predictor:
    """Load a model's folder.

    Raises:
        ArtifactError: a file is missing or damaged, or the weights are another model's.

    After the example of `qcnn.trainer.results.export.export`:

    >>> from pathlib import Path
    >>> import numpy as np
    >>> predictor = load_predictor(Path("model"))
    >>> predictor.predict({"qubit": np.int32([0, 3]), "angle": np.float32([0.1, -3])}).shape
    (2,)
    """
    description, config = describe(folder)
    layout, _ = described(description)
    model, _ = export.load(folder)
    return Predictor(config, layout, exact_predictor(model))
