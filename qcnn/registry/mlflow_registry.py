"""Registry on an MLflow server, by MLflow's own client.

registered model  a model. Its aliases are the labels, and its tags have a record for each promotion
model version     a version, with its record in a tag
run               one for each version, with its metrics, and with its files as a pyfunc, whose data is the model folder
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import tempfile
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn.artifact_io import text_of
from qcnn.atomic_files import sha256_of, writable
from qcnn.errors import ArtifactError, ConfigError, QcnnError, WriteError, format_value, single_line
from qcnn.registry.interface import (
    RECORD,
    Labels,
    ModelVersion,
    PromotionRecord,
    VersionRecord,
    now,
    parse_promotion,
    parse_version_record,
    promotion_text,
)
from qcnn.registry.mirror import RegistryMirror
from qcnn.results.model_folder import FILE as MODEL
from qcnn.serving.versions import ModelSource, VersionPolicy, is_name
from qcnn.storage.store import UnreachableError
from qcnn.tracking.destination import parse_destination, secrets_in
from qcnn.tracking.mlflow import experiment_id, prepared, reason_of, without_warnings

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion as MlflowVersion
    from mlflow.entities.model_registry import RegisteredModel

# Tags of registered models, of their versions, and of runs.
_MANAGED, _SHA256, _RECORD = "qcnn.registry", "qcnn.model_sha256", "qcnn.version"
# First parts of the tags of promotions, and of processes that are about to move a label.
_PROMOTION, _CLAIM = "qcnn.promotion.", "qcnn.moving."
# Artifact of a run, and the folder of its data.
_ARTIFACT, _DATA = "model", "version"
_READY = "READY"
# Names of aliases that MLflow accepts (mlflow/utils/validation.py).
_ALIAS = re.compile(r"(?!(?:latest|v\d+)$)[\w-]+", re.ASCII | re.IGNORECASE)
# Limit of the metrics in a request.
_MAX_METRICS = 1000
# Seconds after which the claim of another process that has not ended is that of a killed process. A process needs less
# for the three requests in which it has the claim.
_CLAIM_SECONDS = 60.0
_MIN_WAIT, _MAX_WAIT = 0.1, 0.5
_MAX_TRIES = 100
# Codes of errors of a server that does not work, by contrast to one that rejects a request.
_SERVER_ERRORS = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED")


class MlflowRegistry:
    """Registry on an MLflow server. Each request has a time limit.

    Args:
        address: mlflow:URL.

    Raises (by every method):
        ConfigError: If the server rejects a request.
        UnreachableError: If the server does not respond.
    """

    def __init__(self, address: str) -> None:
        found = parse_destination(address, "registry")
        if urllib.parse.urlsplit(found.uri).scheme not in ("http", "https"):
            raise ConfigError(
                f"registry: must be mlflow:http://HOST or mlflow:https://HOST. Given: mlflow:{found.display_name}"
            )
        self._uri, self._server = address, dataclasses.replace(found, secrets=secrets_in(os.environ))
        self.address = f"mlflow:{found.display_name}"
        with self._requests():
            from mlflow import MlflowClient

            self._client = MlflowClient(found.uri, found.uri)

    def names(self) -> list[str]:
        """Return the names of all models that were registered by this class."""
        with self._requests():
            found = _all_pages(self._client.search_registered_models, f"tags.`{_MANAGED}` = 'true'")
        return sorted(each.name for each in found if is_name(each.name))

    def versions(self, name: str) -> list[ModelVersion]:
        """Return the versions of a model, ascending, none if it does not exist."""
        with self._requests():
            found = self._search(name)
        return sorted(map(_version, found), key=lambda version: version.number)

    def labels(self, name: str) -> Labels:
        """Return the labels of a model: its aliases whose names are valid for labels."""
        with self._requests():
            found = self._find_model(name)
        aliases = found.aliases if found else {}
        return Labels({label: int(version) for label, version in aliases.items() if is_name(label)}, None)

    def promotions(self, name: str) -> list[PromotionRecord]:
        """Return the moves of the labels of a model, oldest first."""
        found = []
        with self._requests():
            model = self._find_model(name)
        for key, text in (model.tags if model else {}).items():
            if key.startswith(_PROMOTION):
                # Records are for readers. A damaged one does not stop anything.
                with contextlib.suppress(ValueError):
                    found.append(parse_promotion(text))
        return sorted(found, key=lambda record: record.time)

    def register(self, name: str, model: Path, added: Path, record: VersionRecord) -> tuple[int, bool]:
        """Store a model as a version, unless one has the same model.

        The version is created after its files. If others register the same model at the same time, all keep the lowest
        version and delete theirs.

        Args:
            name: Name of the model.
            model: Model folder, whose files have been checked.
            added: Folder with the other files of the version, of which one is its record.
            record: Content of the record.
        """
        with self._requests():
            if same := self._same(name, record):
                return same[0], False
            self._create_model(name)
            tags = {_SHA256: record.model_sha256, "mlflow.source.name": "qcnn"}
            run = self._client.create_run(experiment_id(self._client), tags=tags, run_name=f"register {name}")
            run_id = str(run.info.run_id)
            try:
                source = self._log(run_id, f"{run.info.artifact_uri}/{_ARTIFACT}", model, added, record)
                tags = {_SHA256: record.model_sha256, _RECORD: _one_line(added / RECORD)}
                created = self._client.create_model_version(name, source, run_id, tags, None, record.source, 0)
            except BaseException:
                with contextlib.suppress(Exception):
                    # The answer to a successful request may have been lost.
                    if not any(each.run_id == run_id for each in self._search(name)):
                        self._client.delete_run(run_id)
                raise
            number = int(created.version)
            lowest = min(self._same(name, record), default=number)
            if lowest != number:
                self._client.delete_model_version(name, str(number))
                self._client.delete_run(run_id)
        return lowest, lowest == number

    @contextlib.contextmanager
    def open(self, name: str, number: int) -> Iterator[Path]:
        """Context manager that yields a local copy of the folder of a version.

        Raises:
            ArtifactError: If its files are missing or of another model.
        """
        with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
            with self._requests():
                version = self._client.get_model_version(name, str(number))
                artifact = f"{_ARTIFACT}/data/{_DATA}"
                folder = Path(self._client.download_artifacts(version.run_id or "", artifact, temporary))
            path = folder / MODEL
            if not path.is_file() or sha256_of(path) != version.tags.get(_SHA256):
                given = f"another {MODEL}" if path.is_file() else f"no {MODEL}"
                raise ArtifactError(
                    f"version: version {number} of {name} must have the model that was registered. Given: {given}"
                )
            yield folder

    def source(self, name: str, policy: VersionPolicy) -> ModelSource:
        """Return the source of the versions of a model, which a server downloads."""
        return ModelSource(f"{self.address}/{name}", policy, RegistryMirror(MlflowRegistry, self._uri, name, policy))

    def move(self, name: str, labels: Labels, record: PromotionRecord) -> bool:
        """Move a label unless it was moved in the meantime, and return whether it was moved.

        MLflow has no conditional write. Processes of this class exclude each other by tags. A move by another client is
        detected if it is complete before the last check, or overwrites this one before the next check.

        Args:
            name: Name of the model.
            labels: Labels of the model as they were read.
            record: Record of the move.

        Raises:
            ConfigError: If MLflow has no aliases of this name.
            WriteError: If other processes move the label all the time.
        """
        label, version = record.label, record.version
        if not _ALIAS.fullmatch(label):
            raise ConfigError(
                "label: must be letters, digits, dashes and underscores, and neither latest nor v and a number, on an "
                f"MLflow server. Given: {format_value(label)}"
            )
        with self._requests(), self._claimed(name, label):
            if self.labels(name).versions.get(label) != labels.versions.get(label):
                return False
            key = f"{_PROMOTION}{record.time:%Y%m%dT%H%M%S.%f}-{uuid.uuid4().hex[:8]}"
            self._client.set_registered_model_tag(name, key, promotion_text(record))
            try:
                self._client.set_registered_model_alias(name, label, str(version))
            except BaseException as error:
                is_moved = False
                with contextlib.suppress(Exception):
                    # The answer to a successful request may have been lost.
                    is_moved = self.labels(name).versions.get(label) == version
                    if not is_moved:
                        self._client.delete_registered_model_tag(name, key)
                if is_moved and isinstance(error, Exception):
                    return True
                raise
            is_moved = self.labels(name).versions.get(label) == version
            if not is_moved:
                self._client.delete_registered_model_tag(name, key)
            return is_moved

    def close(self) -> None:
        """Do nothing: MLflow's client has no connections that can be closed."""

    @contextlib.contextmanager
    def _claimed(self, name: str, label: str) -> Iterator[None]:
        """Context manager in which no other process of this class moves a label.

        A process writes its claim, and then reads all claims. Of two processes at the same time, at least one reads the
        claim of the other. It withdraws its own and tries again.

        Raises:
            WriteError: If other processes have claims all the time.
        """
        prefix, seen = f"{_CLAIM}{label}.", dict[str, float]()
        for _ in range(_MAX_TRIES):
            claim = prefix + uuid.uuid4().hex
            try:
                self._client.set_registered_model_tag(name, claim, now().isoformat(timespec="seconds"))
                present = time.monotonic()
                others = {key for key in self._client.get_registered_model(name).tags if key.startswith(prefix)} - {
                    claim
                }
                seen = {key: seen.get(key, present) for key in others}
                if not others:
                    yield
                    return
            finally:
                with contextlib.suppress(Exception):
                    self._client.delete_registered_model_tag(name, claim)
            for key, since in seen.items():
                if present - since > _CLAIM_SECONDS:
                    self._client.delete_registered_model_tag(name, key)
            time.sleep(random.uniform(_MIN_WAIT, _MAX_WAIT))
        raise WriteError(f"label: must not be moved by other processes all the time. Given: {label} of {name}")

    def _create_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name, {_MANAGED: "true"})
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            self._client.set_registered_model_tag(name, _MANAGED, "true")

    def _log(self, run_id: str, uri: str, model: Path, added: Path, record: VersionRecord) -> str:
        """Send the files and metrics of a version to a run, and return the URI of its pyfunc."""
        with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary, writable(Path(temporary)):
            data, folder = Path(temporary, _DATA), Path(temporary, _ARTIFACT)
            shutil.copytree(model, data)
            shutil.copytree(added, data, dirs_exist_ok=True)
            with without_warnings():
                from mlflow import pyfunc
                from mlflow.entities import Metric
                from mlflow.models import Model

                from qcnn.tracking import pyfunc_model

                pyfunc.save_model(
                    str(folder),
                    loader_module=pyfunc_model.__name__,
                    data_path=str(data),
                    mlflow_model=Model(artifact_path=_ARTIFACT, run_id=run_id),
                    signature=pyfunc_model.signature_of(data),
                    pip_requirements=pyfunc_model.requirements(),
                )
            self._client.log_artifacts(run_id, str(folder), _ARTIFACT)
        milliseconds = round(1000 * record.registered.timestamp())
        metrics = [Metric(metric, value, milliseconds, 0) for metric, value in record.metrics.items()]
        self._client.log_batch(run_id, metrics[:_MAX_METRICS])
        self._client.set_terminated(run_id)
        return uri

    def _find_model(self, name: str) -> RegisteredModel | None:
        from mlflow.exceptions import MlflowException

        try:
            return self._client.get_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None

    def _search(self, name: str, condition: str = "") -> list[MlflowVersion]:
        return _all_pages(self._client.search_model_versions, f"name = '{name}'{condition}")

    def _same(self, name: str, record: VersionRecord) -> list[int]:
        """Return the versions that have the model of a record, ascending."""
        found = self._search(name, f" and tags.`{_SHA256}` = '{record.model_sha256}'")
        return sorted(int(each.version) for each in found)

    @contextlib.contextmanager
    def _requests(self) -> Iterator[None]:
        """Context manager that limits the time of requests, and translates errors of the client, without secrets."""
        with prepared():
            try:
                yield
            except (QcnnError, ModuleNotFoundError):
                raise
            except Exception as error:  # The client raises errors of requests, urllib3, stores and its own.
                is_rejected = getattr(error, "error_code", _SERVER_ERRORS[0]) not in _SERVER_ERRORS
                kind = ConfigError if is_rejected else UnreachableError
                reason = reason_of(error, self._server.redact)
                raise kind(f"registry: {reason}. Given: {self.address}") from None


def _all_pages(search: Callable[..., Any], condition: str) -> list[Any]:
    found, token = [], None
    while True:
        page = search(filter_string=condition, page_token=token)
        found += page
        if not (token := page.token):
            return found


def _version(found: MlflowVersion) -> ModelVersion:
    record, problem = None, ""
    if _RECORD not in found.tags:
        problem = "not registered by qcnn register"
    elif found.status != _READY:
        problem = f"{single_line(found.status)}"
    else:
        try:
            record = parse_version_record(found.tags[_RECORD])
        except ValueError as error:
            problem = f"damaged: tag {_RECORD}: {single_line(error)}"
    return ModelVersion(int(found.version), record, problem)


def _one_line(path: Path) -> str:
    """Return the text of a record as a tag, whose size is limited."""
    return json.dumps(json.loads(text_of(path)))
