"""Tests of qcnn delete with names of missing jobs; tests/cluster tests real ones."""

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.jobs.apiserver import ApiServer


def test_delete_by_name_of_run_names_flag(api_server: ApiServer, typed: Typed) -> None:
    job = JobSpec(("train",), {"worker": 1}, 3, heartbeat_timeout_seconds=60, pod=PodSettings(image="qcnn"))
    api_server.put("tfjobs", TFJOB.manifest(job, JobIdentity("monday", "train"), JobTimeouts()))
    none = "error: job: qcnn created none of this name in namespace a"
    code, _, err = typed("delete", "monday", "-n", "a", "--yes")
    assert (code, err) == (2, f"{none}; to select the jobs of this run, use --run monday. Given: monday\n")
    code, _, err = typed("delete", "tuesday", "-n", "a", "--yes")
    assert (code, err) == (2, f"{none}. Given: tuesday\n")
