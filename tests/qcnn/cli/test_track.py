import os
from pathlib import Path

import pytest

from tests.forks import run

CLOSED = "mlflow:http://name:planted@127.0.0.1:1"
GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["run"], "tracking: must be given by --tracking or MLFLOW_TRACKING_URI. Given: none"),
        (
            ["run", "--tracking", "http://host"],
            "tracking: must be mlflow:URI, such as mlflow:http://127.0.0.1:5000. Given: http://host",
        ),
        (
            ["missing", "--tracking", CLOSED],
            "run: must be the folder of a run, a study or a training job. Given: missing",
        ),
    ],
)
def test_invalid_arguments_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None, arguments: list[str], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    done = run("-m", "qcnn.cli", "track", *arguments, environment=environment)
    assert (done.returncode, done.stderr) == (2, f"error: {error}\n")
    assert not [*tmp_path.iterdir()]


def test_server_away_is_an_error_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None) -> None:
    import shutil

    shutil.copytree(GOLDEN / "0.1.0-predictor" / "excitations", tmp_path / "a run")
    monkeypatch.chdir(tmp_path)
    done = run("-m", "qcnn.cli", "track", "a run", "--tracking", CLOSED)
    assert done.returncode == 2
    assert done.stderr == "error: tracking: the connection is refused. Given: http://***@127.0.0.1:1\n"
    assert not done.stdout
