"""gRPC service of the Open Inference Protocol (github.com/kserve/open-inference-protocol)."""

import contextlib
import math
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.process.installation import version
from qcnn.serving.errors import RequestError, bad_request
from qcnn.serving.grpc_messages import Method, message_class, values_of
from qcnn.serving.repository import LoadedVersion, Repository
from qcnn.serving.request_predictions import Predictions
from qcnn.serving.signature import Signature, TensorSpec
from qcnn.serving.v2 import PLATFORM, SERVER, as_bytes, check_tensor, from_bytes

SERVICE = "inference.GRPCInferenceService"
# Field of the values of each data type in InferTensorContents. FP16 has only binary data.
_CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def methods(repository: Repository, predictions: Predictions) -> dict[str, dict[str, Method]]:
    """Return the methods of the service by name.

    Args:
        repository: Served models.
        predictions: Predictions for the rows of requests.
    """

    def version_of(name: str, number: str) -> LoadedVersion:
        return repository.model(name).resolve(number or None)

    async def server_live(_: Any) -> Any:
        return message_class("inference", "ServerLiveResponse")(live=True)

    async def server_ready(_: Any) -> Any:
        return message_class("inference", "ServerReadyResponse")(ready=repository.is_ready)

    async def model_ready(request: Any) -> Any:
        model = repository.model(request.name)
        with contextlib.suppress(RequestError):
            model.resolve(request.version or None)
            return message_class("inference", "ModelReadyResponse")(ready=True)
        return message_class("inference", "ModelReadyResponse")()

    async def server_metadata(_: Any) -> Any:
        return message_class("inference", "ServerMetadataResponse")(name=SERVER, version=version())

    async def model_metadata(request: Any) -> Any:
        loaded = version_of(request.name, request.version)
        versions = map(str, repository.model(request.name).versions)
        response = message_class("inference", "ModelMetadataResponse")(
            name=request.name, versions=versions, platform=PLATFORM
        )
        for field, specs in ((response.inputs, loaded.signature.inputs), (response.outputs, loaded.signature.outputs)):
            for spec in specs:
                field.add(name=spec.name, datatype=spec.datatype, shape=spec.shape)
        return response

    async def model_infer(request: Any) -> Any:
        loaded = version_of(request.model_name, request.model_version)
        requested = loaded.signature.requested_outputs([output.name for output in request.outputs], "outputs")
        answers = await predictions.answers(request.model_name, loaded, _inputs(request, loaded.signature))
        response = message_class("inference", "ModelInferResponse")(
            model_name=request.model_name, model_version=str(loaded.number), id=request.id
        )
        specs = {spec.name: spec for spec in loaded.signature.outputs}
        for name in requested:
            array, spec = answers[name], specs[name]
            output = response.outputs.add(name=name, datatype=spec.datatype, shape=array.shape)
            if request.raw_input_contents:
                response.raw_output_contents.append(as_bytes(array, spec))
                continue
            getattr(output.contents, _CONTENTS[spec.datatype]).extend(values_of(array, spec.datatype))
        return response

    def method(name: str, function: Callable[[Any], Awaitable[Any]]) -> Method:
        return message_class("inference", f"{name}Request"), function

    return {
        SERVICE: {
            "ServerLive": method("ServerLive", server_live),
            "ServerReady": method("ServerReady", server_ready),
            "ModelReady": method("ModelReady", model_ready),
            "ServerMetadata": method("ServerMetadata", server_metadata),
            "ModelMetadata": method("ModelMetadata", model_metadata),
            "ModelInfer": method("ModelInfer", model_infer),
        }
    }


def _inputs(request: Any, signature: Signature) -> dict[str, npt.NDArray[Any]]:
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise bad_request(f"raw_input_contents: must be of all {len(request.inputs)} inputs. Given: {len(raw)}")
    inputs: dict[str, npt.NDArray[Any]] = {}
    for number, tensor in enumerate(request.inputs):
        spec = signature.input(tensor.name)
        if spec.name in inputs:
            raise bad_request(f"inputs: must have {spec.name} once. Given: twice")
        inputs[spec.name] = _read_tensor(tensor, spec, raw[number] if raw else None)
    return inputs


def _read_tensor(tensor: Any, spec: TensorSpec, raw: bytes | None) -> npt.NDArray[Any]:
    shape = [int(size) for size in tensor.shape]
    kind = check_tensor(tensor.datatype, shape, spec)
    if raw is not None:
        return from_bytes(raw, kind, shape, spec)
    values = getattr(tensor.contents, _CONTENTS.get(tensor.datatype, "bytes_contents"))
    if len(values) != math.prod(shape):
        given = f"{len(values)} of {tensor.datatype}"
        raise bad_request(f"{spec.name}: contents must have {math.prod(shape)} numbers, as its shape. Given: {given}")
    return np.array(values, np.float64).reshape(shape)
