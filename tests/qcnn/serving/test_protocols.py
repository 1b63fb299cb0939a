"""Answers of both protocols to real clients, and lines for requests that are invalid."""

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import numpy.typing as npt
import pytest

import qcnn
from tests.qcnn.serving.conftest import CLASSES, EXCITATIONS
from tests.qcnn.serving.server_process import ServerProcess

triton = pytest.importorskip("tritonclient.http", reason="published for Linux only")

ROWS = [[0.1, 0.2, 0.3, 0.4], [1.0, 1.1, 1.2, 1.3], [0.5, 0.5, 0.5, 0.5]]
QUBITS, ANGLES = [0, 3, 1], [0.1, -2.0, 3.0]


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


@pytest.fixture
def triton_client(server: ServerProcess) -> Iterator[Any]:
    opened = triton.InferenceServerClient(urlsplit(server.url).netloc)
    yield opened
    opened.close()


def _excitations() -> npt.NDArray[np.float64]:
    return qcnn.load(EXCITATIONS).predict(qubit=QUBITS, angle=ANGLES)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"instances": [{"qubit": q, "angle": a} for q, a in zip(QUBITS, ANGLES, strict=True)]}, "predictions"),
        ({"inputs": {"qubit": QUBITS, "angle": ANGLES}}, "outputs"),
        ({"signature_name": "serving_default", "inputs": {"qubit": QUBITS, "angle": ANGLES}}, "outputs"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/models/model", "/v1/models/model/versions/1"])
def test_v1_predicts_excitations(client: httpx.Client, body: dict[str, Any], key: str, path: str) -> None:
    answer = client.post(f"{path}:predict", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {key: _excitations().tolist()}


@pytest.mark.parametrize("body", [{"instances": ROWS}, {"instances": [{"features": row} for row in ROWS]}])
def test_v1_predicts_rows(client: httpx.Client, body: dict[str, Any], rows_model: Path) -> None:
    expected = qcnn.load(rows_model).predict(ROWS).tolist()
    assert client.post("/v1/models/rows:predict", json=body).json() == {"predictions": expected}
    assert client.post("/v1/models/rows:predict", json={"inputs": ROWS}).json() == {"outputs": expected}


def test_v1_predicts_classes_by_name(client: httpx.Client, classes_model: Path) -> None:
    model = qcnn.load(classes_model)
    probabilities = model.predict(ROWS)
    names = [CLASSES[index] for index in probabilities.argmax(axis=1)]
    rows = client.post("/v1/models/classes:predict", json={"instances": ROWS}).json()["predictions"]
    assert rows == [
        {"prediction": name, "probabilities": each} for name, each in zip(names, probabilities.tolist(), strict=True)
    ]
    columns = client.post("/v1/models/classes:predict", json={"inputs": {"features": ROWS}}).json()["outputs"]
    assert columns == {"prediction": names, "probabilities": probabilities.tolist()}


def test_v1_status_metadata_and_names(client: httpx.Client) -> None:
    assert client.get("/v1/models").json() == {"models": [{"name": each} for each in ("classes", "model", "rows")]}
    ok = {"error_code": "OK", "error_message": ""}
    status = {"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": ok}]}
    assert client.get("/v1/models/rows").json() == client.get("/v1/models/rows/versions/1").json() == status
    metadata = client.get("/v1/models/rows/versions/1/metadata").json()
    assert metadata["model_spec"] == {"name": "rows", "signature_name": "", "version": "1"}
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    (features,) = signature["inputs"].values()
    assert (features["dtype"], [each["size"] for each in features["tensor_shape"]["dim"]]) == ("DT_FLOAT", ["-1", "4"])
    assert signature["method_name"] == "tensorflow/serving/predict"


V1_ERRORS: list[tuple[str, Any, int, str]] = [
    ("model:predict", {"instances": [], "inputs": []}, 400, "body: must have one of instances and inputs. Given: both"),
    ("model:predict", {}, 400, "body: must have one of instances and inputs. Given: none"),
    ("model:predict", {"instances": []}, 400, "instances: must be a list of rows. Given: []"),
    ("model:predict", {"instances": 3}, 400, "instances: must be a list of rows. Given: 3"),
    ("model:predict", {"instances": [1]}, 400, "instances: must be objects with qubit, angle. Given: 1"),
    ("model:predict", {"instances": [{"qubit": 1}]}, 400, "inputs: must have angle. Given: qubit"),
    (
        "model:predict",
        {"inputs": {"qubit": [1], "angle": [1], "x": [1]}},
        400,
        "inputs: must be qubit, angle. Given: 'x'",
    ),
    (
        "model:predict",
        {"inputs": {"qubit": [9], "angle": [1]}},
        400,
        "qubit: row 1 must be a whole number, 0 to 3. Given: 9",
    ),
    ("model:predict", {"inputs": {"qubit": [0, 1], "angle": [1]}}, 400, "inputs: must have the same number of rows."),
    ("model:predict", {"inputs": {"qubit": [0.5], "angle": [1]}}, 400, "qubit: row 1 must be a whole number, 0 to 3."),
    (
        "model:predict",
        {"inputs": {"qubit": ["a"], "angle": [1]}},
        400,
        "qubit: must be numbers of shape [rows]. Given: ['a']",
    ),
    (
        "model:predict",
        {"inputs": {"qubit": [0], "angle": [None]}},
        400,
        "angle: must be numbers of shape [rows]. Given: ",
    ),
    ("model:predict", {"inputs": [[0, 1]]}, 400, "inputs: must be an object with qubit, angle. Given: list"),
    (
        "model:predict",
        {"inputs": [], "signature_name": "other"},
        400,
        "signature_name: must be serving_default. Given: 'other'",
    ),
    ("model:predict", {"inputs": [], "more": 1}, 400, "body: must have only signature_name and one of"),
    ("model:predict", b"{", 400, "body: must be JSON. Given: "),
    ("model:predict", b"\xff", 400, "body: must be JSON. Given: "),
    ("model:predict", b"[1]", 400, "body: must be a JSON object. Given: list"),
    ("model:predict", b'{"inputs":' + b"[" * 100_000, 400, "body: must "),
    (
        "model:predict",
        b'{"inputs":{"qubit":[0],"angle":[NaN]}}',
        400,
        "angle: row 1 must be a finite number. Given: nan",
    ),
    (
        "model:predict",
        b'{"inputs":{"qubit":[0],"angle":[1e999]}}',
        400,
        "angle: row 1 must be a finite number. Given: inf",
    ),
    ("model:predict", b'{"inputs":{"qubit":[1' + b"0" * 400 + b'],"angle":[1]}}', 400, "qubit: "),
    ("model:predict", b'{"inputs":{"qubit":[1' + b"0" * 5000 + b'],"angle":[1]}}', 400, "body: must be JSON. Given: "),
    (
        "rows:predict",
        {"instances": [[1, 2, 3]]},
        400,
        "features: must be numbers of shape [rows, 4]. Given: shape [1, 3]",
    ),
    ("rows:predict", {"instances": [[1, 2, 3, 4], [1]]}, 400, "features: must be numbers of shape [rows, 4]. Given: "),
    ("rows:predict", {"instances": [1.0]}, 400, "features: must be numbers of shape [rows, 4]. Given: shape [1]"),
    ("rows:predict", {"instances": [[1e30, 0, 0, 0]]}, 400, "a: row 1 must be from -"),
    ("rows:predict", {"instances": [[0] * 4] * 1001}, 400, "inputs: must have at most 1000 rows. Given: 1001"),
    ("rows:predict", b" " * 2**21, 413, "body: must have at most 1048576 bytes. Given: 2097152"),
    ("rows/versions/2:predict", {}, 404, "version: model rows must have it: 1. Given: '2'"),
    ("rows/versions/x:predict", {}, 404, "version: model rows must have it: 1. Given: 'x'"),
    ("rows/labels/stable:predict", {}, 404, "label: model rows must have it: none. Given: 'stable'"),
    ("nothing:predict", {}, 404, "model: must be one of classes, model, rows. Given: 'nothing'"),
    ("rows:classify", {}, 404, "action: must be :predict. Given: :classify"),
    ("rows:regress", {}, 404, "action: must be :predict. Given: :regress"),
    ("rows:explode", {}, 404, "action: must be :predict. Given: ':explode'"),
    ("rows/other", {}, 404, "path: must be of /v1/models or /v2/models. Given: '/v1/models/rows/other'"),
]


@pytest.mark.parametrize(("path", "body", "status", "line"), V1_ERRORS)
def test_v1_invalid_request_is_one_line(client: httpx.Client, path: str, body: Any, status: int, line: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(f"/v1/models/{path}", content=content)
    _assert_error(answer, status, line)


def _assert_error(answer: httpx.Response, status: int, line: str) -> None:
    found = answer.json()
    assert list(found) == ["error"]
    assert found["error"].startswith(line)
    assert answer.status_code == status
    assert "Given: " in found["error"]
    assert found["error"].isprintable()
    assert len(found["error"]) < 500


def test_wrong_method_and_encoding_are_rejected(client: httpx.Client) -> None:
    _assert_error(client.get("/v1/models/rows:predict"), 405, "method: must be POST. Given: 'GET'")
    _assert_error(client.post("/v1/models/rows"), 405, "method: must be GET. Given: 'POST'")
    answer = client.post("/v1/models/rows:predict", content=b"x", headers={"Content-Encoding": "gzip"})
    _assert_error(answer, 415, "content-encoding: must be identity. Given: 'gzip'")


def test_triton_client_predicts_excitations(triton_client: Any) -> None:
    """The client sends and requests binary data by default."""
    assert triton_client.is_server_live()
    assert triton_client.is_server_ready()
    assert triton_client.is_model_ready("model", "1")
    assert not triton_client.is_model_ready("model", "2")
    metadata = triton_client.get_model_metadata("model")
    assert [(each["name"], each["datatype"]) for each in metadata["inputs"]] == [("qubit", "INT32"), ("angle", "FP32")]
    assert triton_client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    expected = _excitations()
    for integer, real in ((np.int32, np.float32), (np.int64, np.float64), (np.uint8, np.float32)):
        inputs = [_input("qubit", np.array(QUBITS, integer)), _input("angle", np.array(ANGLES, real))]
        result = triton_client.infer("model", inputs, request_id="7")
        assert np.array_equal(result.as_numpy("prediction"), expected)
        assert result.get_response()["id"] == "7"


def _input(name: str, values: npt.NDArray[Any], binary: bool = True) -> Any:
    tensor = triton.InferInput(name, [*values.shape], triton_datatype(values))
    tensor.set_data_from_numpy(values, binary_data=binary)
    return tensor


def triton_datatype(values: npt.NDArray[Any]) -> str:
    kinds = {"int32": "INT32", "int64": "INT64", "uint8": "UINT8", "float32": "FP32", "float64": "FP64"}
    return kinds[values.dtype.name]


@pytest.mark.parametrize("binary", [True, False])
def test_triton_client_predicts_classes(triton_client: Any, classes_model: Path, binary: bool) -> None:
    expected = qcnn.load(classes_model).predict(np.array(ROWS, np.float32))
    outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("probabilities", "prediction")]
    inputs = [_input("features", np.array(ROWS, np.float32), binary)]
    result = triton_client.infer("classes", inputs, outputs=outputs, model_version="1")
    assert np.array_equal(result.as_numpy("probabilities"), expected)
    names = result.as_numpy("prediction")
    assert [each.decode() if binary else each for each in names] == [CLASSES[at] for at in expected.argmax(axis=1)]
    assert [each["name"] for each in result.get_response()["outputs"]] == ["probabilities", "prediction"]


def _tensor(**changes: Any) -> dict[str, Any]:
    tensor = {"name": "features", "shape": [1, 4], "datatype": "FP32", "data": [0.1, 0.2, 0.3, 0.4], **changes}
    return {"inputs": [{name: value for name, value in tensor.items() if value is not None}]}


@pytest.mark.parametrize("data", [ROWS[0], [ROWS[0]], [[ROWS[0]]]])
def test_v2_accepts_flat_and_nested_data(client: httpx.Client, data: Any, rows_model: Path) -> None:
    answer = client.post("/v2/models/rows/infer", json=_tensor(data=data)).json()
    expected = qcnn.load(rows_model).predict([ROWS[0]])
    output = {"name": "prediction", "datatype": "FP64", "shape": [1], "data": expected.tolist()}
    assert answer == {"model_name": "rows", "model_version": "1", "outputs": [output]}


_TWO = {"inputs": [*_tensor()["inputs"], *_tensor()["inputs"]]}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({}, "inputs: must be a list of objects. Given: None"),
        ({"inputs": [1]}, "inputs: must be a list of objects. Given: [1]"),
        (_tensor(name="x"), "inputs: must be features. Given: 'x'"),
        (_tensor(name=["x"]), "inputs: must be features. Given: ['x']"),
        (_tensor(datatype="BYTES"), "features: datatype must be one of INT8, "),
        (_tensor(datatype=[1]), "features: datatype must be one of INT8, "),
        (_tensor(shape=[2, 4]), "features: data must have 8 numbers, as its shape. Given: 4"),
        (_tensor(shape=[4]), "features: shape must be [rows, 4]. Given: [4]"),
        (_tensor(shape=[1, 5]), "features: shape must be [rows, 4]. Given: [1, 5]"),
        (_tensor(shape=[-1, 4]), "features: shape must be a list of sizes. Given: [-1, 4]"),
        (_tensor(shape="1"), "features: shape must be a list of sizes. Given: '1'"),
        (_tensor(shape=[10**30, 4]), "features: data must have "),
        (_tensor(data=None), "features: must have data. Given: none"),
        (_tensor(data=["a"] * 4), "features: data must be numbers. Given: "),
        (_tensor(data=[10**400, 0, 0, 0]), "features: data must be finite numbers. Given: beyond"),
        (_tensor(data={"a": 1}), "features: data must be numbers. Given: "),
        (
            _tensor(parameters={"binary_data_size": 16}),
            "features: binary_data_size must be that of its shape. Given: 16",
        ),
        (_TWO, "inputs: must have features once. Given: twice"),
        ({**_tensor(), "id": 3}, "id: must be text. Given: 3"),
        ({**_tensor(), "outputs": [{"name": "y"}]}, "outputs: must be of prediction. Given: 'y'"),
        ({**_tensor(), "outputs": "y"}, "outputs: must be a list of objects. Given: 'y'"),
    ],
)
def test_v2_invalid_request_is_one_line(client: httpx.Client, body: Any, line: str) -> None:
    _assert_error(client.post("/v2/models/rows/infer", json=body), 400, line)


@pytest.mark.parametrize("size", ["x", "-1", "9" * 30, "1000000", "2"])
def test_v2_invalid_json_size_is_one_line(client: httpx.Client, size: str) -> None:
    content = json.dumps(_tensor()).encode()
    headers = {"Inference-Header-Content-Length": size}
    answer = client.post("/v2/models/rows/infer", content=content, headers=headers)
    _assert_error(
        answer, 400, "body: must be JSON" if size == "2" else "inference-header-content-length: must be at most"
    )


def test_v2_integers_only_for_qubit(client: httpx.Client) -> None:
    qubit = {"name": "qubit", "shape": [1], "datatype": "INT32", "data": [0.0]}
    angle = {"name": "angle", "shape": [1], "datatype": "FP64", "data": [1]}
    body = {"inputs": [qubit, angle]}
    line = "qubit: data must be whole numbers. Given: [0.0]"
    _assert_error(client.post("/v2/models/model/infer", json=body), 400, line)
    qubit["data"] = [0]
    assert client.post("/v2/models/model/infer", json=body).status_code == 200


def test_metrics_count_rows_outside_of_training(client: httpx.Client) -> None:
    """The training split has values from 0 to pi / 2."""

    def counts() -> dict[str, float]:
        lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    series = 'qcnn_serving_rows_outside_training_range_total{column="b",model="rows"}'
    before = counts()
    rows = [[0.0, 1.6, 1.5, 0.0], [0.0, -0.1, 1.5, 0.0], [0.0, 1.5, 1.5, 0.0]]
    client.post("/v1/models/rows:predict", json={"instances": rows})
    after = counts()
    assert after[series] - before.get(series, 0) == 2
    assert not any('column="a"' in name for name in after)
    rows_total, requests = (
        'qcnn_serving_rows_total{model="rows"}',
        'qcnn_serving_requests_total{code="200",model="rows",protocol="v1"}',
    )
    assert after[rows_total] - before[rows_total] == 3
    assert after[requests] - before[requests] == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/models/rows:predict HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/models/rows:predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 2**17 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_invalid_http_closes_connection(server: ServerProcess, client: httpx.Client, sent: bytes) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=60) as connection:
        # Without delay, the rest of a reset connection is lost.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(2**16), b""))
        except ConnectionError:
            answer = b""
    assert b"Traceback" not in answer
    assert not answer or answer.split(b" ")[1].startswith(b"4")
    assert client.get("/v2/health/ready").status_code == 200


def _hostile(random: np.random.Generator) -> Any:
    """Return a random value that a request may contain: nested, huge, or of another type."""
    plain: list[Any] = [
        None,
        True,
        0,
        -1,
        1.5,
        1e308,
        -1e308,
        float("nan"),
        float("inf"),
        10**40,
        "",
        "x",
        "\0",
        "é" * 50,
    ]
    plain += ["qubit", "angle", "features", "FP32", "INT32", "BYTES", [], {}, 2**63, -(2**63)]
    kind = random.integers(8)
    if kind < 4:
        return plain[random.integers(len(plain))]
    if kind < 6:
        return [_hostile(random) for _ in range(random.integers(4))]
    keys = (
        "instances",
        "inputs",
        "name",
        "shape",
        "datatype",
        "data",
        "parameters",
        "binary_data_size",
        "id",
        "outputs",
    )
    return {str(keys[random.integers(len(keys))]): _hostile(random) for _ in range(random.integers(4))}


def test_hostile_requests_are_rejected_in_one_line(client: httpx.Client) -> None:
    random = np.random.default_rng(0)
    paths = [f"/v1/models/{name}:predict" for name in ("model", "rows", "classes")]
    paths += [f"/v2/models/{name}/infer" for name in ("model", "rows", "classes")]
    valid = {"instances": ROWS}, {"inputs": {"qubit": QUBITS, "angle": ANGLES}}, _tensor()
    for number in range(600):
        body: Any = _hostile(random)
        if number % 3 == 0:
            # A valid request with one changed value.
            body = json.loads(json.dumps(valid[random.integers(3)]))
            key = next(iter(body))
            body[key] = _hostile(random) if number % 2 else {**body, key: _hostile(random)}
        content = json.dumps(body).encode()
        if number % 5 == 0:
            content = content[: random.integers(len(content) + 1)] + random.bytes(int(random.integers(3)))
        headers = {"Inference-Header-Content-Length": str(random.integers(-1, 100))} if number % 7 == 0 else {}
        answer = client.post(paths[random.integers(len(paths))], content=content, headers=headers)
        assert answer.status_code in (200, 400), (content, answer.text)
        if answer.status_code == 400:
            assert answer.json()["error"].isprintable(), content
            assert len(answer.json()["error"]) < 500, content
    assert client.get("/v2/health/ready").status_code == 200
