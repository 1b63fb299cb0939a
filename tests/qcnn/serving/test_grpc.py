"""Answers of gRPC to the published clients of both protocols, and status codes of invalid requests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qcnn
from tests.qcnn.serving.conftest import CLASSES, EXCITATIONS
from tests.qcnn.serving.server_process import ServerProcess, running_server

# These clients conflict with the oldest supported releases and with TensorFlow Quantum. tensorflow_serving is missing
# there; tritonclient.grpc is not, but its import fails with an old release of grpc.
pytest.importorskip("tensorflow_serving", reason="is in the group dev")
grpc = pytest.importorskip("grpc")
triton = pytest.importorskip("tritonclient.grpc", reason="is in the group dev", exc_type=ImportError)

QUBITS, ANGLES = np.array([0, 3, 1], np.int32), np.array([0.1, -2, 1.5], np.float32)
ROWS = np.array([[0.1, 0.2, 0.3, 0.4], [1.0, 1.1, 1.2, 1.3]])


def _address(server: ServerProcess) -> str:
    found = re.search(r"serving gRPC on (\S+)", "".join(server.lines))
    assert found
    return found[1]


@pytest.fixture(scope="module")
def channel(server: ServerProcess) -> Iterator[Any]:
    with grpc.insecure_channel(_address(server)) as opened:
        yield opened


@pytest.fixture(scope="module")
def triton_client(server: ServerProcess) -> Iterator[Any]:
    with triton.InferenceServerClient(_address(server)) as opened:
        yield opened


def _request(model: str, **inputs: Any) -> Any:
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    for name, values in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    return request


def _stub(channel: Any) -> Any:
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def _outputs(channel: Any, request: Any) -> dict[str, Any]:
    import tensorflow as tf

    response = _stub(channel).Predict(request)
    assert (response.model_spec.name, response.model_spec.version.value) == (request.model_spec.name, 1)
    return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}


def test_tensorflow_serving_client_predicts_to_the_bit(channel: Any, rows_model: Path, classes_model: Path) -> None:
    outputs = _outputs(channel, _request("model", qubit=QUBITS, angle=ANGLES))
    assert outputs["prediction"].tolist() == qcnn.load(EXCITATIONS).predict(qubit=QUBITS, angle=ANGLES).tolist()
    outputs = _outputs(channel, _request("rows", features=ROWS))
    assert outputs["prediction"].tolist() == qcnn.load(rows_model).predict(ROWS).tolist()
    probabilities = qcnn.load(classes_model).predict(ROWS)
    outputs = _outputs(channel, _request("classes", features=ROWS))
    assert outputs["probabilities"].tolist() == probabilities.tolist()
    assert [name.decode() for name in outputs["prediction"]] == [CLASSES[i] for i in probabilities.argmax(axis=1)]


def test_version_output_filter_and_one_value_for_all(channel: Any) -> None:
    request = _request("model", qubit=QUBITS, angle=ANGLES)
    request.model_spec.version.value = 1
    request.output_filter.append("prediction")
    # The last value stands for all later ones.
    del request.inputs["angle"].float_val[:]
    request.inputs["angle"].tensor_content = b""
    request.inputs["angle"].float_val.append(0.25)
    expected = qcnn.load(EXCITATIONS).predict(qubit=QUBITS, angle=[0.25] * 3).tolist()
    assert _outputs(channel, request)["prediction"].tolist() == expected


def test_metadata_and_status_of_tensorflow_serving(channel: Any) -> None:
    from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_service_pb2_grpc

    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "classes"
    content = get_model_metadata_pb2.SignatureDefMap()
    assert _stub(channel).GetModelMetadata(request).metadata["signature_def"].Unpack(content)
    signature = content.signature_def["serving_default"]
    assert [each.size for each in signature.inputs["features"].tensor_shape.dim] == [-1, 4]
    assert {name: each.dtype for name, each in signature.outputs.items()} == {"prediction": 7, "probabilities": 2}
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "model"
    (found,) = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status).model_version_status
    assert (found.version, found.state, found.status.error_code) == (1, found.AVAILABLE, 0)


@pytest.mark.parametrize(
    ("change", "code", "line"),
    [
        ({"name": "other"}, "NOT_FOUND", "model: must be one of classes, model, rows. Given: 'other'"),
        ({"version": 7}, "NOT_FOUND", "version: model model must have it: 1. Given: '7'"),
        ({"label": "stable"}, "NOT_FOUND", "label: model model must have it: none. Given: 'stable'"),
        ({"signature": "other"}, "INVALID_ARGUMENT", "signature_name: must be serving_default. Given: 'other'"),
        (
            {"angle": np.array([np.nan] * 3, np.float32)},
            "INVALID_ARGUMENT",
            "angle: row 1 must be a finite number. Given: nan",
        ),
        ({"angle": np.array([1.0], np.float32)}, "INVALID_ARGUMENT", "inputs: must have the same number of rows"),
        ({"angle": ["a", "b", "c"]}, "INVALID_ARGUMENT", "angle: datatype must be one of"),
        ({"angle": np.zeros((3, 1), np.float32)}, "INVALID_ARGUMENT", "angle: shape must be [rows]. Given: [3, 1]"),
        (
            {"qubit": np.array([0, 99, 1], np.int32)},
            "INVALID_ARGUMENT",
            "qubit: row 2 must be a whole number, 0 to 3. Given: 99",
        ),
        ({"other": np.array([1], np.float32)}, "INVALID_ARGUMENT", "inputs: must be qubit, angle. Given: 'other'"),
        ({"rows": 10**12}, "INVALID_ARGUMENT", "angle: must have the values of its shape, at most 1000 rows"),
        ({"filter": "other"}, "INVALID_ARGUMENT", "output_filter: must be of prediction. Given: 'other'"),
        ({"angle": np.zeros(300_000, np.float32)}, "RESOURCE_EXHAUSTED", ""),
    ],
)
def test_invalid_request_is_one_line(channel: Any, change: dict[str, Any], code: str, line: str) -> None:
    inputs = {name: value for name, value in change.items() if name in ("angle", "other", "qubit")}
    request = _request(change.get("name", "model"), **{"qubit": QUBITS, "angle": ANGLES, **inputs})
    if "version" in change:
        request.model_spec.version.value = change["version"]
    request.model_spec.signature_name = change.get("signature", "")
    if "label" in change:
        request.model_spec.version_label = change["label"]
    if "filter" in change:
        request.output_filter.append(change["filter"])
    if "rows" in change:
        request.inputs["angle"].tensor_content = b""
        request.inputs["angle"].float_val.append(1.0)
        request.inputs["angle"].tensor_shape.dim[0].size = change["rows"]
    with pytest.raises(grpc.RpcError) as caught:
        _stub(channel).Predict(request)
    assert (caught.value.code().name, caught.value.details().startswith(line)) == (code, True), caught.value.details()


def test_bytes_that_are_no_message_and_other_methods(channel: Any) -> None:
    for method, code in (("Predict", "INVALID_ARGUMENT"), ("Classify", "UNIMPLEMENTED")):
        call = channel.unary_unary(f"/tensorflow.serving.PredictionService/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff")
        assert caught.value.code().name == code


def _triton_inputs(**arrays: Any) -> list[Any]:
    inputs = []
    for name, array in arrays.items():
        datatype = {"int32": "INT32", "int64": "INT64", "float32": "FP32", "float64": "FP64"}[array.dtype.name]
        inputs.append(triton.InferInput(name, [*array.shape], datatype))
        inputs[-1].set_data_from_numpy(array)
    return inputs


def test_triton_client_predicts_to_the_bit(triton_client: Any, classes_model: Path) -> None:
    assert triton_client.is_server_live()
    assert triton_client.is_server_ready()
    assert triton_client.is_model_ready("classes")
    assert not triton_client.is_model_ready("classes", "7")
    assert triton_client.get_server_metadata().name == "qcnn"
    metadata = triton_client.get_model_metadata("classes")
    assert [(each.name, each.datatype, [*each.shape]) for each in metadata.inputs] == [("features", "FP32", [-1, 4])]
    result = triton_client.infer("model", _triton_inputs(qubit=QUBITS.astype(np.int64), angle=ANGLES), request_id="a")
    assert result.get_response().id == "a"
    assert result.as_numpy("prediction").tolist() == qcnn.load(EXCITATIONS).predict(qubit=QUBITS, angle=ANGLES).tolist()
    probabilities = qcnn.load(classes_model).predict(ROWS)
    result = triton_client.infer("classes", _triton_inputs(features=ROWS))
    assert result.as_numpy("probabilities").tolist() == probabilities.tolist()
    assert [name.decode() for name in result.as_numpy("prediction")] == [CLASSES[i] for i in probabilities.argmax(1)]
    requested = [triton.InferRequestedOutput("probabilities")]
    assert (
        len(triton_client.infer("classes", _triton_inputs(features=ROWS), outputs=requested).get_response().outputs)
        == 1
    )


def test_typed_contents_are_answered_as_typed_contents(channel: Any, rows_model: Path) -> None:
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    request = service_pb2.ModelInferRequest(model_name="rows")
    features = request.inputs.add(name="features", datatype="FP64", shape=ROWS.shape)
    features.contents.fp64_contents.extend(ROWS.ravel())
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    (output,) = stub.ModelInfer(request).outputs
    assert [*output.contents.fp64_contents] == qcnn.load(rows_model).predict(ROWS).tolist()
    features.contents.fp64_contents.append(1.0)
    with pytest.raises(grpc.RpcError, match=r"features: contents must have 8 numbers, as its shape. Given: 9 of FP64"):
        stub.ModelInfer(request)


def test_calls_are_counted_by_protocol(server: ServerProcess, channel: Any, triton_client: Any) -> None:
    _outputs(channel, _request("rows", features=ROWS))
    triton_client.infer("rows", _triton_inputs(features=ROWS))
    with server.client() as client:
        lines = client.get("/metrics").text
    for protocol in ("v1-grpc", "v2-grpc"):
        assert f'qcnn_serving_requests_total{{code="OK",model="rows",protocol="{protocol}"}}' in lines


def test_processes_share_port_and_drain() -> None:
    with running_server(str(EXCITATIONS), "--grpc-port", "0", "--processes", "2") as running:
        with grpc.insecure_channel(_address(running)) as opened:
            request = _request("model", qubit=QUBITS, angle=ANGLES)
            assert len(_stub(opened).Predict(request, wait_for_ready=True, timeout=60).outputs) == 1
        code, rest = running.stop()
        assert code == 0, rest


def test_used_port_is_one_line(server: ServerProcess) -> None:
    port = _address(server).rpartition(":")[2]
    line = rf"grpc-port: must be a free port .* Given: 127.0.0.1:{port}"
    with pytest.raises(AssertionError, match=line), running_server(str(EXCITATIONS), "--grpc-port", port):
        pass
