"""Studies in KFP: parallel trials, evaluation of the best, and repeated rows."""

import json
from pathlib import Path

import yaml

from qcnn.storage.copies import local_file
from qcnn.studies.record import SELECT_STEP
from tests.kfp.conftest import SMALL, Kubeflow


def test_study_with_failed_trials_evaluates_best(kubeflow: Kubeflow) -> None:
    search = ("--grid", "learning_rate=0.02,1e200", "--grid", "hidden_activation=linear,relu")
    flags = ("--seed", str(kubeflow.seed), "--parallelism", "2", "--wait")
    run, done = kubeflow.submit("study", *search, *SMALL, *flags, command="study")
    assert done.returncode == 0, done.stdout + done.stderr
    artifacts = kubeflow.artifacts(run)
    experiments = [
        json.loads(artifact.metadata["experiment"]) for artifact in artifacts if artifact.type == "system.Dataset"
    ]
    assert sorted(experiment["seed"] for experiment in experiments) == [kubeflow.seed + trial for trial in range(4)]
    assert {(each["learning_rate"], each["hidden_activation"]) for each in experiments} == {
        (rate, activation) for rate in (0.02, 1e200) for activation in ("linear", "relu")
    }
    (model,) = [artifact for artifact in artifacts if artifact.type == "system.Model"]
    row = kubeflow.rows()["study"]
    assert row["state"] == "succeeded"
    assert row["mse"] > 0
    assert row["val_loss"] == round(float(model.metadata["val_loss"]), 6)
    assert json.loads(model.metadata["experiment"])["learning_rate"] == 0.02
    (results,) = [artifact for artifact in artifacts if artifact.metadata["display_name"] == "results"]
    assert results.uri.endswith(".csv")
    assert results.metadata["trials"] == 4


def test_repeated_rows_equal_local_study(kubeflow: Kubeflow, bucket: str, pod: str, tmp_path: Path) -> None:
    shared = {"qubits": 4, "rounds": 12, "epochs": 2, "workers": 1, "strategy": "none", "seed": kubeflow.seed}
    rows = [{"name": "deep", "model": "deep"}, {"name": "hybrid", "model": "hybrid"}]
    (file := tmp_path / "study.yaml").write_text(yaml.safe_dump({**shared, "repeat": 2, "rows": rows}))
    where = ("--pipeline-root", f"{bucket}/root", "--pod", pod, "--parallelism", "2", "--wait")
    run, done = kubeflow.submit("rows", "--config", str(file), *where, command="study")
    assert done.returncode == 0, done.stdout + done.stderr
    local = kubeflow.run_command("study", "--config", str(file), "--runs", str(tmp_path / "runs"))
    assert local.returncode == 0, local.stdout + local.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    (uri,) = [each.uri for each in kubeflow.artifacts(run) if each.metadata["display_name"] == "results"]
    with local_file(uri) as results:
        assert results.read_bytes() == (folder / SELECT_STEP / "results.csv").read_bytes()
