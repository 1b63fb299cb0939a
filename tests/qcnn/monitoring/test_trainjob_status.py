"""Updates of the status of a TrainJob, with a server that has a self-signed certificate."""

import contextlib
import http.server
import json
import queue
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qcnn.monitoring import trainjob_status
from qcnn.monitoring.trainjob_status import TrainJobReporter, trainer_status

_EPOCH = {"epoch": 3, "train_loss": 0.25, "val_loss": 0.5, "seconds_left": 41.6}


class _Handler(http.server.BaseHTTPRequestHandler):
    received: "queue.SimpleQueue[tuple[str, dict[str, Any]]]"
    codes: list[int]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # Before the answer, so that a test sees it as soon as the reporter does.
        self.received.put((self.headers["Authorization"], body))
        self.send_response(self.codes.pop(0) if self.codes else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def handler() -> type[_Handler]:
    return type("Handler", (_Handler,), {"received": queue.SimpleQueue(), "codes": []})


@pytest.fixture
def environment(handler: type[_Handler], tmp_path: Path) -> Iterator[dict[str, str]]:
    certificate, key, token = (tmp_path / name for name in ("ca.crt", "key", "token"))
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run([*command, *subject], check=True, capture_output=True)
    token.write_text("of the pod")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        "KUBEFLOW_TRAINER_SERVER_URL": f"https://localhost:{server.server_port}/status",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(certificate),
        "KUBEFLOW_TRAINER_SERVER_TOKEN": str(token),
    }
    server.shutdown()
    server.server_close()


def test_status_has_progress_time_left_and_losses() -> None:
    status = trainer_status(_EPOCH, 12)
    assert status.pop("lastUpdatedTime").endswith("Z")
    assert status == {
        "progressPercentage": 25,
        "estimatedRemainingSeconds": 42,
        "metrics": [
            {"name": "epoch", "value": "3"},
            {"name": "train_loss", "value": "0.25"},
            {"name": "val_loss", "value": "0.5"},
        ],
    }


def test_epoch_is_sent_with_token(handler: type[_Handler], environment: dict[str, str]) -> None:
    reporter = TrainJobReporter(environment, 12)
    reporter.listen("state", state="training")
    reporter.listen("epoch", **_EPOCH)
    authorization, body = handler.received.get()
    assert authorization == "Bearer of the pod"
    assert body["trainerStatus"]["progressPercentage"] == 25


def test_rejected_update_is_replaced_by_next_one(
    handler: type[_Handler],
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(trainjob_status, "_INTERVAL", 0.0)
    handler.codes += [403, 500]
    reporter = TrainJobReporter(environment, 12)
    for epoch in (3, 6, 9):
        reporter.listen("epoch", **{**_EPOCH, "epoch": epoch})
        _, body = handler.received.get()
        assert body["trainerStatus"]["metrics"][0]["value"] == str(epoch)
    assert [line for line in caplog.messages if "status of the TrainJob" in line] == [
        "the status of the TrainJob cannot be updated (HTTP Error 403: Forbidden)"
    ]


def test_epochs_within_interval_are_sent_as_one_update(handler: type[_Handler], environment: dict[str, str]) -> None:
    reporter = TrainJobReporter(environment, 12)
    reporter.listen("epoch", **_EPOCH)
    handler.received.get()
    for epoch in range(4, 12):
        reporter.listen("epoch", **{**_EPOCH, "epoch": epoch})
    assert handler.received.empty()


def test_end_of_training_waits_for_update_of_last_epoch(
    handler: type[_Handler], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainjob_status, "_INTERVAL", 0.2)
    with TrainJobReporter(environment, 12) as reporter:
        for epoch in range(1, 13):
            reporter.listen("epoch", **{**_EPOCH, "epoch": epoch})
    *_, last = [handler.received.get()[1] for _ in range(handler.received.qsize())]
    assert last["trainerStatus"]["progressPercentage"] == 100


@pytest.mark.parametrize("is_failed", [True, False])
def test_end_does_not_wait_for_a_server_after_an_error_or_without_one(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, is_failed: bool
) -> None:
    sending = threading.Event()
    monkeypatch.setattr(TrainJobReporter, "_send", lambda *_: sending.wait())
    # A wait would not end.
    monkeypatch.setattr(trainjob_status, "_TIMEOUT", threading.TIMEOUT_MAX / 2)
    with (
        contextlib.suppress(ValueError),
        TrainJobReporter(environment if is_failed else {}, 12) as reporter,
    ):
        reporter.listen("epoch", **_EPOCH)
        if is_failed:
            raise ValueError
    assert not sending.is_set()
    sending.set()
