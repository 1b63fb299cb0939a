"""A model that was exported predicts as the network that was trained."""

from pathlib import Path

import numpy as np

from qcnn.trainer import data
from qcnn.trainer.results import export
from qcnn.trainer.results.evaluate import predict
from qcnn.trainer.results.predicting import load_predictor


def test_predicts_as_the_network_does(model_folder: Path) -> None:
    predictor, (model, _) = load_predictor(model_folder), export.load(model_folder)
    samples = data.fresh(predictor.config.qubits, seed=3).take(np.arange(150))
    np.testing.assert_allclose(predictor.predict(samples.inputs), predict(model, samples), atol=1e-6)
