"""Checkpoints: one file each, whole or not at all, that training of any number of workers continues from."""

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
from qcnn.artifact_io import open_arrays
from qcnn.atomic_files import new_file, readable
from qcnn.circuits.formats.embedded import model_display_name
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig, affecting
from qcnn.experiment_io import as_shown, from_saved
from qcnn.fields import Affects
from qcnn.model.history import EpochMetrics, epochs_of, is_complete

logger = logging.getLogger("qcnn")

# Where a training folder keeps its checkpoints.
FOLDER = "checkpoints"
_NAME = re.compile(r"epoch-(\d{6,})\.npz")
_KEPT = 2
_LEADER = "leader_"
# The most weights have 128 MiB; two starts have them, each with its best and two numbers of the optimizer for each.
_MOST_BYTES = 2**31


@dataclasses.dataclass(frozen=True)
class InitializationRun:
    """The epochs of one start, and where they led."""

    history: tuple[EpochMetrics, ...]
    weights: tuple[npt.NDArray[np.float64], ...]
    optimizer: tuple[npt.NDArray[Any], ...]
    # After the epoch with the lowest validation loss so far; empty unless the experiment asks for them.
    best_weights: tuple[npt.NDArray[np.float64], ...] = ()


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Training after a whole number of epochs."""

    config: ExperimentConfig
    dataset_digest: str
    circuit: str
    line: InitializationRun
    # Starts that have been tried to their end, and the best of them while others are still to be tried.
    tried: int = 0
    leader: InitializationRun | None = None
    # Epochs of all starts.
    passed: int = 0
    # The one that ran last; empty in the oldest checkpoints, which did not record it.
    simulator: str = ""
    # Mean squared error over fresh samples of the weights to be exported, once training is complete; None of data of
    # which there are none.
    fresh_mse: float | None = None
    # How rows of a table become samples such as those that were trained on, and the file that these were read from.
    layout: data.FeatureLayout = data.EXCITATIONS
    source: data.Source | None = None

    @property
    def history(self) -> tuple[EpochMetrics, ...]:
        """The epochs of the start that goes on, or is being tried."""
        return self.line.history

    @property
    def epochs(self) -> int:
        """How many these are."""
        return len(self.history)

    @property
    def is_complete(self) -> bool:
        """Whether training is over."""
        return is_complete(self.history, self.config, self.tried)


def save(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint and drop all but the newest two."""
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
        np.savez(file, description=np.array(json.dumps(description)), **arrays)
    for path in _paths(folder)[:-_KEPT]:
        path.unlink(missing_ok=True)


def load_latest(folder: Path) -> Checkpoint | None:
    """Return the newest checkpoint of a folder that is not damaged, None where there is none at all.

    Raises:
        ArtifactError: there are checkpoints, but all of them are damaged.
    """
    damaged: ArtifactError | None = None
    for path in reversed(_paths(folder)):
        try:
            return _load(path)
        except ArtifactError as error:
            logger.warning("%s; the one before is used", error)
            damaged = error
    if damaged:
        raise damaged
    return None


def any_in(folder: Path) -> bool:
    """Whether a folder has checkpoints, damaged or not."""
    return bool(_paths(folder))


def copy_latest(source: Path, target: Path) -> None:
    """Copy the newest usable checkpoint of a training folder into another that has none yet.

    Raises:
        ArtifactError: there is no usable checkpoint.
    """
    checkpoint = load_latest(source / FOLDER)
    if checkpoint is None:
        raise ArtifactError(f"continue_from: the folder has no checkpoint. Given: {source}")
    if not _paths(target / FOLDER):
        save(checkpoint, target / FOLDER)


def check_continues(checkpoint: Checkpoint, config: ExperimentConfig, dataset_digest: str, circuit: str) -> None:
    """Refuse to continue another experiment.

    Raises:
        ArtifactError: one line with what differs.
    """
    saved, asked = _sequence(checkpoint.config), _sequence(config)
    for name in asked:
        if saved[name] != asked[name]:
            raise ArtifactError(
                f"{name}: the folder's checkpoint was trained with {saved[name]!r}; use that, or a new folder. "
                f"Given: {asked[name]!r}"
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


def _sequence(config: ExperimentConfig) -> dict[str, Any]:
    values = as_shown(config.model_dump())
    options = values.pop("options")
    # Of which samples the data were, the digest of the dataset tells.
    numbers = affecting(Affects.NUMBERS)
    return {name: value for name, value in {**values, **options}.items() if name in numbers}


def _paths(folder: Path) -> list[Path]:
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in paths if _NAME.fullmatch(path.name)), key=lambda path: int(path.stem[6:]))


def _load(path: Path) -> Checkpoint:
    with readable("checkpoint", path):
        with open_arrays(path, _MOST_BYTES) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = json.loads(str(arrays.pop("description")))
        layout, source = data.described(description)
        # A damaged directory of the file may make arrays empty, or hide them. The oldest checkpoints have no digest.
        if "digest" in description and description["digest"] != _digest(arrays):
            raise ValueError("its arrays are not those that were saved")
        return Checkpoint(
            config=from_saved(description["config"]),
            dataset_digest=description["dataset_digest"],
            circuit=description["circuit"],
            line=_line("", description["history"], arrays),
            # Older ones knew one start only.
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
        epochs_of(rows), *(_numbered(f"{prefix}{name}", arrays) for name in ("weights", "optimizer", "best"))
    )


def _numbered(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], ...]:
    names = [name for name in arrays if name.startswith(f"{prefix}_")]
    return tuple(arrays[f"{prefix}_{index}"] for index in range(len(names)))
