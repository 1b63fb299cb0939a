"""Registry in a folder or bucket, in the layout that qcnn serve loads.

NAME/N/           model folder, with version.json, which reserves the number, and model.json, which is written last
NAME/labels.json  version of each label
NAME/promotions/  records of moved labels
"""

from __future__ import annotations

import collections
import contextlib
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from qcnn.atomic_files import complete_files, sha256_of
from qcnn.errors import ArtifactError, as_clause, single_line
from qcnn.registry.interface import (
    RECORD,
    Labels,
    ModelVersion,
    PromotionRecord,
    VersionRecord,
    read_promotion,
    read_version,
    write_promotion,
)
from qcnn.results.model_folder import FILE as MODEL
from qcnn.serving import labels as label_files
from qcnn.serving.versions import ModelSource, VersionPolicy, parse_version
from qcnn.storage.copies import local_copy
from qcnn.storage.folder import open_conditional_store
from qcnn.storage.store import ConditionalStore, MissingFileError, is_below

_PROMOTIONS = "promotions"
# Number of other registrations that may take a version number at the same time.
_MAX_TRIES = 100


class FolderRegistry:
    """Registry in a folder or bucket."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/") or address
        # Clients of buckets take a fraction of a second to create.
        self._stores: dict[str, ConditionalStore] = {}

    def names(self) -> list[str]:
        """Return the names of all models."""
        found = {parts[0] for parts in _parts(self._store().names()) if len(parts) > 2 and parse_version(parts[1])}
        return sorted(found)

    def versions(self, name: str) -> list[ModelVersion]:
        """Return the versions of a model, ascending, none if it does not exist."""
        store = self._store(name)
        return [_version(store, number, files) for number, files in _version_files(store.names()).items()]

    def labels(self, name: str) -> Labels:
        """Return the labels of a model."""
        with _scratch() as folder:
            try:
                state = self._store(name).read_version(label_files.FILE, folder / label_files.FILE)
            except MissingFileError:
                return Labels({}, None)
            try:
                return Labels(label_files.read_labels(folder), state)
            except ArtifactError as error:
                raise ArtifactError(f"{as_clause(error)}. Given: {self.address}/{name}/{label_files.FILE}") from None

    def promotions(self, name: str) -> list[PromotionRecord]:
        """Return the moves of the labels of a model, oldest first."""
        store, found = self._store(name), []
        with _scratch() as folder:
            for path in store.names():
                if PurePosixPath(path).parent.name == _PROMOTIONS:
                    # Records are for readers. A damaged one does not stop anything.
                    with contextlib.suppress(MissingFileError, ValueError):
                        store.read(path, folder / "record")
                        found.append(read_promotion(folder / "record"))
        return sorted(found, key=lambda record: record.time)

    def register(self, name: str, model: Path, added: Path, record: VersionRecord) -> tuple[int, bool]:
        """Store a model as a version, unless one has the same model."""
        store = self._store(name)
        sources = {file: folder / file for folder in (model, added) for file in complete_files(folder)}
        number, stored = _reserve(store, added / RECORD, record)
        if {*complete_files(model)} <= stored:
            return number, False
        # The model is complete with its last file.
        for file in sorted(sources, key=lambda file: (file == MODEL, file != RECORD, file)):
            store.write(sources[file], f"{number}/{file}")
        return number, True

    @contextlib.contextmanager
    def open(self, name: str, number: int) -> Iterator[Path]:
        """Context manager that yields the local folder of a version, or a copy of it."""
        with local_copy(f"{self.address}/{name}/{number}") as folder:
            yield folder

    def source(self, name: str, policy: VersionPolicy) -> ModelSource:
        """Return the folder of the versions of a model, which a server loads."""
        return ModelSource(f"{self.address}/{name}", policy)

    def move(self, name: str, labels: Labels, record: PromotionRecord) -> bool:
        """Move a label atomically unless a label was moved in the meantime, and return whether it was moved."""
        store = self._store(name)
        with _scratch() as folder:
            write_promotion(record, folder / "record")
            # Names in the order of time. A record of a label that was not moved is deleted.
            path = f"{_PROMOTIONS}/{record.time:%Y%m%dT%H%M%S.%f}-{uuid.uuid4().hex[:8]}.json"
            store.write(folder / "record", path)
            moved = {**labels.versions, record.label: record.version}
            label_files.write_labels(moved, folder)
            is_moved = store.write_if(folder / label_files.FILE, label_files.FILE, labels.state)
            # The answer to a successful write may have been lost.
            is_moved = is_moved or self.labels(name).versions == moved
            if not is_moved:
                store.delete(path)
            return is_moved

    def close(self) -> None:
        """Close the connections."""
        for store in self._stores.values():
            store.close()

    def _store(self, name: str = "") -> ConditionalStore:
        """Return the store of the registry, or of a model."""
        if name not in self._stores:
            self._stores[name] = open_conditional_store(f"{self.address}/{name}")
        return self._stores[name]


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="qcnn-") as folder:
        yield Path(folder)


def _reserve(store: ConditionalStore, path: Path, record: VersionRecord) -> tuple[int, set[str]]:
    """Return the number for a model, and its files that are stored.

    The number is that of the same model, or a new one, which writing the record reserves.

    Args:
        store: Store of the versions.
        path: File of the record.
        record: Content of the record.

    Raises:
        ArtifactError: If others take every number first.
    """
    for _ in range(_MAX_TRIES):
        versions = _version_files(store.names())
        for number, files in versions.items():
            if _model_of(store, number, files) == record.model_sha256:
                return number, files
        number = max(versions, default=0) + 1
        if store.write_if(path, f"{number}/{RECORD}", None):
            return number, set()
    raise ArtifactError(f"version: must not be taken by another registration. Given: {number}")


def _parts(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (PurePosixPath(name).parts for name in names if is_below(name))


def _version_files(names: Sequence[str]) -> dict[int, set[str]]:
    """Return the names of the files of each version, relative to its folder, ascending."""
    files: dict[int, set[str]] = collections.defaultdict(set)
    for first, *rest in _parts(names):
        if rest and (number := parse_version(first)):
            files[number].add("/".join(rest))
    return dict(sorted(files.items()))


def _version(store: ConditionalStore, number: int, files: set[str]) -> ModelVersion:
    record, problem = None, "" if MODEL in files else "incomplete"
    if RECORD in files:
        with _scratch() as folder:
            try:
                store.read(f"{number}/{RECORD}", folder / RECORD)
                record = read_version(folder / RECORD)
            except (MissingFileError, ValueError) as error:
                problem = f"damaged: {RECORD}: {single_line(error)}"
    return ModelVersion(number, record, problem)


def _model_of(store: ConditionalStore, number: int, files: set[str]) -> str:
    """Return the identity of the model of a version, or empty if it is unknown."""
    with _scratch() as folder:
        if MODEL in files:
            store.read(f"{number}/{MODEL}", folder / MODEL)
            return sha256_of(folder / MODEL)
        version = _version(store, number, files)
        return version.record.model_sha256 if version.record else ""
