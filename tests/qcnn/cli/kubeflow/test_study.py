"""Tests of qcnn study --target kubeflow with a stub of KFP that checks the published types."""

import hashlib
from pathlib import Path

from qcnn.experiment.parsing import as_parameters
from tests.buckets import ROWS
from tests.kfp_backend import IMAGE, FakeBackend, spec_of
from tests.qcnn.cli.conftest import STUDY, Typed


def test_study_sends_search_and_shared_fields(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    arguments = ("--target", "kubeflow", "--host", backend.host, "--config", str(tmp_path / "study.yaml"))
    search = ("--image", IMAGE, "--range", "train-fraction=0.5:0.8", "--random", "3", "--parallelism", "4")
    code, _, err = typed("study", *arguments, *search)
    assert (code, err) == (0, "")
    (run,) = backend.objects["runs"].values()
    fields = {"qubits": 4, "rounds": 12, "batch_size": 8, "epochs": 3, "workers": 1, "strategy": "none"}
    assert run["runtime_config"]["parameters"] == {
        "experiment": as_parameters(fields),
        "grid": {"learning_rate": [0.0001, 0.02], "model": ["hybrid", "deep"]},
        "ranges": {"train_fraction": [0.5, 0.8]},
        "random": 3,
        "data_sha256": {},
    }
    assert run["display_name"].startswith("qcnn-study-")
    assert spec_of(run)["root"]["inputDefinitions"]["parameters"]["metric"]["defaultValue"] == "val_loss"
    (loop,) = [task for task in spec_of(run)["root"]["dag"]["tasks"].values() if "iteratorPolicy" in task]
    assert loop["iteratorPolicy"] == {"parallelismLimit": 4}


def test_study_sends_metric_that_selects(backend: FakeBackend, typed: Typed) -> None:
    study = ("study", "--target", "kubeflow", "--host", backend.host, "--image", IMAGE, "--grid", "seed=1,2")
    assert typed(*study, "--metric", "val_accuracy")[0] == 0
    (run,) = backend.objects["runs"].values()
    assert run["runtime_config"]["parameters"]["metric"] == "val_accuracy"
    tasks = spec_of(run)["root"]["dag"]["tasks"]
    users = [name for name, task in tasks.items() if "metric" in task["inputs"]["parameters"]]
    assert sorted(users) == ["plan-study", "select-best"]


def test_study_sends_digests_of_data_files(backend: FakeBackend, typed: Typed, rows: str) -> None:
    study = ("study", "--target", "kubeflow", "--host", backend.host, "--image", IMAGE, "--encoding", "ry")
    code, _, err = typed(*study, "--data", rows, "--grid", "learning_rate=0.1,0.2")
    assert (code, err) == (0, "")
    (run,) = backend.objects["runs"].values()
    assert run["runtime_config"]["parameters"]["data_sha256"] == {rows: hashlib.sha256(ROWS).hexdigest()}
    code, _, err = typed(*study, "--grid", f"data={rows},rows.csv", "--data", rows)
    assert (code, err.splitlines()[-1].rpartition(". Given: ")[2]) == (2, "rows.csv")
