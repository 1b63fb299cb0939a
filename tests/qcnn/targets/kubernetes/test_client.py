"""TensorBoard log folders of TFJobs."""

import pytest

from qcnn.errors import ArtifactError
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.targets.artifacts import LogSource
from qcnn.targets.cluster import cluster
from qcnn.targets.kubernetes.client import logs_of_jobs
from tests.qcnn.jobs.apiserver import ApiServer


def _created(server: ApiServer, logs: str) -> str:
    """Create a TFJob with a log URI, and return its name."""
    pod = PodSettings(image="qcnn", volumes={"/volume": {"persistentVolumeClaim": {"claimName": "logs"}}})
    job = JobSpec(("train",), {"worker": 1}, 3, heartbeat_timeout_seconds=60, pod=pod, outputs={"logs": logs})
    name: str = server.put("tfjobs", TFJOB.manifest(job, JobIdentity("run", "train"), JobTimeouts()))["metadata"][
        "name"
    ]
    return name


def test_logs_of_jobs_returns_bucket_folder(api_server: ApiServer) -> None:
    name = _created(api_server, "gs://bucket/$(QCNN_JOB)/logs")
    with cluster("a") as api:
        assert logs_of_jobs(api, [TFJOB], [name]) == [LogSource(name, f"gs://bucket/{name}/logs")]


def test_logs_of_jobs_on_volume_raises(api_server: ApiServer) -> None:
    name = _created(api_server, "/volume/logs")
    message = rf"^TFJob: its logs are on a volume of its pods, .* Given: {name}$"
    with cluster("a") as api, pytest.raises(ArtifactError, match=message):
        logs_of_jobs(api, [TFJOB], [name])
