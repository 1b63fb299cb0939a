"""gRPC services PredictionService and ModelService of TensorFlow Serving (tensorflow_serving/apis/*.proto)."""

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.errors import format_value
from qcnn.serving.errors import bad_request
from qcnn.serving.grpc_messages import Method, message_class, values_of
from qcnn.serving.repository import LoadedVersion, Repository
from qcnn.serving.request_predictions import Predictions
from qcnn.serving.signature import TensorSpec
from qcnn.serving.v1 import SIGNATURE
from qcnn.serving.v2 import check_tensor, from_bytes

PREDICTION_SERVICE, MODEL_SERVICE = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"
_METADATA = "signature_def"
# State AVAILABLE of get_model_status.proto.
_AVAILABLE = 30
# Number (types.proto), data type of the Open Inference Protocol, and field of the values of each data type.
_TYPES = {
    1: ("FP32", "float_val"),
    2: ("FP64", "double_val"),
    3: ("INT32", "int_val"),
    4: ("UINT8", "int_val"),
    5: ("INT16", "int_val"),
    6: ("INT8", "int_val"),
    7: ("BYTES", "string_val"),
    9: ("INT64", "int64_val"),
    10: ("BOOL", "bool_val"),
    17: ("UINT16", "int_val"),
    22: ("UINT32", "uint32_val"),
    23: ("UINT64", "uint64_val"),
}
_NUMBERS = {datatype: number for number, (datatype, _) in _TYPES.items()}


def methods(repository: Repository, predictions: Predictions, max_rows: int) -> dict[str, dict[str, Method]]:
    """Return the methods of the services by name.

    Args:
        repository: Served models.
        predictions: Predictions for the rows of requests.
        max_rows: Maximum rows of a request.
    """

    def version_of(spec: Any) -> LoadedVersion:
        if spec.signature_name not in ("", SIGNATURE):
            raise bad_request(f"signature_name: must be {SIGNATURE}. Given: {format_value(spec.signature_name)}")
        version = str(spec.version.value) if spec.HasField("version") else None
        return repository.model(spec.name).resolve(version, spec.version_label or None)

    async def predict(request: Any) -> Any:
        loaded = version_of(request.model_spec)
        requested = loaded.signature.requested_outputs(request.output_filter, "output_filter")
        specs = {name: loaded.signature.input(name) for name in request.inputs}
        inputs = {name: _read_tensor(tensor, specs[name], max_rows) for name, tensor in request.inputs.items()}
        answers = await predictions.answers(request.model_spec.name, loaded, inputs)
        outputs = {spec.name: spec for spec in loaded.signature.outputs}
        response = message_class("tensorflow", "PredictResponse")()
        _set_spec(response.model_spec, request.model_spec.name, loaded.number)
        for name in requested:
            _write_tensor(response.outputs[name], answers[name], outputs[name])
        return response

    async def get_model_metadata(request: Any) -> Any:
        loaded = version_of(request.model_spec)
        if list(request.metadata_field) != [_METADATA]:
            given = ", ".join(request.metadata_field)[:100] or "none"
            raise bad_request(f"metadata_field: must be {_METADATA}. Given: {given}")
        content = message_class("tensorflow", "SignatureDefMap")()
        definition = content.signature_def[SIGNATURE]
        definition.method_name = "tensorflow/serving/predict"
        for field, specs in (
            (definition.inputs, loaded.signature.inputs),
            (definition.outputs, loaded.signature.outputs),
        ):
            for spec in specs:
                _write_shape(field[spec.name], spec.shape)
                field[spec.name].name, field[spec.name].dtype = spec.name, _NUMBERS[spec.datatype]
        response = message_class("tensorflow", "GetModelMetadataResponse")()
        _set_spec(response.model_spec, request.model_spec.name, loaded.number)
        response.metadata[_METADATA].type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
        response.metadata[_METADATA].value = content.SerializeToString()
        return response

    async def get_model_status(request: Any) -> Any:
        spec = request.model_spec
        one = spec.HasField("version") or spec.version_label
        versions = [version_of(spec).number] if one else repository.model(spec.name).versions
        response = message_class("tensorflow", "GetModelStatusResponse")()
        for version in versions:
            response.model_version_status.add(version=version, state=_AVAILABLE, status={})
        return response

    def method(name: str, function: Callable[[Any], Awaitable[Any]]) -> Method:
        return message_class("tensorflow", f"{name}Request"), function

    return {
        PREDICTION_SERVICE: {
            "Predict": method("Predict", predict),
            "GetModelMetadata": method("GetModelMetadata", get_model_metadata),
        },
        MODEL_SERVICE: {"GetModelStatus": method("GetModelStatus", get_model_status)},
    }


def _read_tensor(tensor: Any, spec: TensorSpec, max_rows: int) -> npt.NDArray[Any]:
    """Return a TensorProto as an array (tensorflow/python/framework/tensor_util.py, MakeNdarray)."""
    datatype, field = _TYPES.get(tensor.dtype, (f"data type {tensor.dtype}", ""))
    shape = [int(dimension.size) for dimension in tensor.tensor_shape.dim]
    kind = check_tensor(datatype, shape, spec)
    if tensor.tensor_content:
        return from_bytes(tensor.tensor_content, kind, shape, spec)
    values, count = np.array(getattr(tensor, field), kind), math.prod(shape)
    if len(values) > count or (count and not len(values)) or shape[0] > max_rows:
        raise bad_request(f"{spec.name}: must have the values of its shape, at most {max_rows} rows. Given: {shape}")
    # The last value may stand for all later ones.
    return np.pad(values, (0, count - len(values)), "edge" if len(values) else "constant").reshape(shape)


def _write_tensor(tensor: Any, array: npt.NDArray[Any], spec: TensorSpec) -> None:
    tensor.dtype = _NUMBERS[spec.datatype]
    _write_shape(tensor, array.shape)
    getattr(tensor, _TYPES[tensor.dtype][1]).extend(values_of(array, spec.datatype))


def _write_shape(of: Any, shape: Iterable[int]) -> None:
    of.tensor_shape.SetInParent()
    for size in shape:
        of.tensor_shape.dim.add(size=size)


def _set_spec(spec: Any, name: str, version: int) -> None:
    spec.name, spec.signature_name = name, SIGNATURE
    spec.version.value = version
