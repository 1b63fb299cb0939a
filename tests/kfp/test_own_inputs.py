"""Custom data, circuits and noise in KFP runs and studies, compared with local runs."""

import hashlib
import json
from pathlib import Path

import pytest

from qcnn.storage.copies import new_file_copy
from qcnn.targets.artifacts import Artifact
from tests.class_runs import rows_of
from tests.kfp.conftest import Kubeflow

_EXAMPLES = Path(__file__).parents[2] / "examples"
_MOONS = _EXAMPLES / "moons.csv"
# Trains in seconds.
_SHORT = ("--epochs", "3", "--workers", "1", "--strategy", "none")
_ROWS = ("--encoding", "ry", "--qubits", "4", *_SHORT)
_IN_GATES = (
    "--model",
    str(_EXAMPLES / "reuploading.qasm"),
    "--qubits",
    "2",
    "--encoding",
    "circuit",
    "--inputs",
    "u,v",
)
_INPUTS = {
    "rows": _ROWS,
    "classes": ("--loss", "cross_entropy", *_ROWS),
    "inputs": (*_IN_GATES, *_SHORT),
    "circuit": ("--model", str(_EXAMPLES / "stabilizers.qasm"), "--qubits", "8", "--rounds", "6", *_SHORT),
    "noise": ("--config", str(_EXAMPLES / "noise.yaml"), "--qubits", "4", "--rounds", "12", *_SHORT),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Local data files by the names of `_INPUTS`."""
    ten = tmp_path_factory.mktemp("classes") / "classes.csv"
    ten.write_text(rows_of([f"kind {letter}" for letter in "abcdefghij"]))
    return {"rows": _MOONS, "classes": ten, "inputs": _MOONS}


@pytest.fixture(scope="module")
def submitted(kubeflow: Kubeflow, bucket: str, pod: str, files: dict[str, Path]) -> dict[str, str]:
    """IDs of runs by name. All runs are submitted before the tests wait for one."""
    for each in set(files.values()):
        with new_file_copy(f"{bucket}/{each.name}") as path:
            path.write_bytes(each.read_bytes())
    data = {name: ("--data", f"{bucket}/{file.name}") for name, file in files.items()}
    search = ("--grid", "learning_rate=0.01,0.02", "--parallelism", "2")
    common = ("--pod", pod, "--seed", str(kubeflow.seed))
    runs = {name: kubeflow.submit(name, *data.get(name, ()), *flags, *common)[0] for name, flags in _INPUTS.items()}
    study = kubeflow.submit("search", *search, *data["rows"], *_ROWS, *common, command="study")[0]
    return {**runs, "search": study}


@pytest.mark.parametrize("name", list(_INPUTS))
def test_run_with_custom_inputs_equals_local_run(
    kubeflow: Kubeflow, submitted: dict[str, str], files: dict[str, Path], tmp_path: Path, name: str
) -> None:
    data = ("--data", str(files[name])) if name in files else ()
    done = kubeflow.run_command("run", *data, *_INPUTS[name], "--seed", str(kubeflow.seed), "--runs", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.iterdir()
    local = json.loads((run / "evaluate" / "metrics").read_text())
    kubeflow.finish(submitted[name])
    row = kubeflow.rows()[name]
    assert row["state"] == "succeeded"
    for metric in ("train_loss", "val_loss", "accuracy"):
        assert row[metric] == pytest.approx(local[metric], abs=1e-6)
    # `loss` is a field of the experiment, too.
    assert row["metrics.loss"] == pytest.approx(local["loss"], abs=1e-6)


def test_dataset_has_sha256_of_its_file(kubeflow: Kubeflow, submitted: dict[str, str], bucket: str) -> None:
    sha256 = hashlib.sha256(_MOONS.read_bytes()).hexdigest()
    for name in ("rows", "search"):
        kubeflow.finish(submitted[name])
        found = _datasets(kubeflow, submitted[name])
        assert {each.metadata["data_sha256"] for each in found} == {sha256}
        assert {json.loads(each.metadata["experiment"])["data"] for each in found} == {f"{bucket}/moons.csv"}


def test_dataset_is_regenerated_only_if_file_changes(kubeflow: Kubeflow, bucket: str, pod: str) -> None:
    content = _MOONS.read_bytes()
    flags = ("--pod", pod, "--data", f"{bucket}/changing.csv", *_ROWS, "--seed", str(kubeflow.seed))
    datasets = {}
    for name, written in (("before", content), ("same", content), ("after", content + b"0.5,0.5,1\n")):
        with new_file_copy(f"{bucket}/changing.csv") as path:
            path.write_bytes(written)
        run, _ = kubeflow.submit(name, *flags)
        kubeflow.finish(run)
        (datasets[name],) = _datasets(kubeflow, run)
        assert datasets[name].metadata["data_sha256"] == hashlib.sha256(written).hexdigest()
    assert datasets["same"].uri == datasets["before"].uri != datasets["after"].uri


def _datasets(kubeflow: Kubeflow, run: str) -> list[Artifact]:
    """Return the datasets of a run."""
    return [each for each in kubeflow.artifacts(run) if each.type == "system.Dataset"]


def test_study_with_custom_data_evaluates_best_trial(
    kubeflow: Kubeflow, submitted: dict[str, str], bucket: str
) -> None:
    kubeflow.finish(submitted["search"])
    row = kubeflow.rows()["search"]
    assert (row["state"], row["data"]) == ("succeeded", f"{bucket}/moons.csv")
    assert row["mse"] > 0
