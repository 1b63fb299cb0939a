"""Registration of models and tracking by KFP runs, whose steps are pods."""

import contextlib
import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from qcnn.registry.address import open_registry
from tests.kfp.conftest import SMALL, Kubeflow
from tests.mlflow_server import mlflow_server


@pytest.fixture
def tracking_server(bucket: str, tmp_path: Path) -> Iterator[str]:
    """URL of an MLflow server on the host of the bucket server, which pods can access."""
    host = urllib.parse.urlsplit(os.environ["STORAGE_EMULATOR_HOST"]).hostname
    assert host
    with mlflow_server(tmp_path, host=host) as url:
        yield url


def test_last_step_registers_and_promotes_the_better_model(kubeflow: Kubeflow, bucket: str, pod: str) -> None:
    flags = (
        "--pod",
        pod,
        "--seed",
        str(kubeflow.seed),
        "--register",
        "chain",
        "--registry",
        f"{bucket}/models",
        "--wait",
    )
    longer = (*SMALL, "--epochs", "30", "--rounds", "80")
    for name, fields in {"first": SMALL, "better": longer, "worse": SMALL}.items():
        _, done = kubeflow.submit(f"registered-{name}", *fields, *flags)
        assert done.returncode == 0, done.stdout + done.stderr
    promoted = {
        name.removeprefix("registered-"): row["promoted"] for name, row in kubeflow.rows().items() if "reg" in name
    }
    assert promoted == {"first": 1, "better": 1, "worse": 0}
    with contextlib.closing(open_registry(f"{bucket}/models")) as registry:
        assert [each.number for each in registry.versions("chain")] == [1, 2, 3]
        assert registry.labels("chain").versions == {"champion": 2}


def test_epochs_metrics_and_model_are_tracked(kubeflow: Kubeflow, pod: str, tracking_server: str) -> None:
    from mlflow.tracking import MlflowClient

    flags = ("--pod", pod, "--seed", str(kubeflow.seed), "--tracking", f"mlflow:{tracking_server}", "--wait")
    _, done = kubeflow.submit("tracked", *SMALL, *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    client = MlflowClient(tracking_server)
    experiment = client.get_experiment_by_name("qcnn")
    assert experiment
    (tracked,) = client.search_runs([experiment.experiment_id])
    assert tracked.info.status == "FINISHED"
    assert [each.step for each in client.get_metric_history(tracked.info.run_id, "val_loss")] == [1, 2, 3]
    row = kubeflow.rows()["tracked"]
    for name in ("mse", "accuracy"):
        # KFP stores 6 decimals.
        assert tracked.data.metrics[name] == pytest.approx(row[name], abs=1e-6)
    outputs = client.get_run(tracked.info.run_id).outputs
    assert outputs
    assert len(outputs.model_outputs) == 1
