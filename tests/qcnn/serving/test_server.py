"""Processes of the server: load, replaced versions, hostile clients, and the end by SIGTERM."""

import contextlib
import http.client
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

import qcnn
from tests.qcnn.serving.conftest import EXCITATIONS
from tests.qcnn.serving.label_files import write_labels
from tests.qcnn.serving.server_process import ServerProcess, running_server


def _rows(count: int) -> list[list[float]]:
    return np.random.default_rng(count).uniform(0, 1.5, (count, 4)).tolist()  # type: ignore[no-any-return]


def _predicted_in_threads(server: ServerProcess, sizes: Sequence[int]) -> list[list[float]]:
    def predict(size: int) -> list[float]:
        with server.client() as client:
            answer = client.post("/v1/models/model:predict", json={"instances": _rows(size)})
        return answer.json()["predictions"]  # type: ignore[no-any-return]

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(predict, sizes))


@pytest.mark.parametrize("option", [("--batching",), ("--no-batching",), ("--processes", "2")])
def test_answers_do_not_depend_on_batches(rows_model: Path, option: tuple[str, ...]) -> None:
    model, sizes = qcnn.load(rows_model), [1, 7, 30, 2, 100, 3, 1, 1, 5, 64] * 3
    with running_server(str(rows_model), *option) as server:
        if "--processes" in option:
            # The first line is that of one process. Requests wait until it accepts them.
            server.read_until("serving on")
        found = _predicted_in_threads(server, sizes)
        with server.client() as client:
            text = client.get("/metrics").text
        assert server.stop()[0] == 0
    for size, predictions in zip(sizes, found, strict=True):
        assert predictions == model.predict(_rows(size)).tolist()
    # The counters are those of all processes.
    (total,) = [line for line in text.splitlines() if line.startswith("qcnn_serving_rows_total")]
    assert float(total.split()[1]) == sum(sizes)


def test_killed_server_leaves_no_process() -> None:
    with running_server(str(EXCITATIONS), "--processes", "2") as server:
        server.read_until("serving on")
        server.process.kill()
        # The log ends with the last process that has it.
        server.process.communicate(timeout=60)
        with pytest.raises(httpx.ConnectError), server.client() as client:
            client.get("/v2/health/live")


def _copy(folder: Path) -> None:
    """Copy a model, model.json last."""
    shutil.copytree(EXCITATIONS, folder, ignore=shutil.ignore_patterns("model.json"))
    shutil.copy(EXCITATIONS / "model.json", folder / "model.json.new")
    (folder / "model.json.new").rename(folder / "model.json")


def test_versions_are_swapped_without_failed_request(tmp_path: Path) -> None:
    """A copy is interrupted in the middle."""
    folder = tmp_path / "versions"
    _copy(folder / "1")
    write_labels(folder, {"stable": 1})
    done, statuses = threading.Event(), list[int]()
    with running_server(str(folder), "--poll-seconds", "0.05") as server, server.client() as client:

        def ask() -> None:
            with server.client() as own:
                while not done.is_set():
                    for path in ("/v1/models/model", "/v1/models/model/labels/stable"):
                        body = {"inputs": {"qubit": [0], "angle": [0.1]}}
                        statuses.append(own.post(f"{path}:predict", json=body).status_code)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for version in range(2, 6):
                # The interrupted copy of a later version is never loaded.
                partial = folder / str(version + 100)
                shutil.copytree(EXCITATIONS, partial)
                (partial / "predictor.json").write_text("{")
                server.read_until(f"version {version + 100} is not loaded")
                shutil.rmtree(partial)
                _copy(folder / str(version))
                server.read_until(f"version {version} is loaded")
                write_labels(folder, {"stable": version})
                server.read_until(f"labels {{'stable': {version}}}")
            write_labels(folder, {"stable": 2})
            server.read_until("labels {'stable': 2}")
            metadata = client.get("/v1/models/model/labels/stable/metadata").json()
            assert metadata["model_spec"]["version"] == "2"
        finally:
            done.set()
            thread.join()
        assert 'qcnn_serving_load_failures_total{model="model"} 4' in client.get("/metrics").text
        server.stop()
    assert statuses
    assert set(statuses) == {200}


def _connect(server: ServerProcess) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=60)


def _read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(2**16), b""))


def test_sigterm_answers_open_requests(rows_model: Path) -> None:
    body = b'{"instances": [[0.1, 0.2, 0.3, 0.4]]}'
    with running_server(str(rows_model)) as server:
        address = urlsplit(server.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port or 0, timeout=60)
        connection.putrequest("POST", "/v1/models/model:predict")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:5])
        # The server has read the headers when it has answered a later request.
        with server.client() as client:
            assert client.get("/v2/health/live").status_code == 200
        server.process.terminate()
        while True:
            # It no longer accepts connections.
            try:
                _connect(server).close()
            except ConnectionError:
                break
        connection.send(body[5:])
        with contextlib.closing(connection):
            answer = connection.getresponse()
            assert answer.status == 200
            assert b"predictions" in answer.read()
        _, rest = server.process.communicate(timeout=60)
        assert server.process.returncode == 0
        assert "Traceback" not in rest


def test_half_open_connections_do_not_stop_server(rows_model: Path) -> None:
    with running_server(str(rows_model), "--max-requests", "3", "--timeout-seconds", "0.5") as server:
        open_ones = [_connect(server) for _ in range(200)]
        for number, connection in enumerate(open_ones):
            connection.sendall(b"POST /v1/models/model:predict HTTP/1.1\r\nHo"[: number % 40])
        with server.client() as client:
            assert client.get("/v2/health/ready").status_code == 200
            # Bodies that do not arrive.
            waiting = [_connect(server) for _ in range(4)]
            for connection in waiting:
                connection.sendall(b"POST /v1/models/model:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
            answers = [_read_all(connection) for connection in waiting]
            assert sorted({answer.split(b" ")[1] for answer in answers}) == [b"408", b"503"]
            assert any(b"server: must have at most 3 requests at the same time" in answer for answer in answers)
            assert any(b"body: must arrive within 0.5 seconds" in answer for answer in answers)
            answer = client.post("/v1/models/model:predict", json={"instances": _rows(1)})
            assert answer.status_code == 200
        for connection in (*open_ones, *waiting):
            connection.close()
        assert server.stop()[0] == 0


def test_streamed_body_beyond_limit_is_rejected(rows_model: Path) -> None:
    with running_server(str(rows_model), "--max-body-mib", "1") as server, server.client() as client:
        sent = 0

        def body() -> Iterator[bytes]:
            nonlocal sent
            while sent < 2**30:
                sent += 2**16
                yield b" " * 2**16

        try:
            answer = client.post("/v1/models/model:predict", content=body())
            assert answer.status_code == 413
        except httpx.TransportError:
            # The server has closed the connection.
            pass
        assert sent < 2**28
        assert client.get("/v2/health/ready").status_code == 200


def test_server_without_version_is_not_ready(tmp_path: Path) -> None:
    with running_server(str(tmp_path), "--poll-seconds", "0.05") as server, server.client() as client:
        assert client.get("/v2/health/live").status_code == 200
        assert client.get("/v2/health/ready").status_code == 503
        answer = client.post("/v1/models/model:predict", json={})
        assert (answer.status_code, answer.json()["error"]) == (
            404,
            "model: model must have a loaded version. Given: none",
        )
        _copy(tmp_path / "1")
        server.read_until("version 1 is loaded")
        assert client.get("/v2/health/ready").status_code == 200
