"""Tests that secrets in the environment of a command appear in no output and no file."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.forks import run
from tests.qcnn.jobs.apiserver import ApiServer

ROOT = Path(__file__).parents[3]
# One value per type of secret, which occurs nowhere else.
SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAPLANTEDPLANTED01",
    "AWS_SECRET_ACCESS_KEY": "planted-aws-5e6f1c",
    "AWS_SESSION_TOKEN": "planted-session-90ab12",
    "KF_PIPELINES_SA2_TOKEN": "planted-kfp-77cd31",
    "MLFLOW_TRACKING_PASSWORD": "planted-mlflow-3c4d5e",
    "QCNN_PLANTED_PASSWORD": "planted-password-1b2c3d",
}
PRIVATE_KEY, TOKEN, PASSWORD = "planted-google-c0ffee", "planted-kubeconfig-4d5e6f", "planted-proxy-8a9b0c"
PLANTED = [*SECRETS.values(), PRIVATE_KEY, TOKEN, PASSWORD]
SMALL = ["--qubits", "4", "--rounds", "10", "--epochs", "2"]
QCNN = ["-m", "qcnn.cli"]


@pytest.fixture
def environment(tmp_path: Path, api_server: ApiServer, forks: None) -> dict[str, str]:
    """Return an environment with secrets in variables, in the files of variables, and in URLs."""
    account, kubeconfig = tmp_path / "account.json", tmp_path / "kubeconfig"
    account.write_text(json.dumps({"type": "service_account", "private_key": PRIVATE_KEY}))
    text = kubeconfig.read_text()
    assert "token: a\n" in text
    kubeconfig.write_text(text.replace("token: a\n", f"token: {TOKEN}\n"))
    return {
        **os.environ,
        **SECRETS,
        "GOOGLE_APPLICATION_CREDENTIALS": str(account),
        "KUBECONFIG": str(kubeconfig),
        # A closed port.
        "AWS_ENDPOINT_URL": f"http://name:{PASSWORD}@127.0.0.1:1",
        "MLFLOW_TRACKING_URI": f"http://name:{PASSWORD}@127.0.0.1:1",
        "NO_PROXY": "127.0.0.1",
    }


def _found(content: bytes) -> list[str]:
    """Return the secrets in a content, in plain text or in base64."""
    coded = [(secret, base64.b64encode(secret.encode()).rstrip(b"=")[:-1]) for secret in PLANTED]
    return [secret for secret, code in coded if secret.encode() in content or code in content]


def _run(arguments: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python and check that its output and the files of the folder contain no secret."""
    done = run(*arguments, environment=environment)
    assert not _found((done.stdout + done.stderr).encode())
    for path in folder.rglob("*"):
        assert not _found(os.fsencode(path.name)), path
        assert not (path.is_file() and _found(path.read_bytes())), path
    return done


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder and make it the working directory."""
    (folder := tmp_path / "user").mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.long
def test_run_writes_no_secrets(folder: Path, environment: dict[str, str]) -> None:
    done = _run([*QCNN, "run", *SMALL], folder, environment)
    assert done.returncode == 0, done.stderr
    assert "tracking: the connection is refused" in done.stdout
    assert len([path for path in folder.rglob("*") if path.is_file()]) > len(("report", "model", "dataset"))


def test_compiled_pipelines_contain_no_secrets(folder: Path, environment: dict[str, str]) -> None:
    done = _run([str(ROOT / "compile.py")], folder, environment)
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "build").iterdir())) > 1


def test_submitted_tfjob_contains_no_secrets_of_user(
    folder: Path, environment: dict[str, str], api_server: ApiServer
) -> None:
    submit = ["submit", "--target", "tfjob", "--output", "s3://bucket/folder", "--image", "qcnn:1", *SMALL]
    done = _run([*QCNN, *submit, "--namespace", "a"], folder, environment)
    assert done.returncode == 0, done.stderr
    (made,) = api_server.all("tfjobs")
    assert not _found(json.dumps([made, *api_server.all("services")]).encode())


@pytest.mark.parametrize(
    "options",
    [
        ["run", *SMALL, "--continue_from", f"s3://name:{PASSWORD}@bucket/folder"],
        ["run", *SMALL, "--continue_from", f"https://name:{PASSWORD}@host/folder"],
        ["submit", "--target", "tfjob", "--output", f"gs://name:{PASSWORD}@bucket/a", "--image", "qcnn:1", *SMALL],
        ["predict", "--target", "tfjob", "--model", f"s3://name:{PASSWORD}@bucket/model", "--image", "qcnn:1"],
        ["tensorboard", f"gs://{PASSWORD}@bucket/logs"],
        [
            *("submit", "--target", "tfjob", "--output", "gs://bucket/a", "--image", "qcnn:1", *SMALL),
            *("--tracking", f"mlflow:http://name:{PASSWORD}@host"),
        ],
    ],
)
def test_uri_with_password_is_an_error_without_password(
    folder: Path, environment: dict[str, str], options: list[str]
) -> None:
    done = _run([*QCNN, *options], folder, environment)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "***@" in line
    assert not list(folder.iterdir())


def test_unreachable_server_error_contains_no_password(folder: Path, environment: dict[str, str]) -> None:
    # A single attempt, because retries take time.
    program = (
        "import qcnn.storage.s3 as s3; s3._TRIES = 1\n"
        "from qcnn.storage.copies import is_complete\n"
        "from qcnn.process.error_lines import one_line_errors\n"
        "with one_line_errors(): is_complete('s3://bucket/folder', 'model.json')"
    )
    done = _run(["-c", program], folder, environment)
    assert done.returncode != 0
    assert "error: bucket: request failed" in done.stderr
