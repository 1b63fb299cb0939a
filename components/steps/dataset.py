"""What the steps do that check an experiment and make its dataset."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn import data
from qcnn.circuits.formats.embedded import MODELS
from qcnn.circuits.formats.loading import with_circuit
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_json, from_mapping
from qcnn.provenance import provenance
from qcnn.startup import one_line_errors


def generate_data(words: Mapping[str, Any], folder: str, run: str = "") -> tuple[str, dict[str, Any]]:
    """Write the dataset; return the checked experiment as JSON and the dataset's metadata.

    With the id of a run of a schedule, the experiment gets a seed of its own.
    """
    with one_line_errors():
        config = from_mapping(with_circuit(words))
        if run:
            config = config.model_copy(update={"seed": seed_of_run(config.seed, run)})
        if config.model not in MODELS:
            from qcnn.simulators.structure.gates import read_model

            # A circuit of the user's own must fail here, in seconds, and not on every worker.
            read_model(config.model, config.qubits)
        dataset = data.generate(config)
        config = data.completed(config, dataset)
        data.save(dataset, Path(folder))
    return config.to_json(), metadata_of(config, dataset)


def metadata_of(config: ExperimentConfig, dataset: data.Dataset) -> dict[str, Any]:
    """Return the metadata of the dataset of an experiment."""
    sizes = {name: len(samples) for name, samples in dataset.splits()}
    source = {"data_sha256": dataset.source.sha256} if dataset.source else {}
    return {"digest": dataset.digest, **source, **sizes, **provenance(config)}


def seed_of_run(seed: int, run: str) -> int:
    """Return a seed in 0..2^32-1 that follows from an experiment's seed and the id of a run."""
    return int.from_bytes(hashlib.sha256(f"{seed} {run}".encode()).digest()[:4], "big")


def trial_data(experiment: str, folder: str) -> dict[str, Any]:
    """Write the dataset; return its metadata."""
    with one_line_errors():
        words = from_json(experiment).model_dump()
    return generate_data(words, folder)[1]
