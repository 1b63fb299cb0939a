"""Checkpoints in one file each, written atomically, from which any number of workers can resume."""

import contextlib
import dataclasses
import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from qcnn import data
from qcnn.artifact_io import open_arrays, seal, unseal
from qcnn.atomic_files import new_file, readable
from qcnn.circuits.formats.embedded import model_display_name
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig, affecting, all_fields
from qcnn.experiment.fields import Affects
from qcnn.experiment.parsing import with_display_values
from qcnn.experiment.saved import from_saved
from qcnn.model.history import EpochMetrics, Progress, epoch_of, epochs_of, is_complete, is_undecided
from qcnn.model.history_file import MAX_HISTORY_BYTES, History, StoredHistory, epochs_in, is_history_file
from qcnn.storage.copies import local_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import open_store

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
    """One initialization after some epochs, with its weights and optimizer state."""

    progress: Progress
    weights: tuple[npt.NDArray[np.float64], ...]
    optimizer: tuple[npt.NDArray[Any], ...]
    # Weights after the epoch with the lowest validation loss. Empty if `export_checkpoint` is last.
    best_weights: tuple[npt.NDArray[np.float64], ...] = ()
    # Empty in processes that do not write it.
    history: History = ()


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
    # Whether training was stopped after the last epoch, before all epochs of `config`.
    is_stopped: bool = False
    # Layout and source of the training samples.
    layout: data.FeatureLayout = data.EXCITATIONS
    source: data.Source | None = None

    @property
    def history(self) -> tuple[EpochMetrics, ...]:
        """Epochs of the current initialization, which are read from its history file.

        Raises:
            ArtifactError: If the file is missing or damaged.
        """
        return epochs_in(self.line.history)

    @property
    def epochs(self) -> int:
        """Number of epochs of the current initialization."""
        return self.line.progress.epochs

    @property
    def is_undecided(self) -> bool:
        """Whether the initialization of `line` is being tried."""
        return is_undecided(self.config, self.tried, has_leader=self.leader is not None)

    @property
    def is_complete(self) -> bool:
        """Whether training is complete."""
        return self.completes(self.config)

    def completes(self, config: ExperimentConfig) -> bool:
        """Return whether training of an experiment, which may have other epochs than the checkpoint, is complete.

        A run that was stopped continues only with more epochs than were requested before.
        """
        if self.is_stopped and config.epochs <= self.config.epochs:
            return True
        return is_complete(self.line.progress, config, undecided=self.is_undecided)

    def with_epochs(self) -> "Checkpoint":
        """Return the checkpoint with its epochs, so that it can be saved in another training folder.

        Raises:
            ArtifactError: If a history file is missing or damaged.
        """
        line, leader = self.line, self.leader
        return dataclasses.replace(
            self,
            line=dataclasses.replace(line, history=epochs_in(line.history)),
            leader=dataclasses.replace(leader, history=epochs_in(leader.history)) if leader else None,
        )


def save(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint and delete all except the newest two.

    Args:
        checkpoint: Checkpoint, whose history files are in the training folder.
        folder: Folder of the checkpoints in the training folder.
    """
    leader = checkpoint.leader
    arrays: dict[str, Any] = {**_arrays_of("", checkpoint.line), **(_arrays_of(_LEADER, leader) if leader else {})}
    description = {
        "config": checkpoint.config.model_dump(),
        "dataset_digest": checkpoint.dataset_digest,
        "circuit": checkpoint.circuit,
        "history": _describe_epochs(checkpoint.line, folder.parent),
        "tried": checkpoint.tried,
        "leader": _describe_epochs(leader, folder.parent) if leader else None,
        "passed": checkpoint.passed,
        "simulator": checkpoint.simulator,
        "fresh_mse": checkpoint.fresh_mse,
        **({"stopped": True} if checkpoint.is_stopped else {}),
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
    return _newest_intact(folder, _load)


def load_history(training: Path) -> tuple[EpochMetrics, ...]:
    """Return the epochs that belong to the newest checkpoint of a training folder.

    Raises:
        ArtifactError: If the folder has no checkpoint, all are damaged, or the history file is missing or damaged.
    """
    history = _newest_intact(training / FOLDER, _load_history)
    if history is None:
        raise ArtifactError(f"training: the folder has no checkpoint. Given: {training}")
    return epochs_in(history)


def last_metrics(training: str) -> dict[str, float]:
    """Return the number of epochs and the last losses and accuracies from the URI of a training folder.

    Raises:
        ArtifactError: If the folder has no checkpoint, or all are damaged.
        ConfigError: If the bucket denies access.
    """
    with local_copy(f"{training}/{FOLDER}") as folder:
        checkpoint = load_latest(folder)
    if checkpoint is None or checkpoint.line.progress.last is None:
        raise ArtifactError(f"training: the folder has no checkpoint. Given: {training}")
    last = dataclasses.asdict(checkpoint.line.progress.last)
    return {"epochs": float(last.pop("epoch")), **{name: float(last[name]) for name in last if last[name] is not None}}


_Content = TypeVar("_Content")


def _newest_intact(folder: Path, load: Callable[[Path], _Content]) -> _Content | None:
    """Return what is loaded from the newest intact checkpoint, or None if the folder has no checkpoints.

    Raises:
        ArtifactError: If all checkpoints are damaged.
    """
    damaged: ArtifactError | None = None
    for path in reversed(_paths(folder)):
        try:
            return load(path)
        except ArtifactError as error:
            logger.warning("%s; the previous checkpoint is used", error)
            damaged = error
    if damaged:
        raise damaged
    return None


def any_in(folder: Path) -> bool:
    """Return whether a folder has checkpoints, intact or damaged."""
    return bool(_paths(folder))


def exist_in(uri: str) -> bool:
    """Return whether a training folder, local or in a bucket, has checkpoints, intact or damaged.

    Raises:
        ConfigError: If the bucket rejects a request.
    """
    if not (bucket_uri := parse_bucket_uri(uri)):
        return any_in(Path(uri) / FOLDER)
    with contextlib.closing(open_store(bucket_uri)) as store:
        names = [name.removeprefix(f"{FOLDER}/") for name in store.names() if name.startswith(f"{FOLDER}/")]
    return any(map(_NAME.fullmatch, names))


def copy_latest(source: Path, target: Path) -> None:
    """Copy the newest intact checkpoint of a training folder into another, unless that has checkpoints.

    Raises:
        ArtifactError: If the source has no intact checkpoint, or a history file is missing or damaged.
    """
    checkpoint = load_latest(source / FOLDER)
    if checkpoint is None:
        raise ArtifactError(f"continue_from: the folder has no checkpoint. Given: {source}")
    if not _paths(target / FOLDER):
        save(checkpoint.with_epochs(), target / FOLDER)


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
    check_same_experiment(checkpoint, config)
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


def check_same_experiment(checkpoint: Checkpoint, config: ExperimentConfig) -> None:
    """Raise ArtifactError if a checkpoint is of another experiment. Its dataset and circuit are not compared.

    Args:
        checkpoint: Checkpoint to resume from.
        config: Experiment to train.

    Raises:
        ArtifactError: If a field differs, or the checkpoint has more epochs.
    """
    saved, requested = _trajectory_fields(checkpoint.config), _trajectory_fields(config)
    for name in requested:
        if saved[name] != requested[name]:
            raise ArtifactError(
                f"{name}: the folder's checkpoint was trained with {saved[name]!r}; use that, or a new folder. "
                f"Given: {requested[name]!r}"
            )
    if checkpoint.epochs > config.epochs:
        raise ArtifactError(
            f"epochs: the folder's checkpoint is already at epoch {checkpoint.epochs}. Given: {config.epochs}"
        )


def _trajectory_fields(config: ExperimentConfig) -> dict[str, Any]:
    """Return the fields that change the numbers of training, except those that the dataset digest covers."""
    values, numbers = with_display_values(all_fields(config)), affecting(Affects.NUMBERS)
    return {name: value for name, value in values.items() if name in numbers}


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
        training = path.parent.parent
        return Checkpoint(
            config=from_saved(description["config"]),
            dataset_digest=description["dataset_digest"],
            circuit=description["circuit"],
            line=_line("", description["history"], arrays, training),
            # Older checkpoints have one initialization only.
            tried=description.get("tried", 0),
            leader=_line(_LEADER, description["leader"], arrays, training) if description.get("leader") else None,
            passed=description.get("passed", len(description["history"])),
            simulator=str(description.get("simulator", "")),
            fresh_mse=description.get("fresh_mse"),
            is_stopped=bool(description.get("stopped", False)),
            layout=layout,
            source=source,
        )


def _load_history(path: Path) -> History:
    """Read only the description, because the arrays may be large."""
    with readable("checkpoint", path):
        with open_arrays(path, _MAX_BYTES) as archive:
            description = unseal(str(archive["description"]), unversioned=True)
        _, history = _parse_epochs(description["history"], path.parent.parent)
    return history


def _digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _arrays_of(prefix: str, line: InitializationRun) -> dict[str, npt.NDArray[Any]]:
    parts = {"weights": line.weights, "optimizer": line.optimizer, "best": line.best_weights}
    return {f"{prefix}{name}_{index}": array for name, arrays in parts.items() for index, array in enumerate(arrays)}


def _describe_epochs(line: InitializationRun, training: Path) -> Any:
    """Return the location of the epochs with their running values, or rows if they are not in a file."""
    history, progress = line.history, line.progress
    if not isinstance(history, StoredHistory):
        return [dataclasses.astuple(epoch) for epoch in history]
    return {
        "file": history.path.relative_to(training).as_posix(),
        "size": history.size,
        "sha256": history.sha256,
        "progress": dataclasses.astuple(progress) if progress.epochs else None,
    }


def _parse_epochs(described: Any, training: Path) -> tuple[Progress, History]:
    """Parse the result of `_describe_epochs`.

    Raises:
        ValueError: If it has a wrong form.
    """
    if isinstance(described, list):
        rows = epochs_of(described)
        return Progress.of(rows), rows
    name, size = described["file"], described["size"]
    if not is_history_file(name) or not 0 <= size <= MAX_HISTORY_BYTES:
        raise ValueError(f"it has no valid history file. Given: {name}, {size} bytes")
    progress = Progress()
    if described["progress"]:
        epochs, best, last, lowest_train_loss = described["progress"]
        progress = Progress(int(epochs), epoch_of(best), epoch_of(last), float(lowest_train_loss))
    return progress, StoredHistory(training / name, size, described["sha256"])


def _line(prefix: str, described: Any, arrays: Mapping[str, npt.NDArray[Any]], training: Path) -> InitializationRun:
    progress, history = _parse_epochs(described, training)
    weights, optimizer, best = (_indexed_arrays(f"{prefix}{name}", arrays) for name in ("weights", "optimizer", "best"))
    return InitializationRun(progress, weights, optimizer, best, history)


def _indexed_arrays(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], ...]:
    names = [name for name in arrays if name.startswith(f"{prefix}_")]
    return tuple(arrays[f"{prefix}_{index}"] for index in range(len(names)))
