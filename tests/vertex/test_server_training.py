"""Training on the server: a custom job with two workers, and the complete pipeline."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import google.cloud.storage as storage
import numpy as np
import pytest
import yaml
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform_v1 as v1

from qcnn.experiment.parsing import from_mapping
from qcnn.pipelines.compiler import PipelineTarget, compile_qcnn
from qcnn.pipelines.parts import train_in_step
from qcnn.pipelines.vertex import VERTEX
from tests.vertex.clients import custom_job, jobs, pipelines
from tests.vertex.fake_service import job_run
from tests.vertex.fake_service.pipelines.jobs import CANCELLED, FAILED, SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex

_ROOT = Path(__file__).parents[2]
_EXPERIMENT = {"qubits": 4, "rounds": 10, "epochs": 3, "batch_size": 8, "workers": 2}


def _losses(text: str) -> list[list[float]]:
    return [[float(row["train_loss"]), float(row["val_loss"])] for row in csv.DictReader(text.splitlines())]


def _local_losses(folder: Path) -> list[list[float]]:
    """Return the losses of the same experiment in a run of the qcnn command on the local machine."""
    flags = [text for name, value in _EXPERIMENT.items() for text in (f"--{name}", str(value))]
    command = [str(Path(sys.executable).parent / "qcnn"), "run", "--runs", str(folder), *flags]
    subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
    (history,) = folder.glob("**/training/history.csv")
    return _losses(history.read_text())


@pytest.mark.long
@pytest.mark.parametrize(
    "target", [PipelineTarget(train=lambda pod: train_in_step), VERTEX], ids=["within the step", "as a custom job"]
)
def test_pipeline_has_losses_of_local_run(vertex: Vertex, target: PipelineTarget, tmp_path: Path) -> None:
    compile_qcnn(target, tmp_path / "qcnn.yaml", "registry/qcnn:1")
    job = v1.PipelineJob(
        display_name="qcnn",
        pipeline_spec=yaml.safe_load((tmp_path / "qcnn.yaml").read_text()),
        runtime_config={"gcs_output_directory": f"gs://{vertex.bucket}/root", "parameter_values": _EXPERIMENT},
    )
    made = pipelines(vertex).create_pipeline_job(parent=vertex.parent, pipeline_job=job, pipeline_job_id="one")
    ended = vertex.until_pipeline(made.name, SUCCEEDED, FAILED, CANCELLED)
    assert ended.state == SUCCEEDED, ended.error
    details = {detail.task_name: detail for detail in ended.job_detail.task_details}
    training = details["train"].outputs["training"].artifacts[0]
    history = _blob(vertex, f"{training.uri}/history.csv")
    np.testing.assert_allclose(_losses(history), _local_losses(tmp_path / "runs"), rtol=0, atol=1e-8)
    metrics = dict(details["evaluate"].outputs["metrics"].artifacts[0].metadata)
    assert json.loads(_blob(vertex, details["evaluate"].outputs["metrics"].artifacts[0].uri))["mse"] == metrics["mse"]
    assert details["evaluate"].outputs["report"].artifacts[0].uri.endswith(".html")


@pytest.mark.long
def test_custom_job_of_two_workers_has_losses_of_local_run(vertex: Vertex, tmp_path: Path) -> None:
    base = f"gs://{vertex.bucket}/job"
    folders = [f"--{flag}={base}/{folder}" for flag, folder in (("workdir", "checkpoints"), ("logs", "logs"))]
    experiment = from_mapping(_EXPERIMENT).to_json()
    pool = v1.WorkerPoolSpec(
        machine_spec={"machine_type": "n1-standard-4"},
        replica_count=1,
        container_spec={
            "image_uri": "image",
            "command": ["python", "-m", "qcnn.trainer.worker"],
            "args": ["--experiment", experiment, *folders],
        },
    )
    job = custom_job(pool, pool, base_output_directory={"output_uri_prefix": base})
    name = jobs(vertex).create_custom_job(parent=vertex.parent, custom_job=job).name
    ended = vertex.until_state(name, job_run.SUCCEEDED, job_run.FAILED)
    assert ended.state == job_run.SUCCEEDED, ended.error
    history = _blob(vertex, f"{base}/checkpoints/history.csv")
    np.testing.assert_allclose(_losses(history), _local_losses(tmp_path / "runs"), rtol=0, atol=1e-8)


def _blob(server: Vertex, uri: str) -> str:
    bucket, _, path = uri.removeprefix("gs://").partition("/")
    options = {"api_endpoint": server.environment["STORAGE_EMULATOR_HOST"]}
    client = storage.Client(project="any", credentials=AnonymousCredentials(), client_options=options)
    return str(client.bucket(bucket).blob(path).download_as_text())
