"""Training, resuming and predicting with all folders in a bucket."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.experiment.parsing import from_mapping
from qcnn.model.checkpoints import load_latest
from qcnn.process.exit_codes import is_permanent_error
from qcnn.storage.copies import local_copy
from qcnn.testing.stores import opened
from tests.forks import run
from tests.qcnn.storage.faults import FaultyProxy

_FIELDS = {"qubits": 4, "rounds": 10, "strategy": "none", "workers": 1}


def _run(module: str, *arguments: str) -> str:
    done = run("-m", module, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _train(uri: str, epochs: int, continue_from: str = "") -> str:
    config = from_mapping({**_FIELDS, "epochs": epochs, "options": {"continue_from": continue_from}})
    folders = {"workdir": "training", "logs": "logs", "export": "model"}
    flags = [part for flag, name in folders.items() for part in (f"--{flag}", f"{uri}/{name}")]
    return _run("qcnn.trainer.worker", "--experiment", config.to_json(), "--profiler-port", "0", *flags)


@pytest.mark.long
def test_worker_unreachable_bucket_is_permanent_error(monkeypatch: pytest.MonkeyPatch, unused_port: int) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    impatient = "from qcnn.storage import s3; s3._TRIES = 1; from qcnn.trainer import worker; worker.main()"
    config = from_mapping({**_FIELDS, "epochs": 1})
    flags = ("--experiment", config.to_json(), "--workdir", "s3://bucket/training", "--logs", "s3://bucket/logs")
    done = subprocess.run([sys.executable, "-c", impatient, *flags], capture_output=True, text=True, check=False)
    # The retry timeout has passed. A restarted worker would wait as long and fail again.
    assert is_permanent_error(done.returncode), done.stderr
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(r"error: bucket: request failed \(.*\)\. Given: s3://bucket/training", line)


@pytest.mark.long
def test_worker_full_bucket_is_single_line_error(bucket: str, proxy: FaultyProxy) -> None:
    for method in ("POST", "PUT"):
        proxy.next_faults(method, ["507"] * 100_000)
    impatient = (
        "from qcnn.trainer import worker; from qcnn.storage import sync; "
        "sync._RETRY_SECONDS = sync._RETRY_TIMEOUT_SECONDS = 0.1; worker.main()"
    )
    config = from_mapping({**_FIELDS, "epochs": 100_000, "options": {"heartbeat_timeout_seconds": 0.1}})
    folders = ("--workdir", f"{bucket}/training", "--logs", f"{bucket}/logs", "--profiler-port", "0")
    command = [sys.executable, "-c", impatient, "--experiment", config.to_json(), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert is_permanent_error(done.returncode), done.stderr
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(rf"error: bucket: request failed \(.*507.*\)\. Given: {bucket}/\w+", line)
    assert "retrying, training pauses after 0.1 s" in done.stdout
    assert "epoch 100000/" not in done.stdout


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_worker_resumes_in_another_folder_of_bucket_and_predicts(bucket: str, tmp_path: Path) -> None:
    first, second = f"{bucket}/first", f"{bucket}/second"
    assert "epoch 2/2: " in _train(first, 2)
    with opened(first) as store:
        names = store.names()
    assert {"training/history.csv", "training/checkpoints/epoch-000002.npz", "model/model.json"} <= set(names)
    assert any(name.startswith("logs/train/events.out.tfevents.") for name in names)
    output = _train(second, 4, continue_from=f"{first}/training")
    assert "continuing after epoch 2" in output
    assert "epoch 2/4: " not in output
    with local_copy(f"{second}/training") as folder:
        checkpoint = load_latest(folder / "checkpoints")
    assert checkpoint
    assert checkpoint.epochs == 4
    # A chief that is restarted after the export trains no further epoch.
    assert "epoch" not in _train(second, 4, continue_from=f"{first}/training")
    assert re.search(r"^mse \d\.\d{6}, sign accuracy", _run("qcnn.trainer.predict", "--model", f"{second}/model"), re.M)
