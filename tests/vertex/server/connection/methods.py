"""The methods of Google's services, as their client libraries know them.

The libraries ship neither servers nor descriptions of services, but every transport asks its channel for a stub with
the path, the writer of the request and the reader of the answer: a channel that takes note of these learns them all.
"""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import grpc
from google.longrunning import operations_pb2
from google.protobuf import message_factory

# Where the client libraries have their services: the package of each, and the class of its transport.
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
    """One method of a service: its path, how a request is read and how an answer is written."""

    path: str
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]

    @property
    def name(self) -> str:
        """Return Service/Method."""
        _, service, method = self.path.split("/")
        return f"{service.rpartition('.')[2]}/{method}"


def methods_of(service: str) -> list[Method]:
    """Return all methods of a service that take one message and answer with one."""
    if service == "Operations":
        return _operations()
    package, name = _LIBRARIES[service]
    recorder = _Recorder()
    transport = getattr(importlib.import_module(f"{package}.transports"), name)(channel=recorder)
    # Its stubs are made by a channel around the given one, which calls through.
    transport._logged_channel, transport._stubs = recorder, {}
    for attribute, member in vars(type(transport)).items():
        if isinstance(member, property) and attribute not in ("operations_client", "grpc_channel", "kind"):
            getattr(transport, attribute)
    return [
        Method(path, _reader(serializer), _writer(deserializer))
        for path, (serializer, deserializer) in recorder.calls.items()
        # Methods that every service has (operations, locations, rights) are not its own.
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
    """Return what reads the messages that a client writes so: a method bound to the message's class, or of it."""
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
    """Return the class of a plain protobuf message whose SerializeToString this is."""
    return serializer.__objclass__


def _never_called(*_: Any, **__: Any) -> None:
    """Stand for a stub."""


class _Recorder(grpc.Channel):
    """A channel that takes note of the methods that it is asked for."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[Any, Any]] = {}

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        self.calls[method] = request_serializer, response_deserializer
        return _never_called

    def unary_stream(self, *_: Any, **__: Any) -> Any:
        """Streams are left out."""
        return _never_called

    stream_unary = stream_stream = subscribe = unsubscribe = unary_stream

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> "_Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
