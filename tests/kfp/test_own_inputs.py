"""Custom data, circuit and noise in KFP runs and studies, compared with local runs."""

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
from qcnn.targets.kubeflow.runs import RunPoller, check_succeeded, follow
from tests.buckets import new_bucket
from tests.kfp.conftest import Kubeflow

_EXAMPLES = Path(__file__).parents[2] / "examples"
_SERVER = "STORAGE_EMULATOR_HOST"
# Trains in seconds.
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
        pytest.skip(f"requires {_SERVER}, a bucket server that is accessible locally and from the pods")
    with new_bucket(server) as name:
        yield f"gs://{name}"


@pytest.fixture(scope="module")
def pod(kubeflow: Kubeflow, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pod settings file with access to the bucket server for all steps."""
    settings = yaml.safe_load(Path(kubeflow.pod).read_text()) if kubeflow.pod else {}
    # KFP's launcher requires the address without http://.
    server = urllib.parse.urlsplit(os.environ[_SERVER]).netloc
    settings["environment"] = {**settings.get("environment", {}), _SERVER: server}
    path = tmp_path_factory.mktemp("pod") / "pod.yaml"
    path.write_text(yaml.safe_dump(settings))
    return str(path)


@pytest.fixture(scope="module")
def submitted(kubeflow: Kubeflow, bucket: str, pod: str) -> dict[str, str]:
    """IDs of runs by name. All runs are submitted before the tests wait for one."""
    with new_file_copy(f"{bucket}/moons.csv") as path:
        path.write_bytes((_EXAMPLES / "moons.csv").read_bytes())
    inputs = {**_INPUTS, "rows": ("--data", f"{bucket}/moons.csv", *_ROWS)}
    search = ("--grid", "learning_rate=0.01,0.02", "--parallelism", "2")
    common = ("--pod", pod, "--seed", str(kubeflow.seed))
    runs = {name: kubeflow.submit(name, *flags, *common)[0] for name, flags in inputs.items()}
    return {**runs, "search": kubeflow.submit("search", *search, *inputs["rows"], *common, command="study")[0]}


def _finish(kubeflow: Kubeflow, run: str) -> None:
    """Wait for a run to succeed."""
    ended = follow(RunPoller(kubeflow.backend, run), lambda run: (), print)
    check_succeeded(ended, ())


@pytest.mark.parametrize("name", list(_INPUTS))
def test_run_with_custom_inputs_equals_local_run(
    kubeflow: Kubeflow, submitted: dict[str, str], tmp_path: Path, name: str
) -> None:
    data = ("--data", str(_EXAMPLES / "moons.csv")) if name == "rows" else ()
    done = kubeflow.run_command("run", *data, *_INPUTS[name], "--seed", str(kubeflow.seed), "--runs", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.iterdir()
    local = json.loads((run / "evaluate" / "metrics").read_text())
    _finish(kubeflow, submitted[name])
    row = kubeflow.rows()[name]
    assert row["state"] == "succeeded"
    for metric in ("train_loss", "val_loss", "mse", "accuracy"):
        assert row[metric] == pytest.approx(local[metric], abs=1e-6)


def test_dataset_has_sha256_of_its_file(kubeflow: Kubeflow, submitted: dict[str, str], bucket: str) -> None:
    sha256 = hashlib.sha256((_EXAMPLES / "moons.csv").read_bytes()).hexdigest()
    for name in ("rows", "search"):
        _finish(kubeflow, submitted[name])
        found = _datasets(kubeflow, submitted[name])
        assert {each.metadata["data_sha256"] for each in found} == {sha256}
        assert {json.loads(each.metadata["experiment"])["data"] for each in found} == {f"{bucket}/moons.csv"}


def test_dataset_is_regenerated_only_if_file_changes(kubeflow: Kubeflow, bucket: str, pod: str) -> None:
    content = (_EXAMPLES / "moons.csv").read_bytes()
    flags = ("--pod", pod, "--data", f"{bucket}/changing.csv", *_ROWS, "--seed", str(kubeflow.seed))
    datasets = {}
    for name, written in (("before", content), ("same", content), ("after", content + b"0.5,0.5,1\n")):
        with new_file_copy(f"{bucket}/changing.csv") as path:
            path.write_bytes(written)
        run, _ = kubeflow.submit(name, *flags)
        _finish(kubeflow, run)
        (datasets[name],) = _datasets(kubeflow, run)
        assert datasets[name].metadata["data_sha256"] == hashlib.sha256(written).hexdigest()
    assert datasets["same"].uri == datasets["before"].uri != datasets["after"].uri


def _datasets(kubeflow: Kubeflow, run: str) -> list[Artifact]:
    """Return the datasets of a run."""
    return [each for each in kubeflow.artifacts(run) if each.type == "system.Dataset"]


def test_study_with_custom_data_evaluates_best_trial(
    kubeflow: Kubeflow, submitted: dict[str, str], bucket: str
) -> None:
    _finish(kubeflow, submitted["search"])
    row = kubeflow.rows()["search"]
    assert (row["state"], row["data"]) == ("succeeded", f"{bucket}/moons.csv")
    assert row["mse"] > 0
