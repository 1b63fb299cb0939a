"""Steps that validate an experiment and generate its dataset."""

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn import data
from qcnn.circuits.formats.loading import with_embedded_circuit
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_json, from_mapping
from qcnn.planning.checks import STEP, check_experiments
from qcnn.provenance import provenance

logger = logging.getLogger("qcnn")


def generate_data(
    fields: Mapping[str, Any], folder: str, run: str = "", data_sha256: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Validate an experiment and write its dataset.

    Args:
        fields: Fields of the experiment.
        folder: Folder to write the dataset to.
        run: ID of a run of a schedule, which replaces the seed by one for this run. Empty: keep the seed.
        data_sha256: SHA-256 of the data file from the pipeline parameters. None outside of a pipeline.

    Returns:
        The validated experiment as JSON, and the metadata of the dataset.
    """
    config = from_mapping(with_embedded_circuit(fields))
    if data_sha256 is not None:
        check_sha256(config, data_sha256, run)
    if run:
        config = config.model_copy(update={"seed": seed_of_run(config.seed, run)})
    # Fails within seconds, and not on every worker.
    check_experiments([config], STEP, logger.warning)
    config, dataset = write_dataset(config, Path(folder), data_sha256)
    return config.to_json(), dataset_metadata(config, dataset)


def write_dataset(
    config: ExperimentConfig, folder: Path, data_sha256: str | None = None
) -> tuple[ExperimentConfig, data.Dataset]:
    """Write the dataset of a checked experiment.

    Args:
        config: Experiment.
        folder: Folder to write the dataset to.
        data_sha256: SHA-256 that a data file must have. None or empty: any.

    Returns:
        The experiment with the metadata of its data file, and the dataset.

    Raises:
        ArtifactError: If the data file is invalid or another one, or the folder cannot be written.
        ConfigError: If the experiment cannot use these samples.
    """
    dataset = data.generate(config)
    if data_sha256 and dataset.source and dataset.source.sha256 != data_sha256:
        raise ArtifactError(
            f"data_sha256: must be that of the file, {dataset.source.sha256}, which has changed since the run was "
            f"submitted. Given: {data_sha256} with data {config.data}"
        )
    complete = data.with_file_metadata(config, dataset)
    data.save(dataset, folder)
    return complete, dataset


def check_sha256(config: ExperimentConfig, data_sha256: str, run: str) -> None:
    """Raise ConfigError if a data file has no SHA-256, or if there is a SHA-256 but no file.

    The KFP cache detects changes of the file by its SHA-256 only. A run ID replaces it, because no other run has the
    same cache key.

    Args:
        config: Experiment to check.
        data_sha256: SHA-256 of the data file, or an empty string.
        run: ID of a run of a schedule, or an empty string.

    Raises:
        ConfigError: If the SHA-256 is missing or superfluous.
    """
    if data_sha256 and not config.is_file:
        raise ConfigError(
            f"data_sha256: must be empty unless data is a file. Given: {data_sha256} with data {config.data}"
        )
    if config.is_file and not (data_sha256 or run):
        raise ConfigError(
            "data_sha256: must be the file's SHA-256 as printed by sha256sum, because the cache detects changes of the "
            f"file by it. Given: none with data {config.data}"
        )


def dataset_metadata(config: ExperimentConfig, dataset: data.Dataset) -> dict[str, Any]:
    """Return the metadata of an experiment's dataset."""
    sizes = {name: len(samples) for name, samples in dataset.splits()}
    source = {"data_sha256": dataset.source.sha256} if dataset.source else {}
    return {"digest": dataset.digest, **source, **sizes, **provenance(config)}


def seed_of_run(seed: int, run: str) -> int:
    """Derive a seed in 0..2^32-1 from an experiment's seed and a run ID."""
    return int.from_bytes(hashlib.sha256(f"{seed} {run}".encode()).digest()[:4], "big")


def trial_data(experiment: str, data_sha256: Mapping[str, str], folder: str) -> dict[str, Any]:
    """Write the dataset of a trial and return its metadata.

    Args:
        experiment: Experiment of the trial as JSON.
        data_sha256: SHA-256 of each data file of the study, by URI.
        folder: Folder to write the dataset to.
    """
    config = from_json(experiment)
    return generate_data(config.model_dump(), folder, data_sha256=data_sha256.get(config.data, ""))[1]
