"""KFP runs with the Python API."""

from pathlib import Path
from typing import Any

import pytest

import qcnn
from qcnn.yaml_files import read_file
from tests.kfp.conftest import Kubeflow

FIELDS: dict[str, Any] = {"qubits": 4, "rounds": 12, "batch_size": 8, "epochs": 3, "workers": 1, "strategy": "none"}


def test_submit_wait_metrics_and_delete(kubeflow: Kubeflow, tmp_path: Path) -> None:
    experiment = qcnn.Experiment(**FIELDS, seed=kubeflow.seed + 1)
    pod = read_file(Path(kubeflow.pod), "pod") if kubeflow.pod else {}
    settings: dict[str, Any] = {
        "host": kubeflow.host,
        "metadata_host": kubeflow.metadata_host,
        "experiment": kubeflow.experiment,
    }
    name = kubeflow.unique("from Python")
    job = qcnn.submit(experiment, "kubeflow", **settings, image=kubeflow.image, pod=pod, run_name=name)
    status = job.wait(timeout=600)
    assert status.state == "succeeded"
    assert {"generate-data", "train", "evaluate"} <= {part.name for part in status.parts}
    # The log of a pod is available while the pod exists.
    assert [line for line in job.logs() if line.startswith("[train] ") and "epoch 3/3" in line]
    local = qcnn.train(experiment, tmp_path / "local", progress=False)
    metrics = job.metrics()
    for metric in ("mse", "accuracy"):
        assert metrics[metric] == pytest.approx(local.metrics[metric], abs=1e-6)
    connection = {"host": kubeflow.host, "metadata_host": kubeflow.metadata_host}
    assert qcnn.get_job(name, "kubeflow", **connection).name == job.name
    job.delete()
    with pytest.raises(qcnn.QcnnError, match=job.name):
        job.status()
