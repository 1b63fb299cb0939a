"""ModelService: models, their versions and version aliases."""

import datetime
import re
from collections.abc import Callable
from typing import Any

import google.cloud.storage as storage
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service import filters
from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError, check_display_name, check_labels, precondition, require
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.state import State, as_json, copied, cut_page

_DEFAULT = "default"
_ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]")
_FILTERED = ("model", "display_name", "labels", "base_model_name", "version_aliases")


class Models:
    """Handlers that upload, list, update and delete models. A model is stored as the list of its versions."""

    def __init__(self, state: State, operations: Operations, storage_host: Callable[[], str]) -> None:
        self._state, self._operations, self._storage_host = state, operations, storage_host
        self._models: dict[str, list[v1.Model]] = {}
        # Returns whether an endpoint serves MODEL@VERSION.
        self.deployed: Callable[[str], bool] = lambda _: False

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        return {
            "ModelService/UploadModel": self._upload,
            "ModelService/GetModel": lambda request: copied(self.find(request.name)),
            "ModelService/ListModels": self._list,
            "ModelService/ListModelVersions": self._list_versions,
            "ModelService/UpdateModel": self._update,
            "ModelService/MergeVersionAliases": self._merge_aliases,
            "ModelService/DeleteModelVersion": self._delete_version,
            "ModelService/DeleteModel": self._delete,
        }

    def find(self, given: str) -> v1.Model:
        """Return the model version MODEL@VERSION or MODEL@ALIAS, or the default version of MODEL.

        Raises:
            StatusError: If it does not exist.
        """
        name, _, version = self._state.parent(given).partition("@")
        for model in self._models.get(name, ()):
            if version == model.version_id or (version or _DEFAULT) in model.version_aliases:
                return model
        raise StatusError(404, f"The Model does not exist. Name: {given}")

    def _upload(self, request: v1.UploadModelRequest) -> Any:
        given = copied(request.model)
        place = self._state.parent(request.parent)
        check_display_name(given.display_name)
        check_labels(dict(given.labels))
        require("model.container_spec.image_uri", given.container_spec.image_uri)
        self._check_artifacts(given)
        name = f"{place}/models/{request.model_id or self._state.new_id()}"
        if request.parent_model:
            name = self.find(request.parent_model).name
        elif name in self._models:
            raise StatusError(409, f"The Model already exists. Name: {name}")
        with self._state.changed:
            versions = self._models.setdefault(name, [])
            now = datetime.datetime.now(datetime.UTC)
            given.name = name
            given.version_id = str(int(versions[-1].version_id) + 1 if versions else 1)
            given.create_time = versions[0].create_time if versions else now
            given.version_create_time = given.version_update_time = given.update_time = now
            given.artifact_uri = given.artifact_uri.rstrip("/")
            aliases = list(given.version_aliases)
            given.version_aliases = []
            versions.append(given)
            self._give_aliases(versions, given, aliases if versions[1:] else [*aliases, _DEFAULT])
        answer = v1.UploadModelResponse(model=name, model_version_id=given.version_id)
        return self._operations.run(name, lambda: answer, v1.UploadModelOperationMetadata())

    def _check_artifacts(self, model: v1.Model) -> None:
        """Raise StatusError if a model of a prebuilt TensorFlow image is not a SavedModel."""
        if not model.artifact_uri:
            return
        if not model.artifact_uri.startswith("gs://"):
            raise StatusError(400, f"Invalid `artifact_uri`: must begin with gs://. Given: {model.artifact_uri}")
        if "/prediction/tf" not in model.container_spec.image_uri:
            return
        bucket, _, path = model.artifact_uri.removeprefix("gs://").partition("/")
        client = storage.Client(
            project="any", credentials=AnonymousCredentials(), client_options={"api_endpoint": self._storage_host()}
        )
        if not client.bucket(bucket).blob(f"{path.rstrip('/')}/saved_model.pb").exists():
            raise precondition(
                f"Model directory {model.artifact_uri} is expected to contain exactly one of: [saved_model.pb, "
                "saved_model.pbtxt]."
            )

    def _give_aliases(self, versions: list[v1.Model], model: v1.Model, aliases: list[str]) -> None:
        """Move aliases to a version. An alias with the prefix - is removed from the version."""
        for alias in aliases:
            text = alias.removeprefix("-")
            if not _ALIAS.fullmatch(text):
                raise StatusError(400, f"Invalid version alias: must match {_ALIAS.pattern}. Given: {text}")
            if alias == f"-{_DEFAULT}":
                raise StatusError(400, "The default alias cannot be removed; give it to another version.")
            for each in versions:
                if alias == text or each is model:
                    each.version_aliases = [known for known in each.version_aliases if known != text]
            if alias == text:
                model.version_aliases.append(text)

    def _list(self, request: v1.ListModelsRequest) -> v1.ListModelsResponse:
        parent = f"{self._state.parent(request.parent)}/"
        newest = sorted((each for each in self._models if each.startswith(parent)), reverse=True)
        page, token = self._page([self.find(name) for name in newest], request)
        return v1.ListModelsResponse(models=page, next_page_token=token)

    def _list_versions(self, request: v1.ListModelVersionsRequest) -> v1.ListModelVersionsResponse:
        page, token = self._page(self._models[self.find(request.name).name], request)
        return v1.ListModelVersionsResponse(models=page, next_page_token=token)

    def _page(self, found: list[v1.Model], request: Any) -> tuple[list[v1.Model], str]:
        passes = filters.parse(request.filter, _FILTERED)
        with self._state.changed:
            shown = [copied(each) for each in found if passes(as_json(each))]
        return cut_page(shown, request.page_size, request.page_token)

    def _update(self, request: v1.UpdateModelRequest) -> v1.Model:
        with self._state.changed:
            model = self.find(request.model.name)
            for path in request.update_mask.paths:
                if path not in ("display_name", "description", "version_description", "labels"):
                    raise StatusError(400, f"Field cannot be updated: {path}")
                setattr(model, path, getattr(request.model, path))
            return copied(model)

    def _merge_aliases(self, request: v1.MergeVersionAliasesRequest) -> v1.Model:
        with self._state.changed:
            model = self.find(request.name)
            self._give_aliases(self._models[model.name], model, list(request.version_aliases))
            return copied(model)

    def _delete_version(self, request: v1.DeleteModelVersionRequest) -> Any:
        with self._state.changed:
            model = self.find(request.name)
            versions = self._models[model.name]
            if _DEFAULT in model.version_aliases and len(versions) > 1:
                raise precondition("The default version cannot be deleted; make another one the default first.")
            self._check_not_deployed(model)
            return self._operations.run(model.name, lambda: versions.remove(model), v1.DeleteOperationMetadata())

    def _delete(self, request: v1.DeleteModelRequest) -> Any:
        with self._state.changed:
            name = self.find(request.name).name
            for model in self._models[name]:
                self._check_not_deployed(model)

            def delete() -> None:
                del self._models[name]

            return self._operations.run(name, delete, v1.DeleteOperationMetadata())

    def _check_not_deployed(self, model: v1.Model) -> None:
        name = f"{model.name}@{model.version_id}"
        if self.deployed(name):
            raise precondition(f"The Model is deployed at an Endpoint, undeploy it first. Name: {name}")
