"""A training run on classes with names."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qcnn import data
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.results import export
from qcnn.results.evaluate import EvaluationResult, evaluate
from tests.shared_training_runs import train

NAMES = ("ant", "bee", "cat")


@dataclasses.dataclass(frozen=True)
class Trained:
    """Training run on classes with its results."""

    config: ExperimentConfig
    dataset: data.Dataset
    folder: Path
    evaluation: EvaluationResult


def rows_of(names: Sequence[str]) -> str:
    """Return rows of a cluster of points for each name, in two features."""
    random = np.random.default_rng(5)
    numbers = random.permutation(np.arange(30 * len(names)) % len(names))
    turns = 2 * np.pi * numbers / len(names)
    points = np.stack([np.cos(turns), np.sin(turns)], axis=1) + random.normal(0, 0.25, (len(numbers), 2))
    lines = [f"{x:.4f},{y:.4f},{names[number]}" for (x, y), number in zip(points, numbers, strict=True)]
    return "\n".join(["x,y,label", *lines]) + "\n"


def trained_on(folder: Path, names: Sequence[str], **fields: Any) -> Trained:
    """Train, export and evaluate in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "rows.csv").write_text(rows_of(names))
    base = {"qubits": 4, "workers": 1, "strategy": "none", "data": str(folder / "rows.csv"), "encoding": "ry"}
    options = {"loss": "cross_entropy", "profile_batches": ""}
    config = from_mapping(merge({**base, "epochs": 25, "options": options}, fields))
    dataset = data.read(config)
    config = data.with_file_metadata(config, dataset)
    train(config, dataset, folder / "training")
    export.export(folder / "training", folder / "model")
    data.save(dataset, folder / "dataset")
    return Trained(config, dataset, folder, evaluate(folder / "model", data.load(folder / "dataset")))
