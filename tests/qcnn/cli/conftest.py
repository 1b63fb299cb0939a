"""Fixtures of the command line's tests."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qcnn.cli.main import main
from qcnn.targets import following
from tests.forks import run
from tests.kfp_backend import FakeBackend, fake_backend
from tests.vertex.fake_service.vertex import Vertex

# Runs a command and returns its exit code, stdout and stderr.
Typed = Callable[..., tuple[int, str, str]]
# Study file.
STUDY = """
qubits: 4
rounds: 12
batch_size: 8
epochs: 3
workers: 1
strategy: none
grid:
  learning_rate: [0.0001, 0.02]
  model: [hybrid, deep]
"""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBackend]:
    for name in ("KF_PIPELINES_ENDPOINT", "KF_PIPELINES_UI_ENDPOINT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(following, "INTERVAL", 0)
    with fake_backend() as backend:
        yield backend


def without_estimate(stderr: str) -> str:
    """Return stderr without the cost estimate, which test_cost.py tests."""
    return re.sub(r"^(estimate|no cost estimate): .*\n", "", stderr, flags=re.M)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Run a command in this process and return its exit code, stdout and stderr."""

    def type_command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["qcnn", *arguments])
        code = 0
        try:
            main()
        except SystemExit as error:
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, without_estimate(captured.err)

    return type_command


@pytest.fixture
def on_vertex(vertex: Vertex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None) -> Typed:
    """Run a command in a separate process, with the project and location of the local Vertex AI."""
    location = {"GOOGLE_CLOUD_PROJECT": vertex.project, "GOOGLE_CLOUD_REGION": vertex.location}
    monkeypatch.chdir(tmp_path)

    def type_command(*arguments: str) -> tuple[int, str, str]:
        done = run("-m", "qcnn.cli", *arguments, environment=vertex.process_environment() | location)
        return done.returncode, done.stdout, without_estimate(done.stderr)

    return type_command
