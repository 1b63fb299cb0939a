"""Open Inference Protocol (github.com/kserve/open-inference-protocol) with the binary tensor data extension.

The extension is that of Triton (docs/protocol/extension_binary_data.md): the JSON object of a request or an answer is
followed by the data of its tensors, in their order. A header has the size of the JSON object.
"""

import dataclasses
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.errors import format_value
from qcnn.serving.errors import bad_request
from qcnn.serving.json_body import parse_object, to_body
from qcnn.serving.signature import Signature, TensorSpec

JSON_SIZE = "inference-header-content-length"
EXTENSIONS = ("binary_tensor_data",)
# Names of the server and of the platform of its models in metadata.
SERVER = PLATFORM = "qcnn"

_INTEGERS = {f"{sign}INT{bits}": f"<{sign.lower() or 'i'}{bits // 8}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
_NUMBERS = {**_INTEGERS, "BOOL": "|b1", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
# Data types that an input of a type accepts. Integers are numbers, too.
_ACCEPTED = {"INT32": (*_INTEGERS, "BOOL"), "FP32": tuple(_NUMBERS), "FP64": tuple(_NUMBERS)}


@dataclasses.dataclass(frozen=True)
class InferRequest:
    """Content of an infer request.

    Attributes:
        inputs: Arrays of the inputs by name.
        id: Identifier that the answer repeats, or None.
        outputs: Names of the requested outputs in their order, and whether each is binary.
    """

    inputs: Mapping[str, npt.NDArray[Any]]
    id: str | None
    outputs: Mapping[str, bool]


def parse_infer(body: bytes, json_size: str | None, signature: Signature) -> InferRequest:
    """Return the content of an infer request.

    Args:
        body: Body of the request.
        json_size: Value of the header `JSON_SIZE`, or None without it.
        signature: Signature of the model.

    Raises:
        RequestError: If the request is invalid.
    """
    size = len(body)
    if json_size is not None:
        if not (json_size.isascii() and json_size.isdecimal()) or int(json_size[:20]) > len(body):
            raise bad_request(f"{JSON_SIZE}: must be at most {len(body)} bytes. Given: {format_value(json_size)}")
        size = int(json_size)
    content, rest = parse_object(body[:size]), memoryview(body)[size:]
    identifier = content.get("id")
    if not isinstance(identifier, str | None):
        raise bad_request(f"id: must be text. Given: {format_value(identifier)}")
    inputs: dict[str, npt.NDArray[Any]] = {}
    for tensor in _objects(content.get("inputs"), "inputs"):
        spec = signature.input(tensor.get("name"))
        if spec.name in inputs:
            raise bad_request(f"inputs: must have {spec.name} once. Given: twice")
        inputs[spec.name], rest = _tensor(tensor, spec, rest)
    if len(rest):
        raise bad_request(f"body: must end after the data of the inputs. Given: {len(rest)} more bytes")
    return InferRequest(inputs, identifier, _requested(content, signature))


def _requested(content: Mapping[str, Any], signature: Signature) -> dict[str, bool]:
    is_binary = _parameters(content).get("binary_data_output", False) is True
    outputs = _objects(content["outputs"], "outputs") if content.get("outputs") else []
    names = signature.requested_outputs([output.get("name") for output in outputs], "outputs")
    binary = {output["name"]: _parameters(output).get("binary_data", is_binary) is True for output in outputs}
    return {name: binary.get(name, is_binary) for name in names}


def _tensor(of: Mapping[str, Any], spec: TensorSpec, rest: memoryview) -> tuple[npt.NDArray[Any], memoryview]:
    """Return an input as an array of its shape, and the data of later inputs."""
    shape: Any = of.get("shape")
    kind = check_tensor(of.get("datatype"), shape, spec)
    count = math.prod(shape)
    size = _parameters(of).get("binary_data_size")
    if size is not None:
        if type(size) is not int or not 0 <= size <= len(rest):
            given = format_value(size)
            raise bad_request(f"{spec.name}: binary_data_size must be that of its shape. Given: {given}")
        return from_bytes(rest[:size], kind, shape, spec), rest[size:]
    if "data" not in of:
        raise bad_request(f"{spec.name}: must have data. Given: none")
    data = _flat(of["data"])
    is_number = all(isinstance(value, int | float) for value in data)
    if not is_number or (spec.datatype == "INT32" and any(isinstance(value, float) for value in data)):
        what = "whole numbers" if spec.datatype == "INT32" else "numbers"
        raise bad_request(f"{spec.name}: data must be {what}. Given: {format_value(of['data'])}")
    if len(data) != count:
        raise bad_request(f"{spec.name}: data must have {count} numbers, as its shape. Given: {len(data)}")
    try:
        return np.array(data, np.float64).reshape(shape), rest
    except OverflowError:
        raise bad_request(f"{spec.name}: data must be finite numbers. Given: beyond the range of FP64") from None


def check_tensor(datatype: Any, shape: Any, spec: TensorSpec) -> np.dtype[Any]:
    """Check the data type and the shape of a tensor, and return its type in binary data.

    Args:
        datatype: Name of the data type.
        shape: Sizes of the dimensions.
        spec: Input of the model.

    Raises:
        RequestError: If the input does not accept them.
    """
    accepted = _ACCEPTED[spec.datatype]
    if datatype not in accepted:
        raise bad_request(
            f"{spec.name}: datatype must be one of {', '.join(accepted)}. Given: {format_value(datatype)}"
        )
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise bad_request(f"{spec.name}: shape must be a list of sizes. Given: {format_value(shape)}")
    if len(shape) != len(spec.shape) or shape[1:] != [*spec.shape[1:]]:
        expected = ["rows", *spec.shape[1:]]
        raise bad_request(f"{spec.name}: shape must be [{', '.join(map(str, expected))}]. Given: {format_value(shape)}")
    return np.dtype(_NUMBERS[str(datatype)])


def from_bytes(
    data: memoryview | bytes, kind: np.dtype[Any], shape: Sequence[int], spec: TensorSpec
) -> npt.NDArray[Any]:
    """Return the array of binary data.

    Args:
        data: Numbers in row-major order.
        kind: Their type, of `check_tensor`.
        shape: Sizes of the dimensions.
        spec: Input of the model.

    Raises:
        RequestError: If the size is not that of the shape.
    """
    if len(data) != math.prod(shape) * kind.itemsize:
        raise bad_request(f"{spec.name}: binary_data_size must be that of its shape. Given: {len(data)}")
    return np.frombuffer(data, kind).reshape(shape)


def _flat(data: Any) -> list[Any]:
    """Return flat or nested data as a list."""
    if not isinstance(data, list):
        return [data]
    # Rows of a matrix, of which each is a list.
    while data and isinstance(data[0], list):
        if not all(isinstance(each, list) for each in data):
            return [None]
        data = [value for each in data for value in each]
    return list(data)


def _parameters(of: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = of.get("parameters", {})
    return parameters if isinstance(parameters, dict) else {}


def _objects(values: Any, name: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(values, list) or not values or not all(isinstance(each, dict) for each in values):
        raise bad_request(f"{name}: must be a list of objects. Given: {format_value(values)}")
    return values


def format_answer(
    name: str, version: int, request: InferRequest, answers: Mapping[str, npt.NDArray[Any]], signature: Signature
) -> tuple[bytes, int | None]:
    """Return the body of the answer to an infer request, and the size of its JSON object if binary data follow.

    Args:
        name: Name of the model.
        version: Version that predicted.
        request: Request.
        answers: Outputs by name.
        signature: Signature of the model.
    """
    specs, outputs, parts = {spec.name: spec for spec in signature.outputs}, [], []
    for output, is_binary in request.outputs.items():
        array, spec = answers[output], specs[output]
        described: dict[str, Any] = {"name": output, "datatype": spec.datatype, "shape": [*array.shape]}
        if is_binary:
            parts.append(as_bytes(array, spec))
            described["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            described["data"] = array.ravel().tolist()
        outputs.append(described)
    identifier = {} if request.id is None else {"id": request.id}
    content = to_body({"model_name": name, "model_version": str(version), **identifier, "outputs": outputs})
    return b"".join([content, *parts]), len(content) if parts else None


def as_bytes(array: npt.NDArray[Any], spec: TensorSpec) -> bytes:
    """Return the binary data of an output."""
    if spec.datatype != "BYTES":
        return array.astype(_NUMBERS[spec.datatype]).tobytes()
    texts = [str(text).encode() for text in array.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def format_metadata(name: str, versions: Iterable[int], signature: Signature) -> bytes:
    """Return the body of the metadata of a model."""
    return to_body(
        {
            "name": name,
            "versions": [str(version) for version in versions],
            "platform": PLATFORM,
            "inputs": [_described(spec) for spec in signature.inputs],
            "outputs": [_described(spec) for spec in signature.outputs],
        }
    )


def format_server(version: str) -> bytes:
    """Return the body of the metadata of the server, of the version of this package."""
    return to_body({"name": SERVER, "version": version, "extensions": [*EXTENSIONS]})


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [*spec.shape]}
