"""Methods of Google's services, extracted from their client libraries.

The libraries contain neither servers nor service descriptors. But every transport requests a stub from its channel
with the path, the request serializer and the response deserializer, so a recording channel receives all of them.
"""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import grpc
from google.longrunning import operations_pb2
from google.protobuf import message_factory

# Package and transport class of each service in the client libraries.
_LIBRARIES = {
    "JobService": ("google.cloud.aiplatform_v1.services.job_service", "JobServiceGrpcTransport"),
    "PipelineService": ("google.cloud.aiplatform_v1.services.pipeline_service", "PipelineServiceGrpcTransport"),
    "ScheduleService": ("google.cloud.aiplatform_v1.services.schedule_service", "ScheduleServiceGrpcTransport"),
    "MetadataService": ("google.cloud.aiplatform_v1.services.metadata_service", "MetadataServiceGrpcTransport"),
    "ModelService": ("google.cloud.aiplatform_v1.services.model_service", "ModelServiceGrpcTransport"),
    "EndpointService": ("google.cloud.aiplatform_v1.services.endpoint_service", "EndpointServiceGrpcTransport"),
    "PredictionService": ("google.cloud.aiplatform_v1.services.prediction_service", "PredictionServiceGrpcTransport"),
    "Projects": ("google.cloud.resourcemanager_v3.services.projects", "ProjectsGrpcTransport"),
    "LoggingServiceV2": ("google.cloud.logging_v2.services.logging_service_v2", "LoggingServiceV2GrpcTransport"),
}


@dataclasses.dataclass(frozen=True)
class Method:
    """Method of a service: its path, request deserializer and response serializer."""

    path: str
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]

    @property
    def name(self) -> str:
        """Return Service/Method."""
        _, service, method = self.path.split("/")
        return f"{service.rpartition('.')[2]}/{method}"


def methods_of(service: str) -> list[Method]:
    """Return the unary methods of a service."""
    if service == "Operations":
        return _operations()
    package, name = _LIBRARIES[service]
    recorder = _Recorder()
    transport = getattr(importlib.import_module(f"{package}.transports"), name)(channel=recorder)
    # The transport would create its stubs on a channel that wraps the recorder and logs.
    transport._logged_channel, transport._stubs = recorder, {}
    for attribute, member in vars(type(transport)).items():
        if isinstance(member, property) and attribute not in ("operations_client", "grpc_channel", "kind"):
            getattr(transport, attribute)
    return [
        Method(path, _reader(serializer), _writer(deserializer))
        for path, (serializer, deserializer) in recorder.calls.items()
        # Mixin methods (operations, locations, IAM) belong to other services.
        if f".{service}/" in path
    ]


def _operations() -> list[Method]:
    service = operations_pb2.DESCRIPTOR.services_by_name["Operations"]
    return [
        Method(
            f"/{service.full_name}/{method.name}",
            message_factory.GetMessageClass(method.input_type).FromString,
            lambda answer: bytes(answer.SerializeToString()),
        )
        for method in service.methods
    ]


def _reader(serializer: Any) -> Callable[[bytes], Any]:
    """Return the deserializer for a client's serializer, which is a method of the message class or bound to it."""
    owner = getattr(serializer, "__self__", None)
    if owner is not None:
        return owner.deserialize  # type: ignore[no-any-return]
    return _class_of(serializer).FromString  # type: ignore[no-any-return]


def _writer(deserializer: Any) -> Callable[[Any], bytes]:
    owner = deserializer.__self__
    if hasattr(owner, "serialize"):
        return owner.serialize  # type: ignore[no-any-return]
    return lambda answer: bytes(answer.SerializeToString())


def _class_of(serializer: Any) -> Any:
    """Return the protobuf message class of an unbound SerializeToString."""
    return serializer.__objclass__


def _never_called(*_: Any, **__: Any) -> None:
    """Placeholder for a stub."""


class _Recorder(grpc.Channel):
    """Channel that records the methods for which stubs are requested."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[Any, Any]] = {}

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        self.calls[method] = request_serializer, response_deserializer
        return _never_called

    def unary_stream(self, *_: Any, **__: Any) -> Any:
        """Return a placeholder: streaming methods are not recorded."""
        return _never_called

    stream_unary = stream_stream = subscribe = unsubscribe = unary_stream

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def __enter__(self) -> "_Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
