"""Training, continuing and predicting with nothing but addresses in a bucket."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.experiment_io import from_mapping
from qcnn.model.checkpoints import load_latest
from qcnn.startup import is_permanent_error
from qcnn.storage.copies import local_copy
from tests.qcnn.storage.conftest import opened
from tests.qcnn.storage.faults import FaultyProxy

_WORDS = {"qubits": 4, "rounds": 10, "strategy": "none", "workers": 1}


def _type(module: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _train(place: str, epochs: int, continue_from: str = "") -> str:
    config = from_mapping({**_WORDS, "epochs": epochs, "options": {"continue_from": continue_from}})
    folders = {"workdir": "training", "logs": "logs", "export": "model"}
    words = [word for flag, name in folders.items() for word in (f"--{flag}", f"{place}/{name}")]
    return _type("qcnn.trainer.worker", "--experiment", config.to_json(), "--profiler-port", "0", *words)


@pytest.mark.long
def test_a_bucket_that_is_gone_for_good_ends_a_worker_for_good(
    monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    impatient = "from qcnn.storage import s3; s3._TRIES = 1; from qcnn.trainer import worker; worker.main()"
    config = from_mapping({**_WORDS, "epochs": 1})
    words = ("--experiment", config.to_json(), "--workdir", "s3://bucket/training", "--logs", "s3://bucket/logs")
    done = subprocess.run([sys.executable, "-c", impatient, *words], capture_output=True, text=True, check=False)
    # It has been waited for; a worker that is started again would wait as long once more.
    assert is_permanent_error(done.returncode), done.stderr
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(r"error: bucket: does not answer as it should \(.*\)\. Given: s3://bucket/training", line)


@pytest.mark.long
def test_training_in_a_full_bucket_ends_in_one_line(bucket: str, proxy: FaultyProxy) -> None:
    for method in ("POST", "PUT"):
        proxy.next_faults(method, ["507"] * 100_000)
    impatient = (
        "from qcnn.trainer import worker; from qcnn.storage import sync; "
        "sync._AGAIN_SECONDS = sync._LAST_SECONDS = 0.1; worker.main()"
    )
    config = from_mapping({**_WORDS, "epochs": 100_000, "options": {"heartbeat_timeout_seconds": 0.1}})
    folders = ("--workdir", f"{bucket}/training", "--logs", f"{bucket}/logs", "--profiler-port", "0")
    command = [sys.executable, "-c", impatient, "--experiment", config.to_json(), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert is_permanent_error(done.returncode), done.stderr
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(rf"error: bucket: does not answer as it should \(.*507.*\)\. Given: {bucket}/\w+", line)
    assert "it is tried again, and training waits for it after 0.1 s" in done.stdout
    assert "epoch 100000/" not in done.stdout


@pytest.mark.long
def test_a_training_in_a_bucket_is_continued_in_another_and_predicts(bucket: str, tmp_path: Path) -> None:
    first, second = f"{bucket}/first", f"{bucket}/second"
    assert "epoch 2/2: " in _train(first, 2)
    with opened(first) as store:
        names = store.names()
    assert {"training/history.csv", "training/checkpoints/epoch-000002.npz", "model/model.json"} <= set(names)
    assert any(name.startswith("logs/train/events.out.tfevents.") for name in names)
    said = _train(second, 4, continue_from=f"{first}/training")
    assert "continuing after epoch 2" in said
    assert "epoch 2/4: " not in said
    with local_copy(f"{second}/training") as folder:
        checkpoint = load_latest(folder / "checkpoints")
    assert checkpoint
    assert checkpoint.epochs == 4
    # As a chief that is lost after all was published: nothing is trained again.
    assert "epoch" not in _train(second, 4, continue_from=f"{first}/training")
    assert re.search(
        r"^mse \d\.\d{6}, sign accuracy", _type("qcnn.trainer.predict", "--model", f"{second}/model"), re.M
    )
