"""Messages of the gRPC services of both protocols.

The fields that this server reads or writes, with the names and numbers of the published definitions. They are built
here, because the published Python modules of TensorFlow Serving load TensorFlow. protobuf skips fields that are not
listed. The names of messages are not part of a request, except those in `Any`.

Sources: tensorflow/serving (tensorflow_serving/apis), tensorflow/tensorflow (tensorflow/core) and
kserve/open-inference-protocol (specification/protocol/open_inference_grpc.proto).
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import numpy.typing as npt
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

# Method of a service, with the class of its requests.
Method: TypeAlias = tuple[Any, Callable[[Any], Awaitable[Any]]]
# Number and type of each field by name.
_Fields: TypeAlias = Mapping[str, str]

_TENSORFLOW: Mapping[str, _Fields] = {
    "Dimension": {"size": "1 int64"},
    "TensorShapeProto": {"dim": "2 repeated Dimension", "unknown_rank": "3 bool"},
    "TensorProto": {
        "dtype": "1 int32",
        "tensor_shape": "2 TensorShapeProto",
        "tensor_content": "4 bytes",
        "half_val": "13 repeated int32",
        "float_val": "5 repeated float",
        "double_val": "6 repeated double",
        "int_val": "7 repeated int32",
        "string_val": "8 repeated bytes",
        "int64_val": "10 repeated int64",
        "bool_val": "11 repeated bool",
        "uint32_val": "16 repeated uint32",
        "uint64_val": "17 repeated uint64",
    },
    "TensorInfo": {"name": "1 string", "dtype": "2 int32", "tensor_shape": "3 TensorShapeProto"},
    "SignatureDef": {"inputs": "1 map TensorInfo", "outputs": "2 map TensorInfo", "method_name": "3 string"},
    "ModelSpec": {
        "name": "1 string",
        "version": "2 google.protobuf.Int64Value",
        "version_label": "4 string",
        "signature_name": "3 string",
    },
    "PredictRequest": {
        "model_spec": "1 ModelSpec",
        "inputs": "2 map TensorProto",
        "output_filter": "3 repeated string",
    },
    "PredictResponse": {"outputs": "1 map TensorProto", "model_spec": "2 ModelSpec"},
    "GetModelMetadataRequest": {"model_spec": "1 ModelSpec", "metadata_field": "2 repeated string"},
    "GetModelMetadataResponse": {
        "model_spec": "1 ModelSpec",
        "metadata": "2 map google.protobuf.Any",
    },
    "SignatureDefMap": {"signature_def": "1 map SignatureDef"},
    "GetModelStatusRequest": {"model_spec": "1 ModelSpec"},
    "StatusProto": {"error_code": "1 int32", "error_message": "2 string"},
    "ModelVersionStatus": {"version": "1 int64", "state": "2 int32", "status": "3 StatusProto"},
    "GetModelStatusResponse": {"model_version_status": "1 repeated ModelVersionStatus"},
}
_INFERENCE: Mapping[str, _Fields] = {
    "ServerLiveRequest": {},
    "ServerLiveResponse": {"live": "1 bool"},
    "ServerReadyRequest": {},
    "ServerReadyResponse": {"ready": "1 bool"},
    "ModelReadyRequest": {"name": "1 string", "version": "2 string"},
    "ModelReadyResponse": {"ready": "1 bool"},
    "ServerMetadataRequest": {},
    "ServerMetadataResponse": {"name": "1 string", "version": "2 string", "extensions": "3 repeated string"},
    "ModelMetadataRequest": {"name": "1 string", "version": "2 string"},
    "TensorMetadata": {"name": "1 string", "datatype": "2 string", "shape": "3 repeated int64"},
    "ModelMetadataResponse": {
        "name": "1 string",
        "versions": "2 repeated string",
        "platform": "3 string",
        "inputs": "4 repeated TensorMetadata",
        "outputs": "5 repeated TensorMetadata",
    },
    "InferTensorContents": {
        "bool_contents": "1 repeated bool",
        "int_contents": "2 repeated int32",
        "int64_contents": "3 repeated int64",
        "uint_contents": "4 repeated uint32",
        "uint64_contents": "5 repeated uint64",
        "fp32_contents": "6 repeated float",
        "fp64_contents": "7 repeated double",
        "bytes_contents": "8 repeated bytes",
    },
    "Tensor": {
        "name": "1 string",
        "datatype": "2 string",
        "shape": "3 repeated int64",
        "contents": "5 InferTensorContents",
    },
    "RequestedOutput": {"name": "1 string"},
    "ModelInferRequest": {
        "model_name": "1 string",
        "model_version": "2 string",
        "id": "3 string",
        "inputs": "5 repeated Tensor",
        "outputs": "6 repeated RequestedOutput",
        "raw_input_contents": "7 repeated bytes",
    },
    "ModelInferResponse": {
        "model_name": "1 string",
        "model_version": "2 string",
        "id": "3 string",
        "outputs": "5 repeated Tensor",
        "raw_output_contents": "6 repeated bytes",
    },
}
_PACKAGES = {"tensorflow": _TENSORFLOW, "inference": _INFERENCE}
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("bool", "bytes", "double", "float", "int32", "int64", "string", "uint32", "uint64")


@functools.cache
def message_class(package: str, name: str) -> Any:
    """Return the class of a message.

    Args:
        package: `tensorflow` or `inference`.
        name: Name of the message in the package.
    """
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{package}.{name}"))


def values_of(array: npt.NDArray[Any], datatype: str) -> list[Any]:
    """Return an output as the values of a repeated field.

    Args:
        array: Output of any shape.
        datatype: Its data type in the Open Inference Protocol.
    """
    values: list[Any] = array.ravel().tolist()
    return [text.encode() for text in values] if datatype == "BYTES" else values


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    # A separate pool, because TensorFlow may have registered messages of the same names.
    pool = descriptor_pool.DescriptorPool()
    for library in (any_pb2, wrappers_pb2):
        pool.AddSerializedFile(library.DESCRIPTOR.serialized_pb)
    for package, messages in _PACKAGES.items():
        file = descriptor_pb2.FileDescriptorProto(
            name=f"qcnn/{package}.proto",
            package=package,
            syntax="proto3",
            dependency=[any_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name],
        )
        for name, fields in messages.items():
            _add_message(file, package, name, fields)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add_message(file: Any, package: str, name: str, fields: _Fields) -> None:
    message = file.message_type.add(name=name)
    for field, definition in fields.items():
        number, *kind, type_name = definition.split()
        added = message.field.add(name=field, number=int(number), label=_FIELD.LABEL_OPTIONAL)
        if kind:
            added.label = _FIELD.LABEL_REPEATED
        if kind == ["map"]:
            entry = message.nested_type.add(name=f"{field.title().replace('_', '')}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
            _set_type(entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL), package, type_name)
            added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{name}.{entry.name}"
        else:
            _set_type(added, package, type_name)


def _set_type(field: Any, package: str, type_name: str) -> None:
    if type_name in _SCALARS:
        field.type = getattr(_FIELD, f"TYPE_{type_name.upper()}")
        return
    field.type = _FIELD.TYPE_MESSAGE
    field.type_name = f".{type_name}" if type_name.startswith("google.") else f".{package}.{type_name}"
