"""Interface of model registries, and what they store: versions, labels and the records of promotions."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pydantic

from qcnn.artifact_io import save_description, seal, unseal
from qcnn.artifact_io import text_of as file_text
from qcnn.registry.version_comparison import Comparison
from qcnn.serving.versions import ModelSource, VersionPolicy

# Record of a version next to its model, and the file of a model folder that is written last.
RECORD = "version.json"


@dataclasses.dataclass(frozen=True)
class VersionRecord:
    """Record of a version.

    Attributes:
        model_sha256: Identity of the model, the SHA-256 of model.json, which has the digests of all other files.
        registered: Time of the registration (UTC).
        source: Path or URI of the run or model.
        metrics: Metrics of the run, or of its training if it was not evaluated.
        dataset_digest: Digest of the dataset.
        provenance: Provenance of the model.
    """

    model_sha256: str
    registered: pydantic.AwareDatetime
    source: str
    metrics: Mapping[str, float]
    dataset_digest: str
    provenance: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class ModelVersion:
    """Version of a model.

    `record` is None if the version was copied into the registry without a registration. `problem` is the reason why the
    version cannot be used, or empty.
    """

    number: int
    record: VersionRecord | None = None
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Labels:
    """Version of each label, and the state of the registry in which it was read."""

    versions: Mapping[str, int]
    state: str | None


@dataclasses.dataclass(frozen=True)
class PromotionRecord:
    """Record of a moved label.

    Attributes:
        label: Name of the label.
        version: Version to which it moved.
        previous: Version that had it before, or None.
        time: Time (UTC).
        forced: Whether it moved although the comparison did not require it.
        comparison: Comparison of both versions, or None.
        note: Why there is no comparison, or empty.
    """

    label: str
    version: int
    previous: int | None
    time: pydantic.AwareDatetime
    forced: bool
    comparison: Comparison | None
    note: str = ""


class Registry(Protocol):
    """Registered models: a folder or bucket, or a service.

    Attributes:
        address: Path or URI of the registry.
    """

    address: str

    def names(self) -> list[str]:
        """Return the names of all models."""
        ...

    def versions(self, name: str) -> list[ModelVersion]:
        """Return the versions of a model, ascending, none if it does not exist."""
        ...

    def labels(self, name: str) -> Labels:
        """Return the labels of a model.

        Raises:
            ArtifactError: If they are damaged.
        """
        ...

    def promotions(self, name: str) -> list[PromotionRecord]:
        """Return the moves of the labels of a model, oldest first."""
        ...

    def register(self, name: str, model: Path, added: Path, record: VersionRecord) -> tuple[int, bool]:
        """Store a model as a version, unless one has the same model.

        A version is visible when it is complete. An interrupted registration is completed by the next one of the same
        model.

        Args:
            name: Name of the model.
            model: Model folder, whose files have been checked.
            added: Folder with the other files of the version, of which one is its record.
            record: Content of the record.

        Returns:
            The version, and whether it is new.
        """
        ...

    def open(self, name: str, number: int) -> AbstractContextManager[Path]:
        """Return a context manager that yields the local folder of a version, or a copy of it."""
        ...

    def source(self, name: str, policy: VersionPolicy) -> ModelSource:
        """Return the source of the versions of a model for a server.

        Args:
            name: Name of the model.
            policy: Versions to load.
        """
        ...

    def move(self, name: str, labels: Labels, record: PromotionRecord) -> bool:
        """Move a label atomically unless a label was moved in the meantime, and return whether it was moved.

        Args:
            name: Name of the model.
            labels: Labels of the model as they were read.
            record: Record of the move.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


_VERSION: pydantic.TypeAdapter[VersionRecord] = pydantic.TypeAdapter(VersionRecord)
_PROMOTION: pydantic.TypeAdapter[PromotionRecord] = pydantic.TypeAdapter(PromotionRecord)


def write_version(record: VersionRecord, folder: Path, files: Sequence[str]) -> None:
    """Write the record of a version, with the digests of other files of the folder."""
    save_description(_VERSION.dump_python(record, mode="json"), folder / RECORD, files)


def read_version(path: Path) -> VersionRecord:
    """Return the record of a version.

    Raises:
        ValueError: If the file is damaged.
        OSError: If the file cannot be read.
    """
    return parse_version_record(file_text(path))


def parse_version_record(text: str) -> VersionRecord:
    """Return the record of a version from the text of its file.

    Raises:
        ValueError: If the text is damaged.
    """
    return _VERSION.validate_python(unseal(text))


def write_promotion(record: PromotionRecord, path: Path) -> None:
    """Write the record of a promotion."""
    save_description(_PROMOTION.dump_python(record, mode="json"), path)


def read_promotion(path: Path) -> PromotionRecord:
    """Return the record of a promotion.

    Raises:
        ValueError: If the file is damaged.
        OSError: If the file cannot be read.
    """
    return parse_promotion(file_text(path))


def promotion_text(record: PromotionRecord) -> str:
    """Return the record of a promotion in one line, for a registry without files."""
    return json.dumps(seal(_PROMOTION.dump_python(record, mode="json")))


def parse_promotion(text: str) -> PromotionRecord:
    """Return the record of a promotion from its text.

    Raises:
        ValueError: If the text is damaged.
    """
    return _PROMOTION.validate_python(unseal(text))


def now() -> datetime.datetime:
    """Return the time (UTC)."""
    return datetime.datetime.now(datetime.UTC)
