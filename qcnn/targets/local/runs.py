"""Local runs: one path for the command and for Python. The observer displays them."""

from __future__ import annotations

import dataclasses
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn import data
from qcnn.components.local_steps import (
    evaluate_model_step,
    evaluate_step,
    export_step,
    generate_step,
    register_step,
    remove_model_of_fewer_epochs,
    tensorboard_step,
    train_step,
)
from qcnn.components.steps.register import RegistrationTarget
from qcnn.data import Dataset
from qcnn.experiment.config import ExperimentConfig
from qcnn.planning.checks import LOCAL, Place, check_experiments
from qcnn.process.extras import check
from qcnn.process.signals import terminated_as_interrupt
from qcnn.results.class_scores import Confusion
from qcnn.results.local_run import RunFolders
from qcnn.targets.local.active_run import recorded
from qcnn.targets.local.callbacks import EpochCallback
from qcnn.targets.local.observer import Observer
from qcnn.targets.local.step_processes import call_step, job_runner, load_libraries

logger = logging.getLogger("qcnn")


def checked(
    experiments: Sequence[ExperimentConfig], observer: Observer, place: Place = LOCAL
) -> list[ExperimentConfig]:
    """Check experiments while the fork server loads the libraries, and return them with the metadata of their files.

    Args:
        experiments: Experiments to train.
        observer: Receives warnings.
        place: What is known of the machine.

    Raises:
        MissingLibraryError: If a library is not installed.
        QcnnError: If an experiment cannot run, see `check_experiments`.
    """
    load_libraries()
    return check_experiments(experiments, place, observer.warn)


def run_experiment(
    config: ExperimentConfig,
    folders: RunFolders,
    observer: Observer,
    *,
    fields: Mapping[str, Any] | None = None,
    earlier_epochs: Sequence[int] = (),
    callbacks: Sequence[EpochCallback] = (),
    registration: RegistrationTarget | None = None,
) -> None:
    """Run all steps of a checked experiment. Complete outputs in its folders are kept.

    Args:
        config: Experiment to run.
        folders: Folders of the run.
        observer: Display.
        fields: Fields of the experiment for the record. None: those of `config`.
        earlier_epochs: Numbers of epochs with which training began before, for the record.
        callbacks: Functions to call after each epoch.
        registration: Where the last step registers the model. None: there is no such step.

    Raises:
        CallbackError: If a callback raises an exception. Training can be resumed.
        QcnnError: If a step fails. The log contains the reason.
    """
    with recorded(config.model_dump() if fields is None else fields, folders.run, observer, earlier_epochs) as run:
        with run.step("generate-data"):
            completed = generate_step(config, folders)
        with run.step("train"):
            train_step(completed, folders, job_runner(completed, run, functions=callbacks))
        with run.step("export-weights"):
            remove_model_of_fewer_epochs(completed, folders)
            call_step(export_step, (folders.run,), run.line)
        with run.step("tensorboard"):
            tensorboard_step(folders)
        with run.step("evaluate"):
            call_step(evaluate_step, (folders.run,), run.line)
        if registration:
            with run.step("register"):
                register_step(folders, registration)


@dataclasses.dataclass(frozen=True)
class ModelEvaluation:
    """Predictions for a test split, float64 (samples,) or (samples, classes), their metrics and confusion matrix."""

    predictions: npt.NDArray[np.float64]
    metrics: dict[str, float]
    confusion: Confusion


def evaluate_model(model: Path, dataset: Dataset) -> ModelEvaluation:
    """Evaluate a model on the test split of a dataset, in another process.

    Args:
        model: Folder of the model.
        dataset: Dataset that the model was trained on.

    Raises:
        MissingLibraryError: If a library is not installed.
        QcnnError: If the evaluation fails.
    """
    check("run")
    with tempfile.TemporaryDirectory(prefix="qcnn-") as folder, terminated_as_interrupt():
        samples, result = Path(folder, "dataset"), Path(folder, "result.npz")
        data.save(dataset, samples)
        call_step(evaluate_model_step, (model.absolute(), samples, result), logger.info)
        with np.load(result) as arrays:
            described = json.loads(str(arrays["described"]))
            confusion = Confusion(tuple(described["confusion"]["classes"]), described["confusion"]["matrix"])
            return ModelEvaluation(arrays["predictions"], described["metrics"], confusion)
