"""Export of a model folder with weights, description and SavedModel, and loading of the model."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn import data
from qcnn.artifact_io import save_description
from qcnn.atomic_files import check_disk_space, complete_files, library_errors, new_folder, readable, sha256_of
from qcnn.circuits.formats.embedded import is_function, model_display_name
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.model.history import EpochMetrics, epoch_seconds, exported_epoch
from qcnn.model.network import build_model
from qcnn.model.optimizer import assign
from qcnn.process.library_loading import start_compiler
from qcnn.provenance import provenance
from qcnn.results import predictor_file
from qcnn.results.model_folder import FILE, SAVED_MODEL, WEIGHTS, describe
from qcnn.results.predictor_file import ExactPredictor
from qcnn.results.serving import ServableModel, exact_predictor, servable_of
from qcnn.results.stored_circuit import circuit_content
from qcnn.results.weights import checked_weights
from qcnn.simulators.structure.gates import fingerprint
from qcnn.storage.copies import is_complete, new_copy

# File for the last weights with export_checkpoint both.
_LAST_WEIGHTS = "last.weights.h5"
# Bytes of the largest file in addition to the weights.
_MARGIN_BYTES = 2**17


def export(workdir: Path, folder: Path) -> dict[str, Any]:
    """Write the model folder from the last checkpoint of a training run.

    Returns:
        The content of model.json.

    Raises:
        ArtifactError: If there is no checkpoint, training is not complete, its history is damaged, or the folder cannot
            be written.

    After the example of `qcnn.trainer.loop.train`:

    >>> from pathlib import Path
    >>> description = export(Path("training"), Path("model"))
    >>> description["experiment"]["qubits"], description["training"]["epochs"]
    (4, 2)
    >>> sorted(path.name for path in Path("model").iterdir())
    ['model.json', 'predictor.json', 'qcnn.weights.h5', 'saved_model']
    """
    checkpoint = complete_checkpoint(workdir)
    config = checkpoint.config
    # The simulator may compile a part of the circuit.
    start_compiler()
    model = build_model(config)
    with new_folder(folder) as unfinished, library_errors("output", unfinished, tf.errors.OpError):
        check_disk_space(unfinished, _MARGIN_BYTES + sum(array.nbytes for array in checkpoint.line.weights))
        if config.options.export_checkpoint == "both":
            assign(model.trainable_variables, checkpoint.line.weights)
            model.save_weights(unfinished / _LAST_WEIGHTS)
        assign(model.trainable_variables, exported_weights(checkpoint))
        model.save_weights(unfinished / WEIGHTS)
        servable = servable_of(model, config, checkpoint.layout)
        tf.saved_model.save(
            servable,
            str(unfinished / SAVED_MODEL),
            signatures={"serving_default": servable.predict},
            # Servers need no gradients, and custom gradients of states cannot be saved.
            options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
        )
        _write_predictor(servable, config, unfinished)
        description = {
            "experiment": config.model_dump(),
            "dataset_digest": checkpoint.dataset_digest,
            "circuit": checkpoint.circuit,
            "weights": _exported_epoch_name(config),
            "training": training_metrics(checkpoint),
            **data.describe(checkpoint.layout, checkpoint.source),
            "weights_sha256": sha256_of(unfinished / WEIGHTS),
            "provenance": {
                **provenance(config, checkpoint.simulator or model.get_layer("quantum").simulator.name),
                **({"data_sha256": checkpoint.source.sha256} if checkpoint.source else {}),
            },
        }
        save_description(description, unfinished / FILE, complete_files(unfinished))
    return description


def complete_checkpoint(workdir: Path) -> Checkpoint:
    """Return the last checkpoint of a complete training run.

    Raises:
        ArtifactError: If there is no checkpoint, or training is not complete.
    """
    checkpoint = checkpoints.load_latest(workdir / checkpoints.FOLDER)
    if checkpoint is None:
        raise ArtifactError(f"training: the folder has no checkpoint. Given: {workdir}")
    if not checkpoint.is_complete:
        raise ArtifactError(
            f"training: must be complete, {checkpoint.config.epochs} epochs. Given: {checkpoint.epochs} epochs in "
            f"{workdir}"
        )
    return checkpoint


def exported_weights(checkpoint: Checkpoint) -> Sequence[npt.NDArray[np.float64]]:
    """Return the weights of the exported epoch, in the order of the trainable variables."""
    is_best = _exported_epoch_name(checkpoint.config) == "best"
    return checkpoint.line.best_weights if is_best else checkpoint.line.weights


def training_metrics(checkpoint: Checkpoint) -> dict[str, float]:
    """Return the metrics of training in model.json: epochs, losses of the exported epoch, and time."""
    epoch = exported_epoch(checkpoint.line.progress, checkpoint.config.options.export_checkpoint)
    history = checkpoint.history
    return {
        "epochs": checkpoint.epochs,
        "weights_epoch": epoch.epoch,
        **_loss_metrics(epoch),
        "epoch_seconds": epoch_seconds(history),
        **_staleness(history),
    }


def _exported_epoch_name(config: ExperimentConfig) -> str:
    return "last" if config.options.export_checkpoint == "last" else "best"


def _write_predictor(servable: tf.Module, config: ExperimentConfig, folder: Path) -> None:
    """Write predictor.json into an unfinished model folder, if it can predict without TensorFlow."""
    if is_function(config.model):
        return
    if isinstance(servable, ServableModel):
        content = predictor_file.table_content(servable.table(), sha256_of(folder / WEIGHTS))
        predictor_file.write(content, folder)
    elif not config.noise_in_training:
        predictor_file.write(circuit_content(config), folder)


def _loss_metrics(epoch: EpochMetrics) -> dict[str, float]:
    """Return losses and, except for regression, accuracies."""
    names = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")
    return {name: getattr(epoch, name) for name in names if getattr(epoch, name) is not None}


def _staleness(history: Sequence[EpochMetrics]) -> dict[str, float]:
    """Return mean and maximum staleness, or an empty mapping for synchronous replicas."""
    if not any(epoch.staleness for epoch in history):
        return {}
    return {
        "staleness": statistics.fmean(epoch.staleness for epoch in history),
        "largest_staleness": max(epoch.largest_staleness for epoch in history),
    }


def export_to(workdir: Path, uri: str) -> None:
    """Write the model folder to a URI, unless it exists, for example after an interruption.

    Raises:
        ArtifactError: If there is no checkpoint, training is not complete, or the folder cannot be written.
    """
    if is_complete(uri, FILE):
        return
    with new_copy(uri, FILE) as folder:
        export(workdir, folder)


def load(folder: Path) -> tuple[tf_keras.Model, dict[str, Any]]:
    """Rebuild a model from its folder, and return it with the content of model.json.

    Raises:
        ArtifactError: If a file is missing or damaged, or belongs to another model.
    """
    description, config = describe(folder)
    weights = checked_weights(folder, description)
    if description["circuit"] != fingerprint(config.model, config.qubits):
        raise ArtifactError(
            f"model: was trained with another circuit of that name. Given: {model_display_name(config.model)}"
        )
    start_compiler()
    model = build_model(config)
    with readable("model", weights):
        model.load_weights(weights)
    return model, description


def load_network(folder: Path) -> tuple[ExactPredictor, float]:
    """Rebuild a network in TensorFlow, and return its predictor and the bound on the rounding error of its readouts.

    Raises:
        ArtifactError: If a file is missing or damaged, or belongs to another model.
    """
    model, _ = load(folder)
    return exact_predictor(model), model.get_layer("quantum").rounding
