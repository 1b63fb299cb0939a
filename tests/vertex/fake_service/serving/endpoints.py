"""EndpointService and PredictionService: deployment of models, and routing of requests to them."""

import datetime
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format

from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError, check_display_name, check_labels, precondition, require
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.pipelines import mount
from tests.vertex.fake_service.pipelines.spec import whole
from tests.vertex.fake_service.serving.models import Models
from tests.vertex.fake_service.serving.predictor import Predictor
from tests.vertex.fake_service.state import State, copied

_FILTERED = ("endpoint", "display_name", "labels")
_ALL = 100


class Endpoints:
    """Handlers that create, list, update and delete endpoints, deploy models to them, and predict."""

    def __init__(
        self, state: State, models: Models, operations: Operations, folder: Path, storage_host: Callable[[], str]
    ) -> None:
        self._state, self._models, self._operations = state, models, operations
        self._folder, self.storage_host = folder, storage_host
        self._predictors: dict[str, Predictor] = {}
        # Number of requests that each endpoint has received. Routing by this number makes the traffic split exact.
        self._answered: dict[str, int] = {}
        self._lock = threading.Lock()
        models.deployed = self._is_deployed

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of both services."""
        return {
            "EndpointService/CreateEndpoint": self._create,
            "EndpointService/GetEndpoint": lambda request: self._state.copy(v1.Endpoint, request.name),
            "EndpointService/ListEndpoints": self._list,
            "EndpointService/UpdateEndpoint": self._update,
            "EndpointService/DeleteEndpoint": self._delete,
            "EndpointService/DeployModel": self._deploy,
            "EndpointService/UndeployModel": self._undeploy,
            "PredictionService/Predict": self._predict,
        }

    def predictor(self, model: v1.Model) -> Predictor:
        """Return the predictor of a model version."""
        name = f"{model.name}@{model.version_id}"
        with self._lock:
            if name not in self._predictors:
                mount.fill(self.storage_host(), self._folder, [model.artifact_uri])
                self._predictors[name] = Predictor(self._folder / model.artifact_uri.removeprefix("gs://"))
            return self._predictors[name]

    def close(self) -> None:
        """Stop all predictors."""
        for predictor in self._predictors.values():
            predictor.close()

    def _create(self, request: v1.CreateEndpointRequest) -> Any:
        endpoint = copied(request.endpoint)
        place = self._state.parent(request.parent)
        check_display_name(endpoint.display_name)
        check_labels(dict(endpoint.labels))
        endpoint.name = f"{place}/endpoints/{request.endpoint_id or self._state.new_id()}"
        endpoint.create_time = endpoint.update_time = datetime.datetime.now(datetime.UTC)
        self._state.add(endpoint.name, endpoint)
        kept = copied(endpoint)
        return self._operations.run(endpoint.name, lambda: kept, v1.CreateEndpointOperationMetadata())

    def _list(self, request: v1.ListEndpointsRequest) -> v1.ListEndpointsResponse:
        page, token = self._state.page(v1.Endpoint, request, _FILTERED)
        return v1.ListEndpointsResponse(endpoints=page, next_page_token=token)

    def _update(self, request: v1.UpdateEndpointRequest) -> v1.Endpoint:
        with self._state.changed:
            endpoint = self._state.get(v1.Endpoint, request.endpoint.name)
            for path in request.update_mask.paths:
                if path not in ("display_name", "description", "labels", "traffic_split"):
                    raise StatusError(400, f"Field cannot be updated: {path}")
                if path == "traffic_split":
                    _check_split(dict(request.endpoint.traffic_split), endpoint)
                setattr(endpoint, path, getattr(request.endpoint, path))
            return copied(endpoint)

    def _delete(self, request: v1.DeleteEndpointRequest) -> Any:
        with self._state.changed:
            endpoint = self._state.get(v1.Endpoint, request.name)
            if endpoint.deployed_models:
                raise precondition(f"The Endpoint has deployed Models, undeploy them first. Name: {endpoint.name}")
            name = endpoint.name
            return self._operations.run(name, lambda: self._state.remove(name), v1.DeleteOperationMetadata())

    def _deploy(self, request: v1.DeployModelRequest) -> Any:
        with self._state.changed:
            endpoint = self._state.get(v1.Endpoint, request.endpoint)
            deployed = copied(request.deployed_model)
            model = self._models.find(deployed.model)
            resources = v1.DeployedModel.pb(deployed).WhichOneof("prediction_resources")
            require("deployed_model.dedicated_resources", resources)
            if resources == "dedicated_resources":
                machine = deployed.dedicated_resources
                require("deployed_model.dedicated_resources.min_replica_count", machine.min_replica_count)
            deployed.id = deployed.id or self._state.new_id()
            deployed.model, deployed.model_version_id = model.name, model.version_id
            deployed.display_name = deployed.display_name or model.display_name
            deployed.create_time = datetime.datetime.now(datetime.UTC)
            split = {deployed.id if key == "0" else key: share for key, share in request.traffic_split.items()}
            endpoint.deployed_models.append(deployed)
            try:
                _check_split(split, endpoint)
            except StatusError:
                endpoint.deployed_models.pop()
                raise
            if split:
                endpoint.traffic_split = split
            self._state.changed.notify_all()
        self.predictor(model)
        answer = v1.DeployModelResponse(deployed_model=deployed)
        return self._operations.run(endpoint.name, lambda: answer, v1.DeployModelOperationMetadata())

    def _undeploy(self, request: v1.UndeployModelRequest) -> Any:
        with self._state.changed:
            endpoint = self._state.get(v1.Endpoint, request.endpoint)
            left = [each for each in endpoint.deployed_models if each.id != request.deployed_model_id]
            if len(left) == len(endpoint.deployed_models):
                raise StatusError(404, f"The DeployedModel does not exist. ID: {request.deployed_model_id}")
            split = dict(request.traffic_split) or dict(endpoint.traffic_split)
            if left and split.get(request.deployed_model_id):
                raise precondition(f"The DeployedModel has traffic. ID: {request.deployed_model_id}")
            endpoint.deployed_models = left
            split.pop(request.deployed_model_id, None)
            endpoint.traffic_split = split if left else {}
            self._state.changed.notify_all()
        return self._operations.run(endpoint.name, v1.UndeployModelResponse, v1.UndeployModelOperationMetadata())

    def _predict(self, request: v1.PredictRequest) -> v1.PredictResponse:
        with self._state.changed:
            endpoint = self._state.copy(v1.Endpoint, request.endpoint)
            number = self._answered.get(endpoint.name, 0)
            self._answered[endpoint.name] = number + 1
        deployed = _chosen(endpoint, number)
        model = self._models.find(f"{deployed.model}@{deployed.model_version_id}")
        instances = whole(json.loads(v1.PredictRequest.to_json(request)).get("instances", []))
        answer = v1.PredictResponse(
            deployed_model_id=deployed.id,
            model=model.name,
            model_version_id=model.version_id,
            model_display_name=model.display_name,
        )
        # The wrapper messages of the library do not accept plain numbers in this field.
        for prediction in self.predictor(model).predict(instances):
            json_format.ParseDict(prediction, v1.PredictResponse.pb(answer).predictions.add())
        return answer

    def _is_deployed(self, name: str) -> bool:
        return any(
            f"{each.model}@{each.model_version_id}" == name
            for endpoint in self._state.all(v1.Endpoint)
            for each in endpoint.deployed_models
        )


def _check_split(split: dict[str, int], endpoint: v1.Endpoint) -> None:
    if unknown := set(split) - {each.id for each in endpoint.deployed_models}:
        raise StatusError(400, f"traffic_split names models that are not deployed: {sorted(unknown)}")
    if split and sum(split.values()) != _ALL:
        raise StatusError(400, f"traffic_split must add up to {_ALL}. Given: {split}")


def _chosen(endpoint: v1.Endpoint, number: int) -> v1.DeployedModel:
    """Return the model that receives a request: of every hundred requests, each model receives its share exactly."""
    # 37 and 100 are coprime, so each model's requests are spread over the hundred.
    position = number * 37 % _ALL
    for deployed in endpoint.deployed_models:
        position -= endpoint.traffic_split.get(deployed.id, 0)
        if position < 0:
            return deployed
    raise precondition(f"Endpoint {endpoint.name} does not have any deployed models with traffic.")
