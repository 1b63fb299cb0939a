"""Checkpoints in one file each, written atomically, from which any number of workers can resume."""

import dataclasses
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn import data
from qcnn.artifact_io import open_arrays, seal, unseal
from qcnn.atomic_files import new_file, readable
from qcnn.circuits.formats.embedded import model_display_name
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig, affecting
from qcnn.experiment_io import from_saved, with_display_values
from qcnn.fields import Affects
from qcnn.model.history import EpochMetrics, epochs_of, is_complete

logger = logging.getLogger("qcnn")

# Name of the checkpoint folder in a training folder.
FOLDER = "checkpoints"
_NAME = re.compile(r"epoch-(\d{6,})\.npz")
_KEPT = 2
_LEADER = "leader_"
# The largest weights have 128 MiB. Two initializations have them, each with best weights and two optimizer slots.
_MAX_BYTES = 2**31


@dataclasses.dataclass(frozen=True)
class InitializationRun:
    """Epochs of one initialization, with its weights and optimizer state."""

    history: tuple[EpochMetrics, ...]
    weights: tuple[npt.NDArray[np.float64], ...]
    optimizer: tuple[npt.NDArray[Any], ...]
    # Weights after the epoch with the lowest validation loss. Empty if `export_checkpoint` is last.
    best_weights: tuple[npt.NDArray[np.float64], ...] = ()


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """State of a training run between epochs."""

    config: ExperimentConfig
    dataset_digest: str
    circuit: str
    line: InitializationRun
    # Number of initializations that were tried completely, and the best of them until all have been tried.
    tried: int = 0
    leader: InitializationRun | None = None
    # Epochs of all initializations.
    passed: int = 0
    # Simulator of the last epoch. Empty in the oldest checkpoints, which did not record it.
    simulator: str = ""
    # Mean squared error on fresh samples of the weights to be exported, after training is complete. None for data
    # without fresh samples.
    fresh_mse: float | None = None
    # Layout and source of the training samples.
    layout: data.FeatureLayout = data.EXCITATIONS
    source: data.Source | None = None

    @property
    def history(self) -> tuple[EpochMetrics, ...]:
        """Epochs of the current initialization."""
        return self.line.history

    @property
    def epochs(self) -> int:
        """Number of epochs of the current initialization."""
        return len(self.history)

    @property
    def is_complete(self) -> bool:
        """Whether training is complete."""
        return is_complete(self.history, self.config, self.tried)


def save(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint and delete all except the newest two."""
    leader = checkpoint.leader
    arrays = {**_arrays_of("", checkpoint.line), **(_arrays_of(_LEADER, leader) if leader else {})}
    description = {
        "config": checkpoint.config.model_dump(),
        "dataset_digest": checkpoint.dataset_digest,
        "circuit": checkpoint.circuit,
        "history": _rows(checkpoint.line),
        "tried": checkpoint.tried,
        "leader": _rows(leader) if leader else None,
        "passed": checkpoint.passed,
        "simulator": checkpoint.simulator,
        "fresh_mse": checkpoint.fresh_mse,
        **data.describe(checkpoint.layout, checkpoint.source),
        "digest": _digest(arrays),
    }
    with new_file(folder / f"epoch-{checkpoint.passed:06d}.npz") as unfinished, unfinished.open("wb") as file:
        np.savez(file, description=np.array(json.dumps(seal(description))), **arrays)
    for path in _paths(folder)[:-_KEPT]:
        path.unlink(missing_ok=True)


def load_latest(folder: Path) -> Checkpoint | None:
    """Return the newest intact checkpoint of a folder, or None if the folder has no checkpoints.

    Raises:
        ArtifactError: If all checkpoints are damaged.
    """
    damaged: ArtifactError | None = None
    for path in reversed(_paths(folder)):
        try:
            return _load(path)
        except ArtifactError as error:
            logger.warning("%s; the previous checkpoint is used", error)
            damaged = error
    if damaged:
        raise damaged
    return None


def any_in(folder: Path) -> bool:
    """Return whether a folder has checkpoints, intact or damaged."""
    return bool(_paths(folder))


def copy_latest(source: Path, target: Path) -> None:
    """Copy the newest intact checkpoint of a training folder into another, unless that has checkpoints.

    Raises:
        ArtifactError: If the source has no intact checkpoint.
    """
    checkpoint = load_latest(source / FOLDER)
    if checkpoint is None:
        raise ArtifactError(f"continue_from: the folder has no checkpoint. Given: {source}")
    if not _paths(target / FOLDER):
        save(checkpoint, target / FOLDER)


def check_continues(checkpoint: Checkpoint, config: ExperimentConfig, dataset_digest: str, circuit: str) -> None:
    """Raise ArtifactError if training cannot resume from a checkpoint of another experiment.

    Args:
        checkpoint: Checkpoint to resume from.
        config: Experiment to train.
        dataset_digest: Digest of the dataset to train on.
        circuit: Fingerprint of the circuit to train.

    Raises:
        ArtifactError: If a field, the dataset or the circuit differs, or the checkpoint has more epochs.
    """
    saved, requested = _trajectory_fields(checkpoint.config), _trajectory_fields(config)
    for name in requested:
        if saved[name] != requested[name]:
            raise ArtifactError(
                f"{name}: the folder's checkpoint was trained with {saved[name]!r}; use that, or a new folder. "
                f"Given: {requested[name]!r}"
            )
    if checkpoint.dataset_digest != dataset_digest:
        raise ArtifactError(
            f"dataset: the folder's checkpoint was trained on other samples (digest {checkpoint.dataset_digest[:12]}). "
            f"Given: {dataset_digest[:12]}"
        )
    if checkpoint.circuit != circuit:
        raise ArtifactError(
            "model: the folder's checkpoint was trained with another circuit of that name. "
            f"Given: {model_display_name(config.model)}"
        )
    if checkpoint.epochs > config.epochs:
        raise ArtifactError(
            f"epochs: the folder's checkpoint is already at epoch {checkpoint.epochs}. Given: {config.epochs}"
        )


def _trajectory_fields(config: ExperimentConfig) -> dict[str, Any]:
    """Return the fields that change the numbers of training, except those that the dataset digest covers."""
    values = with_display_values(config.model_dump())
    options = values.pop("options")
    numbers = affecting(Affects.NUMBERS)
    return {name: value for name, value in {**values, **options}.items() if name in numbers}


def _paths(folder: Path) -> list[Path]:
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in paths if _NAME.fullmatch(path.name)), key=lambda path: int(path.stem[6:]))


def _load(path: Path) -> Checkpoint:
    with readable("checkpoint", path):
        with open_arrays(path, _MAX_BYTES) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = unseal(str(arrays.pop("description")), unversioned=True)
        layout, source = data.parse_description(description)
        # A damaged zip directory can make arrays empty or hide them. The oldest checkpoints have no digest.
        if "digest" in description and description["digest"] != _digest(arrays):
            raise ValueError("the digest of its arrays does not match")
        return Checkpoint(
            config=from_saved(description["config"]),
            dataset_digest=description["dataset_digest"],
            circuit=description["circuit"],
            line=_line("", description["history"], arrays),
            # Older checkpoints have one initialization only.
            tried=description.get("tried", 0),
            leader=_line(_LEADER, description["leader"], arrays) if description.get("leader") else None,
            passed=description.get("passed", len(description["history"])),
            simulator=str(description.get("simulator", "")),
            fresh_mse=description.get("fresh_mse"),
            layout=layout,
            source=source,
        )


def _digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _arrays_of(prefix: str, line: InitializationRun) -> dict[str, npt.NDArray[Any]]:
    parts = {"weights": line.weights, "optimizer": line.optimizer, "best": line.best_weights}
    return {f"{prefix}{name}_{index}": array for name, arrays in parts.items() for index, array in enumerate(arrays)}


def _rows(line: InitializationRun) -> list[tuple[Any, ...]]:
    return [dataclasses.astuple(epoch) for epoch in line.history]


def _line(prefix: str, rows: Sequence[Sequence[Any]], arrays: Mapping[str, npt.NDArray[Any]]) -> InitializationRun:
    return InitializationRun(
        epochs_of(rows), *(_indexed_arrays(f"{prefix}{name}", arrays) for name in ("weights", "optimizer", "best"))
    )


def _indexed_arrays(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], ...]:
    names = [name for name in arrays if name.startswith(f"{prefix}_")]
    return tuple(arrays[f"{prefix}_{index}"] for index in range(len(names)))
