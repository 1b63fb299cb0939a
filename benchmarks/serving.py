"""Requests per second of the server beside a FastAPI handler with TensorFlow: python -m benchmarks.serving.

Prints Markdown. All servers run on one core with the same uvicorn, uvloop and httptools, the client on another core
with 8 connections that send one request after the other. The servers alternate, and the median of all rounds counts.
`HTTP alone` answers with a constant and reads no request, so it is the limit of the HTTP library.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

import qcnn

QUBITS, ROWS, CONNECTIONS = 8, (1, 10, 100), 8
SECONDS, WARM_UP_SECONDS, START_SECONDS = 4.0, 1.0, 120.0
# Environment variable with the folder of the model for the application of FastAPI.
_MODEL = "BENCHMARK_MODEL"
_PORT, _JSON = 8571, {"content-type": "application/json"}
_UVICORN = ("uvicorn", "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--factory")
OWN = "qcnn serve"
# Module with arguments, and path of the predictions, of each server.
SERVERS = {
    OWN: (("qcnn.cli", "serve", "{model}", "--port", "{port}"), "/v1/models/model:predict"),
    f"{OWN} --no-batching": (
        ("qcnn.cli", "serve", "{model}", "--port", "{port}", "--no-batching"),
        "/v1/models/model:predict",
    ),
    "FastAPI, tf.saved_model.load": (
        (*_UVICORN, "benchmarks.serving:fastapi_application", "--port", "{port}"),
        "/predict",
    ),
    "HTTP alone": ((*_UVICORN, "benchmarks.serving:constant_application", "--port", "{port}"), "/"),
}


def fastapi_application() -> Any:
    """Return a plain FastAPI application that predicts with the SavedModel."""
    import tensorflow as tf
    from fastapi import FastAPI

    predict = tf.saved_model.load(str(Path(os.environ[_MODEL]) / "saved_model")).signatures["serving_default"]
    application = FastAPI()

    @application.post("/predict")
    async def handler(body: dict[str, list[list[float]]]) -> dict[str, list[float]]:
        return {"predictions": predict(features=tf.constant(body["instances"]))["prediction"].numpy().tolist()}

    return application


def constant_application() -> Any:
    """Return an ASGI application that answers with a constant."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", b"21")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"predictions":[0.5]}'})

    return application


class Connection(asyncio.Protocol):
    """Connection that sends one request after the other, and records their durations."""

    def __init__(self, request: bytes) -> None:
        """Create a connection that repeats a request."""
        self.seconds: list[float] = []
        self._request, self._answer, self._sent = request, b"", 0.0

    def connection_made(self, transport: Any) -> None:
        """Send the first request."""
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._answer, self._sent = b"", time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Record an answer, and send the next request."""
        self._answer += data
        head, separator, body = self._answer.partition(b"\r\n\r\n")
        if not separator:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"answer: must have status 200. Given: {self._answer[:200]!r}")
        if len(body) < int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            return
        self.seconds.append(time.perf_counter() - self._sent)
        self._send()


async def load(request: bytes) -> list[float]:
    """Return the durations of the requests of all connections in `SECONDS`."""
    loop = asyncio.get_running_loop()
    opened = [await loop.create_connection(lambda: Connection(request), "127.0.0.1", _PORT) for _ in range(CONNECTIONS)]
    await asyncio.sleep(WARM_UP_SECONDS)
    for _, connection in opened:
        connection.seconds.clear()
    await asyncio.sleep(SECONDS)
    durations = [each for _, connection in opened for each in connection.seconds]
    for transport, _ in opened:
        transport.abort()
    return durations


def request_of(rows: int, path: str) -> tuple[bytes, bytes]:
    """Return the body of a request with random rows, and the whole request."""
    features = np.random.default_rng(rows).uniform(0, 1, (rows, QUBITS)).round(4)
    body = json.dumps({"instances": features.tolist()}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    )
    return body, head.encode() + b"\r\n" + body


@contextlib.contextmanager
def running(name: str, model: Path) -> Iterator[float]:
    """Context manager that runs a server on the first core, and yields its seconds from start to the first answer."""
    words, path = SERVERS[name]
    arguments = [word.format(model=model, port=_PORT) for word in words]
    body, _ = request_of(1, path)
    start = time.perf_counter()
    process = subprocess.Popen(
        ["taskset", "--cpu-list", "0", sys.executable, "-m", *arguments],
        env={**os.environ, _MODEL: str(model), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        while time.perf_counter() - start < START_SECONDS:
            with contextlib.suppress(OSError):
                request = urllib.request.Request(f"http://127.0.0.1:{_PORT}{path}", body, _JSON)
                urllib.request.urlopen(request, timeout=START_SECONDS).read()
                break
            time.sleep(0.005)
        else:
            raise RuntimeError(f"server: must answer within {START_SECONDS:g} s. Given: {name}")
        yield time.perf_counter() - start
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def create_model(folder: Path) -> Path:
    """Train a network for an epoch, and return the folder of the exported model."""
    random = np.random.default_rng(0)
    x, y = random.uniform(0, 1, (200, QUBITS)), random.integers(0, 2, 200)
    experiment = qcnn.Experiment(qubits=QUBITS, encoding="ry", epochs=1, workers=1, strategy="none")
    return qcnn.train(experiment, folder / "run", data=(x, y), progress=False).folder / "export-weights" / "model"


def main() -> None:
    """Print requests per second, latencies and start-up times."""
    parser = argparse.ArgumentParser(description="Compare servers of a model. Prints Markdown.")
    parser.add_argument("--rounds", type=int, default=3, help="Processes of each server. Default: 3.")
    rounds = parser.parse_args().rounds
    found: dict[tuple[str, int], list[list[float]]] = {}
    starts: dict[str, list[float]] = {name: [] for name in SERVERS}
    with tempfile.TemporaryDirectory() as name:
        model = create_model(Path(name))
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        for _ in range(rounds):
            for server, (_, path) in SERVERS.items():
                with running(server, model) as seconds:
                    starts[server].append(seconds)
                    for rows in ROWS:
                        found.setdefault((server, rows), []).append(asyncio.run(load(request_of(rows, path)[1])))
    rates = {key: statistics.median(len(each) / SECONDS for each in runs) for key, runs in found.items()}
    reference = "FastAPI, tf.saved_model.load"
    table = [
        [
            server,
            rows,
            f"{rates[server, rows]:.0f}",
            *(
                f"{1e3 * statistics.median(np.quantile(each, q) for each in found[server, rows]):.2f}"
                for q in (0.5, 0.99)
            ),
            f"{rates[server, rows] / rates[reference, rows]:.1f} x",
        ]
        for rows in ROWS
        for server in SERVERS
    ]
    print(f"{CONNECTIONS} connections, server on one core, median of {rounds} processes:\n")
    header = ["server", "rows a request", "requests/s", "p50, ms", "p99, ms", "ratio"]
    print(tabulate(table, header, tablefmt="github", disable_numparse=True))
    print("\nSeconds from the start of the process to the first answer:\n")
    begun = [[server, f"{statistics.median(seconds):.2f}"] for server, seconds in starts.items()]
    print(tabulate(begun, ["server", "s"], tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
