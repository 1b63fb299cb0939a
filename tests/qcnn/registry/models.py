"""Runs with small models, written without training."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qcnn import data
from qcnn.artifact_io import save_description
from qcnn.atomic_files import complete_files, sha256_of
from qcnn.data import Dataset
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.results import predictor_file
from qcnn.results.local_run import of_run
from qcnn.results.model_folder import FILE, WEIGHTS
from qcnn.results.predictor_file import ExcitationTable

QUBITS = 4
# Factor of the best prediction, factor x cos(angle), of the label +1 where |angle| <= pi/2, else -1.
BEST = 4 / np.pi


@dataclasses.dataclass(frozen=True)
class Run:
    """Folder of a run of excitations, whose model predicts cosine x cos(angle) + sine x sin(angle)."""

    folder: Path

    @property
    def model(self) -> Path:
        """Its model folder."""
        return of_run(self.folder).exported


def write_run(
    folder: Path,
    cosine: float,
    sine: float = 0.0,
    *,
    fields: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    classes: Sequence[str] | None = None,
) -> Run:
    """Write a run.

    Args:
        folder: New folder.
        cosine: Factor of the cosine in the prediction.
        sine: Factor of the sine.
        fields: Fields of the experiment.
        metrics: Metrics of the evaluation.
        classes: Names of classes in the description of the model, which is otherwise that of the dataset.
    """
    config = from_mapping({"qubits": QUBITS, "rounds": 100, "epochs": 1, "batch_size": 8, **(fields or {})})
    dataset = data.generate(config)
    folders = of_run(folder)
    data.save(dataset, folders.dataset)
    _write_model(folders.exported, data.with_file_metadata(config, dataset), dataset, cosine, sine, classes)
    folders.evaluation.mkdir()
    folders.metrics.write_text(json.dumps({"loss": 0.5, "accuracy": 0.75, **(metrics or {})}))
    return Run(folder)


def _write_model(
    folder: Path,
    config: ExperimentConfig,
    dataset: Dataset,
    cosine: float,
    sine: float,
    classes: Sequence[str] | None,
) -> None:
    folder.mkdir(parents=True)
    (folder / WEIGHTS).write_bytes(b"weights of cosine %r and sine %r" % (cosine, sine))
    (folder / "saved_model").mkdir()
    (folder / "saved_model" / "saved_model.pb").write_bytes(b"program")
    constant, cosines, sines = (np.full((config.qubits, 1), value) for value in (0.0, cosine, sine))
    table = ExcitationTable(constant, cosines, sines, "linear", layers=(), rounding=1e-12)
    predictor_file.write(predictor_file.table_content(table, sha256_of(folder / WEIGHTS)), folder)
    layout = dataset.layout if classes is None else dataclasses.replace(dataset.layout, classes=tuple(classes))
    description = {
        "experiment": config.model_dump(),
        "dataset_digest": dataset.digest,
        "circuit": "0",
        "training": {"epochs": 1, "val_loss": 0.625},
        **data.describe(layout, dataset.source),
        "weights_sha256": sha256_of(folder / WEIGHTS),
        "provenance": {"commit": "0" * 40, "seed": str(config.seed)},
    }
    save_description(description, folder / FILE, complete_files(folder))


def write_rows(path: Path, count: int, seed: int = 0) -> Path:
    """Write rows of excitations with labels to a CSV file, of which a larger count adds others."""
    random, lines = np.random.default_rng(seed), ["qubit,angle,label"]
    for number, angle in enumerate(random.uniform(-3, 3, count).tolist()):
        lines.append(f"{number % QUBITS},{angle!r},{1 if abs(angle) <= np.pi / 2 else -1}")
    path.write_text("\n".join(lines) + "\n")
    return path
