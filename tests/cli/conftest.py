"""What tests of the command line share."""

from collections.abc import Callable, Iterator

import pytest

from cli import following
from cli.main import main
from tests.backend import FakeBackend, fake_backend

# Code, stdout, stderr.
Typed = Callable[..., tuple[int, str, str]]
# A study's file.
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


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command; return its exit code and what it printed."""

    def type_command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["qcnn", *arguments])
        code = 0
        try:
            main()
        except SystemExit as error:
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return type_command
