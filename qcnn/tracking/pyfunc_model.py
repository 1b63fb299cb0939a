"""Exported model as a pyfunc of MLflow, which loads it by the name of this module, without TensorFlow.

Contract: mlflow.pyfunc, "Filesystem format": `_load_pyfunc` returns an object with `predict`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qcnn.data.samples import PREDICTION, PROBABILITY, FeatureLayout
from qcnn.process.installation import requirement
from qcnn.results.class_scores import prediction_columns
from qcnn.results.predictor import Predictor, load_predictor
from qcnn.results.row_checks import check_finite, check_rows

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.models import ModelSignature


def _load_pyfunc(path: str) -> "PyfuncModel":
    return PyfuncModel(load_predictor(Path(path)))


class PyfuncModel:
    """Predictor of rows of a data frame.

    Args:
        predictor: Predictor of the model.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def predict(self, rows: "pd.DataFrame", params: dict[str, Any] | None = None) -> "pd.DataFrame":
        """Return the predictions of rows, as the columns of `qcnn predict`.

        Args:
            rows: Columns of the model's inputs.
            params: Not used.

        Raises:
            ConfigError: If a value is invalid. The message has the column and the row, counted from 1.
        """
        import pandas as pd

        layout = self._predictor.layout
        columns = {name: np.asarray(rows[name], np.float64) for name in layout.columns}
        for name, column in columns.items():
            check_finite(name, column)
        check_rows(columns, layout, self._predictor.config.qubits)
        predictions = self._predictor.predicts_columns(columns)
        if layout.is_classification:
            return pd.DataFrame(prediction_columns(predictions, layout))
        return pd.DataFrame({PREDICTION: predictions})


def signature_of(folder: Path) -> "ModelSignature":
    """Return the signature of a model: a column for each input and each output.

    Args:
        folder: Model folder.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    layout = _layout(folder)
    inputs = [ColSpec(DataType.long if name == "qubit" else DataType.double, name) for name in layout.columns]
    outputs = [ColSpec(DataType.double, PREDICTION)]
    if layout.is_classification:
        probabilities = [ColSpec(DataType.double, f"{PROBABILITY}{name}") for name in layout.classes]
        outputs = [ColSpec(DataType.string, PREDICTION), *probabilities]
    return ModelSignature(Schema([*inputs]), Schema([*outputs]))


def _layout(folder: Path) -> FeatureLayout:
    from qcnn.data.dataset import parse_description
    from qcnn.results.model_folder import describe

    return parse_description(describe(folder)[0])[0]


def requirements() -> list[str]:
    """Return the packages that load the model."""
    return [requirement("serve"), "pandas"]
