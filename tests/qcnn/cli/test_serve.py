"""Arguments of qcnn serve, and its errors."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from qcnn.cli.serve import serve, sources_of
from qcnn.errors import ConfigError
from qcnn.serving.versions import ModelSource, VersionPolicy


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("runs/a",), {"model": "runs/a"}),
        (("gs://bucket/model",), {"model": "gs://bucket/model"}),
        (("a=runs/a", "b=gs://bucket/b"), {"a": "runs/a", "b": "gs://bucket/b"}),
        (("runs/a=1",), {"model": "runs/a=1"}),
        (("a=runs/b=1",), {"a": "runs/b=1"}),
    ],
)
def test_sources_of_arguments(arguments: tuple[str, ...], expected: dict[str, str]) -> None:
    found = sources_of(arguments, "latest:3", None)
    assert found == {name: ModelSource(address, VersionPolicy(3)) for name, address in expected.items()}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("a", "b"), "name: must be different for each model. Given: 'model' twice"),
        (("x=a", "x=b"), "name: must be different for each model. Given: 'x' twice"),
        (("x=",), "model: must be a folder or bucket. Given: 'x='"),
        (("é=a",), "name: must be at most 100 letters"),
        (("=a",), "name: must be at most 100 letters"),
    ],
)
def test_invalid_arguments_raise(arguments: tuple[str, ...], line: str) -> None:
    with pytest.raises(ConfigError) as error:
        sources_of(arguments, "latest:1", None)
    assert str(error.value).startswith(line)


def test_used_port_is_rejected(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        error = CliRunner().invoke(serve, [str(tmp_path), "--port", port]).exception
    assert isinstance(error, ConfigError)
    assert str(error).startswith("host: must be an address with a free port (")


def test_missing_model_is_rejected(tmp_path: Path) -> None:
    error = CliRunner().invoke(serve, [str(tmp_path / "nowhere"), "--port", "0"]).exception
    assert isinstance(error, ConfigError)
    assert str(error).startswith("model: must be an existing folder, or a bucket. Given: ")
