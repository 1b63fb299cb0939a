"""The compiled pipeline on the local Vertex AI server. tests/vertex checks the losses."""

import contextlib
import hashlib
import json
from pathlib import Path

import pytest
import yaml
from google.cloud import aiplatform_v1 as v1

import qcnn
from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.vertex import VERTEX
from qcnn.registry.address import open_registry
from qcnn.registry.registration_settings import RegistrationSettings
from qcnn.storage.copies import new_file_copy
from tests.buckets import ROWS
from tests.vertex.clients import pipelines
from tests.vertex.fake_service.job_run import CANCELLED, RUNNING
from tests.vertex.fake_service.pipelines import jobs as pipeline_states
from tests.vertex.fake_service.vertex import Vertex

_STATES = v1.PipelineTaskDetail.State
_ENDLESS = {"qubits": 4, "rounds": 10, "epochs": 100_000, "batch_size": 8, "workers": 2}


@pytest.mark.long
def test_cancelled_pipeline_cancels_custom_job(vertex: Vertex, tmp_path: Path) -> None:
    compile_qcnn(VERTEX, tmp_path / "qcnn.yaml", "registry/qcnn:1")
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


@pytest.mark.long
def test_data_file_is_cached_by_content(vertex: Vertex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", vertex.process_environment()["STORAGE_EMULATOR_HOST"])
    address = f"gs://{vertex.bucket}/mine/rows.csv"
    compile_qcnn(VERTEX, tmp_path / "qcnn.yaml", "registry/qcnn:1")
    words = {**_ENDLESS, "rounds": 0, "data": address, "encoding": "ry"}

    def generated(name: str, content: bytes) -> v1.PipelineTaskDetail:
        """Run the pipeline for a file with this content and return the details of its first step."""
        job = v1.PipelineJob(
            display_name="qcnn",
            pipeline_spec=yaml.safe_load((tmp_path / "qcnn.yaml").read_text()),
            runtime_config={
                "gcs_output_directory": f"gs://{vertex.bucket}/root",
                "parameter_values": {**words, "data_sha256": hashlib.sha256(content).hexdigest()},
            },
        )
        made = pipelines(vertex).create_pipeline_job(parent=vertex.parent, pipeline_job=job, pipeline_job_id=name)

        def ended() -> v1.PipelineTaskDetail | None:
            details = vertex.state.copy(v1.PipelineJob, made.name).job_detail.task_details
            states = (_STATES.SUCCEEDED, _STATES.SKIPPED, _STATES.FAILED)
            return next((each for each in details if each.task_name == "generate-data" and each.state in states), None)

        generate = vertex.state.until(ended)
        pipelines(vertex).cancel_pipeline_job(name=made.name)
        vertex.until_pipeline(made.name, pipeline_states.CANCELLED)
        return generate

    changed = ROWS + b"0.5,1\n"
    for name, content, state in (
        ("one", ROWS, _STATES.SUCCEEDED),
        ("changed", changed, _STATES.SUCCEEDED),
        # The dataset of the first content is cached.
        ("again", ROWS, _STATES.SKIPPED),
    ):
        with new_file_copy(address) as path:
            path.write_bytes(changed if name == "again" else content)
        generate = generated(name, content)
        assert generate.state == state, generate.error
        metadata = generate.outputs["dataset"].artifacts[0].metadata
        assert metadata["data_sha256"] == hashlib.sha256(content).hexdigest()
        assert metadata["train"] == {ROWS: 28, changed: 29}[content]
        assert json.loads(metadata["experiment"])["data"] == address


@pytest.mark.long
def test_last_step_registers_and_promotes_in_bucket(
    vertex: Vertex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", vertex.process_environment()["STORAGE_EMULATOR_HOST"])
    address = f"gs://{vertex.bucket}/models"
    compile_qcnn(
        VERTEX, tmp_path / "qcnn.yaml", "registry/qcnn:1", registration=RegistrationSettings("cluster", address)
    )
    job = v1.PipelineJob(
        display_name="qcnn",
        pipeline_spec=yaml.safe_load((tmp_path / "qcnn.yaml").read_text()),
        runtime_config={
            "gcs_output_directory": f"gs://{vertex.bucket}/root",
            "parameter_values": {**_ENDLESS, "epochs": 2, "workers": 1, "strategy": "none"},
        },
    )
    made = pipelines(vertex).create_pipeline_job(parent=vertex.parent, pipeline_job=job, pipeline_job_id="one")
    vertex.until_pipeline(made.name, pipeline_states.SUCCEEDED, pipeline_states.FAILED)
    details = vertex.state.copy(v1.PipelineJob, made.name).job_detail.task_details
    (registered,) = [each for each in details if each.task_name == "register"]
    assert registered.state == _STATES.SUCCEEDED, registered.error
    (metrics,) = registered.outputs["registration"].artifacts
    assert dict(metrics.metadata) == {"version": 1, "promoted": 1}
    with contextlib.closing(open_registry(address)) as registry:
        assert registry.labels("cluster").versions == {"champion": 1}
        with registry.open("cluster", 1) as folder:
            assert qcnn.load(folder).experiment.qubits == 4
