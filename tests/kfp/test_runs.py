"""KFP runs: states, metrics, artifacts and cache."""

import json
import os
from pathlib import Path

import pytest

from qcnn.components.resources import is_pinned
from qcnn.experiment.config import ExperimentConfig
from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.targets.kubeflow.runs import RunPoller, follow, task_parts
from tests.kfp.cluster import steps_log
from tests.kfp.conftest import SMALL, FinishedRun, Kubeflow

STEPS = ("generate-data", "train", "tensorboard", "export-weights", "evaluate")


@pytest.fixture(scope="module")
def first(kubeflow: Kubeflow) -> FinishedRun:
    return FinishedRun(*kubeflow.submit("first", *SMALL, "--wait", "--seed", str(kubeflow.seed)))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, kubeflow: Kubeflow) -> dict[str, float]:
    """Metrics of the same experiment in a local run."""
    runs = tmp_path_factory.mktemp("runs")
    done = kubeflow.run_command("run", *SMALL, "--seed", str(kubeflow.seed), "--runs", str(runs))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = runs.iterdir()
    return dict(json.loads((run / "evaluate" / "metrics").read_text()))


def test_wait_reports_states_of_all_steps(first: FinishedRun) -> None:
    assert first.done.returncode == 0, first.done.stdout + first.done.stderr
    lines = first.done.stdout.splitlines()
    for step in STEPS:
        assert lines.index(f"{step}: succeeded") > (f"{step}: running" in lines and lines.index(f"{step}: running"))
    assert lines[-1] == "run: succeeded"


def test_run_metrics_equal_local_run(kubeflow: Kubeflow, first: FinishedRun, local: dict[str, float]) -> None:
    row = kubeflow.rows()["first"]
    assert (row["state"], row["duration"] > 0) == ("succeeded", True)
    for name in ("train_loss", "val_loss"):
        assert row[name] == pytest.approx(local[name], abs=1e-4)
    for name in ("mse", "accuracy"):
        assert row[name] == pytest.approx(local[name], abs=1e-6)


def test_artifacts_are_in_run_folder_with_provenance(kubeflow: Kubeflow, first: FinishedRun) -> None:
    artifacts = {artifact.metadata["display_name"]: artifact for artifact in kubeflow.artifacts(first.run)}
    # KFP can store the logs of steps as artifacts.
    artifacts.pop("executor-logs", None)
    written = {
        "dataset",
        "training",
        "logs",
        "link",
        "model",
        "predictions",
        "metrics",
        "confusion",
        "report",
        "summary",
    }
    assert set(artifacts) == written
    for name, artifact in artifacts.items():
        assert first.run in artifact.uri
        if name not in ("metrics", "confusion"):
            assert artifact.metadata["image"] == kubeflow.image
            assert json.loads(artifact.metadata["experiment"])["qubits"] == 4


def test_equal_run_is_cached_unless_seed_changes(kubeflow: Kubeflow, first: FinishedRun) -> None:
    again, _ = kubeflow.submit("again", *SMALL, "--wait", "--seed", str(kubeflow.seed))
    other, done = kubeflow.submit("other", *SMALL, "--wait", "--seed", str(kubeflow.seed + 1))
    assert done.returncode == 0, done.stdout + done.stderr

    def uris(run: str, name: str) -> set[str]:
        return {artifact.uri for artifact in kubeflow.artifacts(run) if artifact.metadata["display_name"] == name}

    assert uris(again, "dataset") == uris(first.run, "dataset")
    # Training is cached for pinned images only, because the image of a tag can change. Later steps depend on it.
    for artifact in ("training", "model", "report"):
        assert (uris(again, artifact) == uris(first.run, artifact)) == is_pinned(kubeflow.image)
    assert not {artifact.uri for artifact in kubeflow.artifacts(other)} & {
        artifact.uri for artifact in kubeflow.artifacts(first.run)
    }
    rows = kubeflow.rows()
    assert rows["again"]["mse"] == rows["first"]["mse"] != rows["other"]["mse"]
    assert rows["other"]["seed"] == rows["first"]["seed"] + 1 == kubeflow.seed + 1


# The table has columns for fields that differ between runs. With the first run, there is a column for the qubits.
@pytest.mark.usefixtures("first")
def test_invalid_experiment_fails_in_first_step(kubeflow: Kubeflow, tmp_path: Path) -> None:
    package = tmp_path / "qcnn.yaml"
    compile_qcnn(KUBEFLOW, package, kubeflow.image)
    client = kubeflow.backend.client
    # Like the KFP UI, which does not validate parameters before it creates a run.
    fields = {**ExperimentConfig().model_dump(), "qubits": 3}
    name = kubeflow.unique("rejected")
    run = client.create_run_from_pipeline_package(
        str(package), arguments=fields, run_name=name, experiment_name=kubeflow.experiment
    ).run_id
    ended = follow(RunPoller(kubeflow.backend, run), lambda run: task_parts(run, STEPS), print)
    assert ended.state == "FAILED"
    assert [(part.name, part.state) for part in task_parts(ended, STEPS)] == [("generate-data", "failed")]
    row = kubeflow.rows()["rejected"]
    assert (row["state"], row["qubits"], row["mse"]) == ("failed", 3, None)
    if "KUBECONFIG" in os.environ:
        assert "error: qubits: must be at least 4 with hybrid. Given: 3" in steps_log(run)
