"""The compiled pipeline on a Vertex AI of this machine; that it ends with the right losses: tests/vertex."""

from pathlib import Path

import pytest
import yaml
from google.cloud import aiplatform_v1 as v1

from pipelines.compilation import compile_qcnn
from pipelines.vertex.target import VERTEX
from tests.vertex.clients import pipelines
from tests.vertex.server.job_run import CANCELLED, RUNNING
from tests.vertex.server.pipelines import jobs as pipeline_states
from tests.vertex.server.vertex import Vertex

_ENDLESS = {"qubits": 4, "rounds": 10, "epochs": 100_000, "batch_size": 8, "workers": 2}


@pytest.mark.long
def test_a_pipeline_that_is_cancelled_takes_its_training_along(vertex: Vertex, tmp_path: Path) -> None:
    compile_qcnn(VERTEX, tmp_path / "qcnn.yaml")
    job = v1.PipelineJob(
        display_name="qcnn",
        pipeline_spec=yaml.safe_load((tmp_path / "qcnn.yaml").read_text()),
        runtime_config={"gcs_output_directory": f"gs://{vertex.bucket}/root", "parameter_values": _ENDLESS},
    )
    made = pipelines(vertex).create_pipeline_job(parent=vertex.parent, pipeline_job=job, pipeline_job_id="one")

    def training() -> v1.CustomJob | None:
        return next((each for each in vertex.custom_jobs() if "qcnn_job" in each.labels), None)

    found = vertex.state.until(training)
    assert found.labels["qcnn_run"].startswith("one-")
    vertex.until_state(found.name, RUNNING)
    vertex.until_line(found.name, "workerpool0-0", "epoch 3/")
    pipelines(vertex).cancel_pipeline_job(name=made.name)
    vertex.until_state(found.name, CANCELLED)
    vertex.until_pipeline(made.name, pipeline_states.CANCELLED)
