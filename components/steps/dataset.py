"""What the steps do that check an experiment and make its dataset."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn import data
from qcnn.circuits.formats.embedded import MODELS
from qcnn.circuits.formats.loading import with_circuit
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_json, from_mapping
from qcnn.provenance import provenance
from qcnn.startup import one_line_errors


def generate_data(
    words: Mapping[str, Any], folder: str, run: str = "", data_sha256: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Write the dataset; return the checked experiment as JSON and the dataset's metadata.

    With the id of a run of a schedule, the experiment gets a seed of its own. `data_sha256` is what a pipeline was told
    of the file that the data are read from; None outside of one, where no cache looks at it.
    """
    with one_line_errors():
        config = from_mapping(with_circuit(words))
        if data_sha256 is not None:
            check_sha256(config, data_sha256, run)
        if run:
            config = config.model_copy(update={"seed": seed_of_run(config.seed, run)})
        if config.model not in MODELS:
            from qcnn.simulators.structure.gates import read_model

            # A circuit of the user's own must fail here, in seconds, and not on every worker.
            read_model(config.model, config.qubits)
        dataset = data.generate(config)
        if data_sha256 and dataset.source and dataset.source.sha256 != data_sha256:
            raise ArtifactError(
                f"data_sha256: must be that of the file, {dataset.source.sha256}, which has changed since the run was "
                f"submitted. Given: {data_sha256} with data {config.data}"
            )
        config = data.with_file_metadata(config, dataset)
        data.save(dataset, Path(folder))
    return config.to_json(), metadata_of(config, dataset)


def check_sha256(config: ExperimentConfig, data_sha256: str, run: str) -> None:
    """Refuse a file without its SHA-256, by which alone a cache tells its contents apart, and a SHA-256 of no file.

    The id of a run is in the place of it: no other run has what was cached for that.

    Raises:
        ConfigError: it is missing, or of no use.
    """
    if data_sha256 and not config.is_file:
        raise ConfigError(
            f"data_sha256: must be empty unless data is a file. Given: {data_sha256} with data {config.data}"
        )
    if config.is_file and not (data_sha256 or run):
        raise ConfigError(
            "data_sha256: must be the file's SHA-256, as sha256sum prints it, so that the cache knows what is in the "
            f"file. Given: none with data {config.data}"
        )


def metadata_of(config: ExperimentConfig, dataset: data.Dataset) -> dict[str, Any]:
    """Return the metadata of the dataset of an experiment."""
    sizes = {name: len(samples) for name, samples in dataset.splits()}
    source = {"data_sha256": dataset.source.sha256} if dataset.source else {}
    return {"digest": dataset.digest, **source, **sizes, **provenance(config)}


def seed_of_run(seed: int, run: str) -> int:
    """Return a seed in 0..2^32-1 that follows from an experiment's seed and the id of a run."""
    return int.from_bytes(hashlib.sha256(f"{seed} {run}".encode()).digest()[:4], "big")


def trial_data(experiment: str, data_sha256: Mapping[str, str], folder: str) -> dict[str, Any]:
    """Write the dataset; return its metadata. Each file of the study has its SHA-256 by its address."""
    with one_line_errors():
        config = from_json(experiment)
    return generate_data(config.model_dump(), folder, data_sha256=data_sha256.get(config.data, ""))[1]
