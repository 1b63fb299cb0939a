"""Quantum convolutional networks in Python: the commands for the local machine as functions.

>>> import qcnn
>>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2)
>>> training = qcnn.train(experiment, "example")
>>> training.model.predict(qubit=[0, 3], angle=[0.1, -2.0]).shape
(2,)

This import does not load TensorFlow. Functions load it on first use. See docs/python.md.
"""

import importlib
import os
from typing import TYPE_CHECKING

from qcnn.process.import_path import leave_folder_last as _leave_folder_last

if TYPE_CHECKING:
    from qcnn import keras as keras
    from qcnn.api.datasets import dataset
    from qcnn.api.doctor import doctor
    from qcnn.api.experiments import Experiment, Plan, generate, plan
    from qcnn.api.jobs import Job, get_job, list_jobs, requests, submit
    from qcnn.api.layers import QuantumLayer, expectations
    from qcnn.api.models import Evaluation, Model, evaluate, load
    from qcnn.api.runs import compare, runs
    from qcnn.api.training import Study, Training, TrainingResult, study, train
    from qcnn.circuits.ansatz import Ansatz
    from qcnn.data import Dataset, Samples
    from qcnn.datasets.dataset_table import DatasetTable
    from qcnn.errors import ArtifactError, ConfigError, QcnnError, RetryableError, TrainingError
    from qcnn.model.history import EpochMetrics
    from qcnn.process.extras import MissingLibraryError
    from qcnn.targets.base import JobStatus
    from qcnn.targets.checks import Finding

# Before all imports that a module in the working folder could shadow with python -m.
_leave_folder_last()

from qcnn.process import installation as _installation  # noqa: E402

# TensorFlow Quantum 0.7 requires Keras 2, which TensorFlow provides only if this is set before its import.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

__version__ = _installation.version()
_installation.warn_about_other_distribution()

# Modules of the public names, imported on first use. Training processes import this package, but need none of them.
_MODULES = {
    "qcnn.circuits.ansatz": ("Ansatz",),
    "qcnn.process.extras": ("MissingLibraryError",),
    "qcnn.api.datasets": ("dataset",),
    "qcnn.api.doctor": ("doctor",),
    "qcnn.api.experiments": ("Experiment", "Plan", "generate", "plan"),
    "qcnn.api.layers": ("QuantumLayer", "expectations"),
    "qcnn.api.jobs": ("Job", "get_job", "list_jobs", "requests", "submit"),
    "qcnn.api.models": ("Evaluation", "Model", "evaluate", "load"),
    "qcnn.api.runs": ("compare", "runs"),
    "qcnn.data": ("Dataset", "Samples"),
    "qcnn.datasets.dataset_table": ("DatasetTable",),
    "qcnn.errors": ("ArtifactError", "ConfigError", "QcnnError", "RetryableError", "TrainingError"),
    "qcnn.model.history": ("EpochMetrics",),
    "qcnn.targets.base": ("JobStatus",),
    "qcnn.targets.checks": ("Finding",),
    "qcnn.api.training": ("Study", "Training", "TrainingResult", "study", "train"),
}
# Modules that `import qcnn` provides, imported on first use.
_SUBMODULES = ("keras",)
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Ansatz",
    "ArtifactError",
    "ConfigError",
    "Dataset",
    "DatasetTable",
    "EpochMetrics",
    "Evaluation",
    "Experiment",
    "Finding",
    "Job",
    "JobStatus",
    "MissingLibraryError",
    "Model",
    "Plan",
    "QcnnError",
    "QuantumLayer",
    "RetryableError",
    "Samples",
    "Study",
    "Training",
    "TrainingError",
    "TrainingResult",
    "__version__",
    "compare",
    "dataset",
    "doctor",
    "evaluate",
    "expectations",
    "generate",
    "get_job",
    "list_jobs",
    "load",
    "plan",
    "requests",
    "runs",
    "study",
    "submit",
    "train",
]


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
