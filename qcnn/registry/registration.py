"""Registration of the model of a run."""

import dataclasses
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn import data
from qcnn.atomic_files import readable, sha256_of, writable
from qcnn.data import Dataset
from qcnn.errors import ArtifactError, QcnnError, as_clause
from qcnn.experiment.config import ExperimentConfig
from qcnn.registry import rows
from qcnn.registry.interface import Registry, VersionRecord, now, write_version
from qcnn.results.local_run import RunFolders, model_in, of_run, read_metrics
from qcnn.results.model_folder import FILE, check_all_files, describe
from qcnn.serving.versions import check_name
from qcnn.storage.copies import local_copy
from qcnn.storage.store import parse_bucket_uri


@dataclasses.dataclass(frozen=True)
class Registration:
    """Registered model.

    Attributes:
        name: Name of the model.
        version: Version that has the model.
        is_new: Whether this registration stored it.
        note: Why the version has no test rows, or empty.
    """

    name: str
    version: int
    is_new: bool
    note: str = ""


def register(registry: Registry, address: str, name: str) -> Registration:
    """Register the model of a run, unless it is registered.

    Args:
        registry: Registry.
        address: Path or URI of a run or model.
        name: Name of the model in the registry.

    Raises:
        ArtifactError: If there is no model, or a file is damaged.
        ConfigError: If the name is invalid, or a bucket denies access.
    """
    check_name(name)
    with local_copy(address) as copy:
        folders, model = of_run(copy), model_in(copy, address)
        dataset = folders.dataset if model != copy and folders.dataset.is_dir() else None
        source = address if parse_bucket_uri(address) else str(Path(address).absolute())
        return register_model(registry, name, model, dataset, _run_metrics(folders, model != copy), source)


def _run_metrics(folders: RunFolders, is_run: bool) -> Mapping[str, float]:
    return read_metrics(folders) if is_run and folders.metrics.exists() else {}


def register_model(
    registry: Registry, name: str, model: Path, dataset: Path | None, metrics: Mapping[str, float], source: str
) -> Registration:
    """Register a model folder, unless it is registered.

    Args:
        registry: Registry.
        name: Valid name of the model in the registry.
        model: Model folder.
        dataset: Folder of its dataset, or None if it is unknown.
        metrics: Metrics of its evaluation, in addition to those of its training.
        source: Path or URI of the run or model, for the record.

    Raises:
        ArtifactError: If a file is damaged, a metric is not finite, or the dataset is another one.
    """
    description, config = describe(model)
    check_all_files(model, description)
    every = {**description["training"], **metrics}
    for metric, value in every.items():
        if not math.isfinite(value):
            raise ArtifactError(f"metrics: {metric} must be finite. Given: {value} in {source}")
    with readable("model", model / FILE):
        record = VersionRecord(
            model_sha256=sha256_of(model / FILE),
            registered=now(),
            source=source,
            metrics={metric: float(value) for metric, value in every.items()},
            dataset_digest=str(description["dataset_digest"]),
            provenance={key: str(value) for key, value in description.get("provenance", {}).items()},
        )
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        added, note = Path(temporary), ""
        with writable(added):
            try:
                rows.write_rows(_dataset(config, description, dataset), added)
            except QcnnError as error:
                if dataset is not None:
                    raise
                note = f"the version has no test rows, so its comparison needs --data: {as_clause(error)}"
            write_version(record, added, [path.name for path in added.iterdir()])
        version, is_new = registry.register(name, model, added, record)
    return Registration(name, version, is_new, note if is_new else "")


def _dataset(config: ExperimentConfig, description: Mapping[str, Any], folder: Path | None) -> Dataset:
    """Return the dataset of a model.

    Raises:
        QcnnError: If it is not known, damaged, or that of another model.
    """
    if folder is None and config.has_ground_states:
        raise ArtifactError("dataset: must be that of a run for ground states. Given: none")
    dataset = data.generate(config) if folder is None else data.load(folder)
    if dataset.digest != description["dataset_digest"]:
        raise ArtifactError(
            f"dataset: must be the dataset of the training run (digest {description['dataset_digest'][:12]}). "
            f"Given: {dataset.digest[:12]}"
        )
    return dataset
