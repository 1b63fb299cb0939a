"""Runs from their submission to what can be read of them."""

import json
import os
from pathlib import Path

import pytest

from qcnn.components.resources import is_pinned
from qcnn.experiment import ExperimentConfig
from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.targets.kubeflow.client import connect
from qcnn.targets.kubeflow.runs import RunPoller, follow, states
from tests.kfp.cluster import steps_log
from tests.kfp.conftest import SMALL, Ended, Kubeflow

STEPS = ("generate-data", "train", "tensorboard", "export-weights", "evaluate")


@pytest.fixture(scope="module")
def first(kubeflow: Kubeflow) -> Ended:
    return Ended(*kubeflow.submit(*SMALL, "--wait", "--run-name", "first", "--seed", str(kubeflow.seed)))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, kubeflow: Kubeflow) -> dict[str, float]:
    """The metrics of the same experiment on this machine."""
    runs = tmp_path_factory.mktemp("runs")
    done = kubeflow.type("run", *SMALL, "--seed", str(kubeflow.seed), "--runs", str(runs))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = runs.iterdir()
    return dict(json.loads((run / "evaluate" / "metrics").read_text()))


def test_every_step_is_shown_from_its_start_to_its_end(first: Ended) -> None:
    assert first.done.returncode == 0, first.done.stdout + first.done.stderr
    lines = first.done.stdout.splitlines()
    for step in STEPS:
        assert lines.index(f"{step}: succeeded") > (f"{step}: running" in lines and lines.index(f"{step}: running"))
    assert "run: succeeded" in lines


def test_the_backend_gives_the_numbers_of_this_machine(
    kubeflow: Kubeflow, first: Ended, local: dict[str, float]
) -> None:
    row = kubeflow.rows()["first"]
    assert (row["state"], row["duration"] > 0) == ("succeeded", True)
    for name in ("train_loss", "val_loss"):
        assert row[name] == pytest.approx(local[name], abs=1e-4)
    for name in ("mse", "accuracy"):
        assert row[name] == pytest.approx(local[name], abs=1e-6)


def test_every_artifact_lies_under_the_run_and_says_where_it_comes_from(kubeflow: Kubeflow, first: Ended) -> None:
    artifacts = {artifact.metadata["display_name"]: artifact for artifact in kubeflow.artifacts(first.run)}
    # Where the backend keeps the steps' logs, that is an artifact of each.
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


def test_the_same_again_is_not_done_again_another_seed_is(kubeflow: Kubeflow, first: Ended) -> None:
    again, _ = kubeflow.submit(*SMALL, "--wait", "--run-name", "again", "--seed", str(kubeflow.seed))
    other, done = kubeflow.submit(*SMALL, "--wait", "--run-name", "other", "--seed", str(kubeflow.seed + 1))
    assert done.returncode == 0, done.stdout + done.stderr

    def addresses(run: str, name: str) -> set[str]:
        return {artifact.uri for artifact in kubeflow.artifacts(run) if artifact.metadata["display_name"] == name}

    assert addresses(again, "dataset") == addresses(first.run, "dataset")
    # Behind a tag there may be another image, which trains otherwise; and what follows takes what was trained.
    for artifact in ("training", "model", "report"):
        assert (addresses(again, artifact) == addresses(first.run, artifact)) == is_pinned(kubeflow.image)
    assert not {artifact.uri for artifact in kubeflow.artifacts(other)} & {
        artifact.uri for artifact in kubeflow.artifacts(first.run)
    }
    rows = kubeflow.rows()
    assert rows["again"]["mse"] == rows["first"]["mse"] != rows["other"]["mse"]
    assert rows["other"]["seed"] == rows["first"]["seed"] + 1 == kubeflow.seed + 1


# The table has columns for what runs differ in: by the first, there is one for the qubits.
@pytest.mark.usefixtures("first")
def test_what_cannot_run_fails_in_its_first_step_whoever_submits_it(kubeflow: Kubeflow, tmp_path: Path) -> None:
    package = tmp_path / "qcnn.yaml"
    compile_qcnn(KUBEFLOW, package, kubeflow.image)
    client = connect(kubeflow.backend)
    # As the web interface does: nothing is checked before the backend has it.
    words = {**ExperimentConfig().model_dump(), "qubits": 3}
    run = client.create_run_from_pipeline_package(
        str(package), arguments=words, run_name="refused", experiment_name=kubeflow.experiment
    ).run_id
    ended = follow(RunPoller(client, kubeflow.backend, run), STEPS, print)
    assert ended.state == "FAILED"
    assert states(ended, STEPS) == {"generate-data": "FAILED"}
    row = kubeflow.rows()["refused"]
    assert (row["state"], row["qubits"], row["mse"]) == ("failed", 3, None)
    if "KUBECONFIG" in os.environ:
        assert "error: qubits: must be an integer, at least 4 and at most 32768. Given: 3" in steps_log(run)
