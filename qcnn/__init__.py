"""Quantum convolutional networks in Python: what the commands do on this machine, as functions.

>>> import qcnn
>>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2)
>>> training = qcnn.train(experiment, "example")
>>> training.model.predict(qubit=[0, 3], angle=[0.1, -2.0]).shape
(2,)

TensorFlow is loaded where it is first needed, not by this import. docs/python.md tells more.
"""

import importlib.metadata

from components.extras import MissingLibraryError
from qcnn.datasets import generate
from qcnn.experiment import Experiment
from qcnn.models import Evaluation, Model, evaluate, load
from qcnn.plans import Plan, plan
from qcnn.studies import Study, study
from qcnn.trainings import Training, train
from trainer.data import Dataset, Samples
from trainer.errors import ArtifactError, ConfigError, QcnnError, RetryableError, TrainingError
from trainer.training.history import Epoch

__version__ = importlib.metadata.version("qcnn")

__all__ = [
    "ArtifactError",
    "ConfigError",
    "Dataset",
    "Epoch",
    "Evaluation",
    "Experiment",
    "MissingLibraryError",
    "Model",
    "Plan",
    "QcnnError",
    "RetryableError",
    "Samples",
    "Study",
    "Training",
    "TrainingError",
    "__version__",
    "evaluate",
    "generate",
    "load",
    "plan",
    "study",
    "train",
]
