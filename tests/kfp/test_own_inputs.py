"""A user's own data, circuit and noise in the backend: as one run, as a study, and with the numbers of this machine."""

import hashlib
import json
import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from qcnn.storage.copies import new_file_copy
from qcnn.targets.artifacts import Artifact
from qcnn.targets.kubeflow.client import connect
from qcnn.targets.kubeflow.runs import RunPoller, check_succeeded, follow
from tests.buckets import new_bucket
from tests.kfp.conftest import Kubeflow

_EXAMPLES = Path(__file__).parents[2] / "examples"
_SERVER = "STORAGE_EMULATOR_HOST"
# Seconds to train.
_SHORT = ("--epochs", "3", "--workers", "1", "--strategy", "none")
_ROWS = ("--encoding", "ry", "--qubits", "4", *_SHORT)
_INPUTS = {
    "rows": _ROWS,
    "circuit": ("--model", str(_EXAMPLES / "stabilizers.qasm"), "--qubits", "8", "--rounds", "6", *_SHORT),
    "noise": ("--config", str(_EXAMPLES / "noise.yaml"), "--qubits", "4", "--rounds", "12", *_SHORT),
}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    if not (server := os.environ.get(_SERVER)):
        pytest.skip(f"{_SERVER} is not set: no bucket that this machine and the pods reach")
    with new_bucket(server) as name:
        yield f"gs://{name}"


@pytest.fixture(scope="module")
def pod(kubeflow: Kubeflow, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The settings of the training's pods, with which steps reach the bucket's server too."""
    settings = yaml.safe_load(Path(kubeflow.pod).read_text()) if kubeflow.pod else {}
    # Kubeflow's launcher takes the server's address without http://.
    server = urllib.parse.urlsplit(os.environ[_SERVER]).netloc
    settings["environment"] = {**settings.get("environment", {}), _SERVER: server}
    path = tmp_path_factory.mktemp("pod") / "pod.yaml"
    path.write_text(yaml.safe_dump(settings))
    return str(path)


@pytest.fixture(scope="module")
def submitted(kubeflow: Kubeflow, bucket: str, pod: str) -> dict[str, str]:
    """The ids of runs by their names; all are submitted before any is waited for."""
    with new_file_copy(f"{bucket}/moons.csv") as path:
        path.write_bytes((_EXAMPLES / "moons.csv").read_bytes())
    own = {**_INPUTS, "rows": ("--data", f"{bucket}/moons.csv", *_ROWS)}
    search = ("--grid", "learning_rate=0.01,0.02", "--parallelism", "2")
    common = ("--pod", pod, "--seed", str(kubeflow.seed), "--run-name")
    runs = {name: kubeflow.submit(*flags, *common, name)[0] for name, flags in own.items()}
    return {**runs, "search": kubeflow.submit(*search, *own["rows"], *common, "search", command="study")[0]}


def _finish(kubeflow: Kubeflow, run: str) -> None:
    """Wait for a run to succeed."""
    ended = follow(RunPoller(connect(kubeflow.backend), kubeflow.backend, run), (), print)
    check_succeeded(ended, ())


@pytest.mark.parametrize("name", list(_INPUTS))
def test_run_of_own_inputs_gives_the_numbers_of_this_machine(
    kubeflow: Kubeflow, submitted: dict[str, str], tmp_path: Path, name: str
) -> None:
    data = ("--data", str(_EXAMPLES / "moons.csv")) if name == "rows" else ()
    done = kubeflow.type("run", *data, *_INPUTS[name], "--seed", str(kubeflow.seed), "--runs", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.iterdir()
    local = json.loads((run / "evaluate" / "metrics").read_text())
    _finish(kubeflow, submitted[name])
    row = kubeflow.rows()[name]
    assert row["state"] == "succeeded"
    for metric in ("train_loss", "val_loss", "mse", "accuracy"):
        assert row[metric] == pytest.approx(local[metric], abs=1e-6)


def test_a_dataset_names_the_contents_of_the_file_that_it_was_made_of(
    kubeflow: Kubeflow, submitted: dict[str, str], bucket: str
) -> None:
    sha256 = hashlib.sha256((_EXAMPLES / "moons.csv").read_bytes()).hexdigest()
    for name in ("rows", "search"):
        _finish(kubeflow, submitted[name])
        found = _datasets(kubeflow, submitted[name])
        assert {each.metadata["data_sha256"] for each in found} == {sha256}
        assert {json.loads(each.metadata["experiment"])["data"] for each in found} == {f"{bucket}/moons.csv"}


def test_data_are_made_anew_of_a_file_that_has_changed_and_of_no_other(
    kubeflow: Kubeflow, bucket: str, pod: str
) -> None:
    content = (_EXAMPLES / "moons.csv").read_bytes()
    words = ("--pod", pod, "--data", f"{bucket}/changing.csv", *_ROWS, "--seed", str(kubeflow.seed), "--run-name")
    made = {}
    for name, written in (("before", content), ("same", content), ("after", content + b"0.5,0.5,1\n")):
        with new_file_copy(f"{bucket}/changing.csv") as path:
            path.write_bytes(written)
        run, _ = kubeflow.submit(*words, name)
        _finish(kubeflow, run)
        (made[name],) = _datasets(kubeflow, run)
        assert made[name].metadata["data_sha256"] == hashlib.sha256(written).hexdigest()
    assert made["same"].uri == made["before"].uri != made["after"].uri


def _datasets(kubeflow: Kubeflow, run: str) -> list[Artifact]:
    """Return the datasets of a run."""
    return [each for each in kubeflow.artifacts(run) if each.type == "system.Dataset"]


def test_study_of_own_rows_evaluates_the_best_trial(kubeflow: Kubeflow, submitted: dict[str, str], bucket: str) -> None:
    _finish(kubeflow, submitted["search"])
    row = kubeflow.rows()["search"]
    assert (row["state"], row["data"]) == ("succeeded", f"{bucket}/moons.csv")
    assert row["mse"] > 0
