"""Test of docs/serve.md: its requests and its client, with a model of tests/golden."""

import contextlib
import io
import json
import shutil
import subprocess

import pytest

import qcnn
from tests.docs.documents import ROOT, blocks, commands
from tests.qcnn.serving.conftest import EXCITATIONS
from tests.qcnn.serving.server_process import running_server

PAGE = ROOT / "docs" / "serve.md"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_requests_of_page_are_answered() -> None:
    (request,) = [command.line for command in commands() if command.document == "serve.md" and "curl" in command.line]
    expected, _ = blocks(PAGE, "text")
    with running_server(str(EXCITATIONS)) as server:
        line = request.replace("localhost:8501", server.url)
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    found, shown = (json.loads(text)["predictions"] for text in (done.stdout, expected.text))
    # Last digits differ between processors.
    assert found == pytest.approx(shown, rel=0, abs=1e-12)


def test_client_of_page_prints_predictions() -> None:
    pytest.importorskip("tritonclient.http", reason="published for Linux only")
    (block,) = blocks(PAGE, "python")
    with running_server(str(EXCITATIONS)) as server, contextlib.redirect_stdout(io.StringIO()) as printed:
        text = block.text.replace("localhost:8501", server.url.removeprefix("http://"))
        names: dict[str, object] = {}
        exec(compile(text, block.title, "exec"), names)
        names["client"].close()  # type: ignore[attr-defined]
    expected = qcnn.load(EXCITATIONS).predict(qubit=[0, 3], angle=[0.1, -2.0])
    assert printed.getvalue() == f"{expected}\n"


def test_page_lists_metrics() -> None:
    text = PAGE.read_text()
    with running_server(str(EXCITATIONS)) as server, server.client() as client:
        client.post("/v1/models/model:predict", json={"inputs": {"qubit": [0], "angle": [0.1]}})
        exported = client.get("/metrics").text
    kinds = [line.split() for line in exported.splitlines() if line.startswith("# TYPE")]
    for _, _, name, kind in kinds:
        assert f"`{name}`" in text, (name, kind)
