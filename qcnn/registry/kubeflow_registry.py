"""Registry on a Kubeflow Model Registry, by Kubeflow's own client. It stores no files, which are in a folder or bucket.

registered model  a model. Its custom properties show the version of each label
model version     a version, whose name is the number, with its record in custom properties
model artifact    one for each version, with the URI of its files: FILES/NAME/SHA256 of model.json
doc artifact      one for each moved label, with its record and the version of each label after it

The server has no conditional update. But each name of a version and each external ID of an artifact exists once, so
creating the next version, or the next move, succeeds for one process only. Custom properties of the registered model
are for users: changing them moves no label.
"""

from __future__ import annotations

import contextlib
import logging
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from qcnn.atomic_files import complete_files, sha256_of
from qcnn.errors import ArtifactError, ConfigError, QcnnError, format_value, single_line
from qcnn.registry.interface import (
    RECORD,
    Labels,
    ModelVersion,
    PromotionRecord,
    VersionRecord,
    parse_promotion,
    promotion_text,
)
from qcnn.registry.kubeflow_address import parse_kubeflow
from qcnn.registry.kubeflow_client import ConflictError, KubeflowClient
from qcnn.registry.mirror import RegistryMirror
from qcnn.results.model_folder import FILE as MODEL
from qcnn.serving.versions import ModelSource, VersionPolicy, check_name, is_name, parse_version
from qcnn.storage.copies import local_copy
from qcnn.storage.folder import open_conditional_store
from qcnn.storage.store import parse_bucket_uri

if TYPE_CHECKING:
    from mr_openapi import Artifact, MetadataValue, RegisteredModel
    from mr_openapi import ModelVersion as KubeflowVersion

logger = logging.getLogger("qcnn")

# Custom properties of registered models, of versions, and of the artifacts of a registered model.
_MANAGED, _MODEL_ID, _VERSION, _PROMOTION = "qcnn.registry", "qcnn.model_id", "qcnn.version", "qcnn.promotion"
_SHA256 = "qcnn.model_sha256"
_TEXTS = ("model_sha256", "registered", "source", "dataset_digest")
# First parts of custom properties with a name.
_LABEL, _METRIC, _PROVENANCE = "qcnn.label.", "qcnn.metric.", "qcnn.provenance."
_ARTIFACT, _MODEL_TYPE, _DOC_TYPE = "model", "model-artifact", "doc-artifact"
_FORMAT, _FORMAT_VERSION = "qcnn", "1"
_LIVE = "LIVE"
# Number of other registrations that may take a version number, or other moves that may change the labels, at once.
_MAX_TRIES = 100

_RECORD: pydantic.TypeAdapter[VersionRecord] = pydantic.TypeAdapter(VersionRecord)


class KubeflowRegistry:
    """Registry on a Kubeflow Model Registry. Each request has a time limit.

    Args:
        address: kubeflow:URL#FOLDER, with the folder or bucket for the files of new versions.

    Raises (by every method):
        ConfigError: If the server rejects a request.
        UnreachableError: If the server does not respond.
    """

    def __init__(self, address: str) -> None:
        found = parse_kubeflow(address)
        self._given, self._files = address, found.files
        self.address = f"kubeflow:{found.url}"
        self._client = KubeflowClient(found.url, self.address)

    def names(self) -> list[str]:
        """Return the names of all models that were registered by this class and are not archived."""
        found = self._client.pages("get_registered_models", filter_query=f"`{_MANAGED}` = true")
        return sorted(each.name for each in found if each.state == _LIVE and is_name(each.name))

    def versions(self, name: str) -> list[ModelVersion]:
        """Return the versions of a model, ascending, none if it does not exist."""
        model = self._find_model(name)
        if model is None:
            return []
        complete = self._artifacts(model)
        found = [_version(model, number, each, number in complete) for number, each in self._numbered(model).items()]
        return sorted(found, key=lambda version: version.number)

    def labels(self, name: str) -> Labels:
        """Return the labels of a model: those of its last move.

        Raises:
            ArtifactError: If they are damaged.
        """
        model = self._find_model(name)
        return self._labels(model) if model else Labels({}, None)

    def promotions(self, name: str) -> list[PromotionRecord]:
        """Return the moves of the labels of a model, oldest first."""
        found, model = [], self._find_model(name)
        for move in self._client.pages("get_artifacts", **_moves(model)) if model else []:
            # Records are for readers. A damaged one does not stop anything.
            with contextlib.suppress(ValueError):
                found.append(parse_promotion(str(_values(move.actual_instance).get(_PROMOTION, ""))))
        return sorted(found, key=lambda record: record.time)

    def register(self, name: str, model: Path, added: Path, record: VersionRecord) -> tuple[int, bool]:
        """Store a model as a version, unless one has the same model.

        The version is complete with its model artifact, which is created last.

        Args:
            name: Name of the model.
            model: Model folder, whose files have been checked.
            added: Folder with the other files of the version, of which one is its record.
            record: Content of the record.

        Raises:
            ConfigError: If the registered model is archived.
        """
        found = self._find_model(name)
        if found and found.state != _LIVE:
            raise ConfigError(f"name: must not be that of an archived model in {self.address}. Given: {name}")
        number = self._same(found, record) if found else None
        if found and number is not None and number in self._artifacts(found):
            return number, False
        uri = _store_files(f"{self._files}/{name}/{record.model_sha256}", model, added)
        found = found or self._create_model(name)
        number, version_id = self._reserve(found, record)
        return number, self._complete(found, number, version_id, uri)

    @contextlib.contextmanager
    def open(self, name: str, number: int) -> Iterator[Path]:
        """Context manager that yields the local folder of a version, or a copy of it.

        Raises:
            ArtifactError: If its files are missing or of another model.
        """
        model = self._find_model(name)
        version = self._numbered(model).get(number) if model else None
        artifact = self._artifacts(model).get(number) if model and version else None
        if version is None or artifact is None:
            raise ArtifactError(f"version: must be a complete one of {name}. Given: {number}")
        uri = str(artifact.actual_instance.uri)
        with local_copy(_address_of(uri)) as folder:
            path = folder / MODEL
            if not path.is_file() or sha256_of(path) != _values(version).get(_SHA256):
                given = f"another {MODEL}" if path.is_file() else f"no {MODEL}"
                raise ArtifactError(
                    f"version: version {number} of {name} must have the model that was registered. Given: {given} in "
                    f"{single_line(uri)}"
                )
            yield folder

    def source(self, name: str, policy: VersionPolicy) -> ModelSource:
        """Return the source of the versions of a model, which a server downloads."""
        return ModelSource(
            f"{self.address}/{name}", policy, RegistryMirror(KubeflowRegistry, self._given, name, policy)
        )

    def move(self, name: str, labels: Labels, record: PromotionRecord) -> bool:
        """Move a label atomically unless a label was moved in the meantime, and return whether it was moved.

        Args:
            name: Name of the model.
            labels: Labels of the model as they were read.
            record: Record of the move.

        Raises:
            ArtifactError: If the version does not exist.
        """
        from mr_openapi import Artifact, DocArtifact

        model = self._find_model(name)
        version = self._numbered(model).get(record.version) if model else None
        if model is None or version is None:
            raise ArtifactError(f"version: must be one of {name}. Given: {record.version}")
        moved = {**labels.versions, record.label: record.version}
        external_id = f"{_external_id(model)}{int(labels.state or 0) + 1}"
        values = {_MODEL_ID: str(model.id), _PROMOTION: promotion_text(record), **_label_values(moved)}
        move = DocArtifact(
            artifact_type=_DOC_TYPE,
            name=f"{record.label}-{uuid.uuid4().hex}",
            description=f"{record.label} moves to version {record.version}",
            external_id=external_id,
            custom_properties=_properties(values),
        )
        try:
            self._client.request("upsert_model_version_artifact", version.id, Artifact(move))
        except ConflictError:
            return False
        except QcnnError:
            # The answer to a successful request may have been lost.
            if not self._is_move(model, external_id, str(move.name)):
                raise
        self._show_labels(name, model)
        return True

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _find_model(self, name: str) -> RegisteredModel | None:
        found = self._client.pages("get_registered_models", filter_query=f"name = '{check_name(name)}'")
        # Databases may compare names without regard to case.
        return next((each for each in found if each.name == name), None)

    def _numbered(self, model: RegisteredModel) -> dict[int, KubeflowVersion]:
        """Return the versions whose name is a number. Other tools may create others."""
        found = self._client.pages("get_registered_model_versions", model.id)
        return {number: each for each in found if (number := parse_version(each.name))}

    def _artifacts(self, model: RegisteredModel) -> dict[int, Artifact]:
        """Return the model artifacts of the versions of a model."""
        query = f"`{_MODEL_ID}` = '{model.id}'"
        found = self._client.pages("get_artifacts", filter_query=query, artifact_type=_MODEL_TYPE)
        numbers = {each.actual_instance.id: _values(each.actual_instance).get(_VERSION) for each in found}
        return {
            number: each for each in found if isinstance(number := numbers[each.actual_instance.id], int) and number > 0
        }

    def _same(self, model: RegisteredModel, record: VersionRecord) -> int | None:
        """Return the lowest version that has the model of a record, or None."""
        found = self._numbered(model).items()
        return min(
            (number for number, each in found if _values(each).get(_SHA256) == record.model_sha256), default=None
        )

    def _create_model(self, name: str) -> RegisteredModel:
        from mr_openapi import RegisteredModelCreate

        new = RegisteredModelCreate(name=name, custom_properties=_properties({_MANAGED: True}))
        try:
            created: RegisteredModel = self._client.request("create_registered_model", new)
        except ConflictError as error:
            found = self._find_model(name)
            if found is None:
                raise ConfigError(f"name: {error}. Given: {name}") from None
            return found
        return created

    def _reserve(self, model: RegisteredModel, record: VersionRecord) -> tuple[int, str]:
        """Return the number for a model, and the ID of its version.

        The number is that of the same model, or a new one, which creating the version reserves.

        Raises:
            ArtifactError: If others take every number first.
        """
        from mr_openapi import ModelVersionCreate

        number = 0
        for _ in range(_MAX_TRIES):
            versions = self._numbered(model)
            for number, each in sorted(versions.items()):
                if _values(each).get(_SHA256) == record.model_sha256:
                    return number, str(each.id)
            number = max(versions, default=0) + 1
            new = ModelVersionCreate(
                name=str(number),
                registered_model_id=str(model.id),
                description=f"registered from {record.source}",
                custom_properties=_properties(_record_values(record)),
            )
            with contextlib.suppress(ConflictError):
                return number, str(self._client.request("create_model_version", new).id)
        raise ArtifactError(f"version: must not be taken by another registration. Given: {number}")

    def _complete(self, model: RegisteredModel, number: int, version_id: str, uri: str) -> bool:
        """Create the model artifact of a version, and return whether no other process has created it."""
        from mr_openapi import Artifact, ModelArtifact

        artifact = ModelArtifact(
            artifact_type=_MODEL_TYPE,
            name=_ARTIFACT,
            uri=uri,
            state=_LIVE,
            model_format_name=_FORMAT,
            model_format_version=_FORMAT_VERSION,
            custom_properties=_properties({_MODEL_ID: str(model.id), _VERSION: number}),
        )
        try:
            self._client.request("upsert_model_version_artifact", version_id, Artifact(artifact))
        except ConflictError:
            return False
        return True

    def _labels(self, model: RegisteredModel) -> Labels:
        found = self._client.request("get_artifacts", page_size="1", order_by="ID", sort_order="DESC", **_moves(model))
        if not found.items:
            return Labels({}, None)
        last, versions = found.items[0].actual_instance, {}
        for key, version in _values(last).items():
            if key.startswith(_LABEL):
                label = key.removeprefix(_LABEL)
                if not is_name(label) or not isinstance(version, int) or version < 1:
                    raise ArtifactError(
                        f"labels: must be names of versions. Given: {format_value(version)} for {format_value(label)}"
                    )
                versions[label] = version
        return Labels(versions, str(last.external_id).removeprefix(_external_id(model)))

    def _is_move(self, model: RegisteredModel, external_id: str, name: str) -> bool:
        """Return whether a move exists."""
        with contextlib.suppress(QcnnError):
            query = f"externalId = '{external_id}'"
            found = self._client.pages("get_artifacts", filter_query=query, artifact_type=_DOC_TYPE)
            return any(each.actual_instance.name == name for each in found)
        return False

    def _show_labels(self, name: str, model: RegisteredModel) -> None:
        """Set the custom properties of the registered model to its labels, until no other process has moved one."""
        from mr_openapi import RegisteredModelUpdate

        try:
            for _ in range(_MAX_TRIES):
                shown = self._client.request("get_registered_model", model.id)
                wanted = _label_values(self._labels(model).versions)
                if {key: value for key, value in _values(shown).items() if key.startswith(_LABEL)} == wanted:
                    return
                kept = {
                    key: value for key, value in (shown.custom_properties or {}).items() if not key.startswith(_LABEL)
                }
                update = RegisteredModelUpdate(
                    state=shown.state, custom_properties={**kept, **_properties({**wanted, _MANAGED: True})}
                )
                self._client.request("update_registered_model", model.id, update)
        except QcnnError as error:
            logger.warning("%s: the label has moved, but Kubeflow does not show it: %s", name, error)


def _store_files(address: str, model: Path, added: Path) -> str:
    """Store the files of a version, unless they are complete, and return the URI of their folder."""
    if not parse_bucket_uri(address):
        address = str(Path(address).absolute())
    sources = {file: folder / file for folder in (model, added) for file in complete_files(folder)}
    with contextlib.closing(open_conditional_store(address)) as store:
        if not {*sources} <= {*store.names()}:
            # The model is complete with its last file.
            for file in sorted(sources, key=lambda file: (file == MODEL, file != RECORD, file)):
                store.write(sources[file], file)
    return address if parse_bucket_uri(address) else Path(address).as_uri()


def _address_of(uri: str) -> str:
    """Return the path or URI of a folder from the URI in a model artifact."""
    found = urllib.parse.urlsplit(uri)
    return urllib.request.url2pathname(found.path) if found.scheme == "file" else uri


def _version(model: RegisteredModel, number: int, found: KubeflowVersion, is_complete: bool) -> ModelVersion:
    values, record, problem = _values(found), None, ""
    if _SHA256 not in values:
        return ModelVersion(number, None, "not registered by qcnn register")
    if found.state != _LIVE or model.state != _LIVE:
        problem = "archived"
    elif not is_complete:
        problem = "incomplete"
    try:
        record = _parse_record(values)
    except ValueError as error:
        problem = f"damaged: custom properties: {single_line(error)}"
    return ModelVersion(number, record, problem)


def _record_values(record: VersionRecord) -> dict[str, bool | int | float | str]:
    described = _RECORD.dump_python(record, mode="json")
    return {
        **{f"qcnn.{name}": str(described[name]) for name in _TEXTS},
        **{f"{_METRIC}{name}": float(value) for name, value in record.metrics.items()},
        **{f"{_PROVENANCE}{name}": value for name, value in record.provenance.items()},
    }


def _parse_record(values: Mapping[str, Any]) -> VersionRecord:
    """Return the record of a version from its custom properties.

    Raises:
        ValueError: If one is missing or invalid.
    """
    return _RECORD.validate_python(
        {
            **{name: values[key] for name in _TEXTS if (key := f"qcnn.{name}") in values},
            "metrics": _with_prefix(values, _METRIC),
            "provenance": _with_prefix(values, _PROVENANCE),
        }
    )


def _with_prefix(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def _external_id(model: RegisteredModel) -> str:
    """Return the first part of the external IDs of the moves of the labels of a model, which their number follows."""
    return f"qcnn/{model.id}/"


def _moves(model: RegisteredModel) -> dict[str, str]:
    return {"filter_query": f"externalId LIKE '{_external_id(model)}%'", "artifact_type": _DOC_TYPE}


def _label_values(versions: Mapping[str, int]) -> dict[str, bool | int | float | str]:
    return {f"{_LABEL}{label}": version for label, version in versions.items()}


def _properties(values: Mapping[str, bool | int | float | str]) -> dict[str, MetadataValue]:
    """Return values as custom properties."""
    from mr_openapi import (
        MetadataBoolValue,
        MetadataDoubleValue,
        MetadataIntValue,
        MetadataStringValue,
        MetadataValue,
    )

    def property_of(value: bool | int | float | str) -> MetadataValue:
        match value:
            case bool():
                return MetadataValue(MetadataBoolValue(bool_value=value, metadata_type="MetadataBoolValue"))
            case int():
                return MetadataValue(MetadataIntValue(int_value=str(value), metadata_type="MetadataIntValue"))
            case float():
                return MetadataValue(MetadataDoubleValue(double_value=value, metadata_type="MetadataDoubleValue"))
            case str():
                return MetadataValue(MetadataStringValue(string_value=value, metadata_type="MetadataStringValue"))

    return {name: property_of(value) for name, value in values.items()}


def _values(resource: Any) -> dict[str, bool | int | float | str]:
    """Return the values of the custom properties of a resource."""
    found: dict[str, bool | int | float | str] = {}
    for name, each in (resource.custom_properties or {}).items():
        match type(each.actual_instance).__name__, each.actual_instance:
            case "MetadataBoolValue", value:
                found[name] = value.bool_value
            case "MetadataIntValue", value:
                with contextlib.suppress(ValueError):
                    found[name] = int(value.int_value)
            case "MetadataDoubleValue", value:
                found[name] = float(value.double_value)
            case "MetadataStringValue", value:
                found[name] = value.string_value
    return found
