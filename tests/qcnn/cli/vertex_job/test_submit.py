"""Tests of qcnn submit --target vertex-job with --dry-run and on the local Vertex AI."""

import json
from pathlib import Path

import pytest
from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format

from qcnn.circuits import circuits
from qcnn.experiment.parsing import from_json
from qcnn.storage.store import BucketUri
from tests.docs.documents import ROOT
from tests.qcnn.cli.conftest import Typed
from tests.vertex.fake_service.vertex import Vertex

_PLACE = ("--target", "vertex-job", "--project", "my-project", "--location", "us-central1")
_WORDS = ("--qubits", "4", "--rounds", "12", "--batch-size", "8", "--epochs", "2", "--num-initializations", "1")


def test_dry_run_prints_valid_request(typed: Typed, tmp_path: Path) -> None:
    code, out, err = typed("submit", *_PLACE, "--output", "gs://bucket/runs", "--image", "qcnn:1", "--dry-run", *_WORDS)
    assert (code, err) == (0, "")
    sent = json_format.ParseDict(json.loads(out), v1.CreateCustomJobRequest.pb(v1.CreateCustomJobRequest()))
    request = v1.CreateCustomJobRequest.wrap(sent)
    pools = request.custom_job.job_spec.worker_pool_specs
    assert [(pool.replica_count, pool.container_spec.image_uri) for pool in pools] == [(1, "qcnn:1"), (1, "qcnn:1")]
    assert request.parent == "projects/my-project/locations/us-central1"


def test_circuit_file_is_embedded_in_job(typed: Typed) -> None:
    """The VMs cannot read the file."""
    arguments = ("--model", str(ROOT / "examples" / "stabilizers.qasm"), "--dry-run")
    code, out, _ = typed("submit", *_PLACE, "--output", "gs://bucket/runs", "--image", "qcnn:1", *arguments)
    assert code == 0
    for pool in json.loads(out)["customJob"]["jobSpec"]["workerPoolSpecs"]:
        command = [*pool["containerSpec"].get("command", ()), *pool["containerSpec"].get("args", ())]
        experiment = from_json(command[command.index("--experiment") + 1])
        assert len(circuits.build(experiment.model, 8).symbols) == 3


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--output", "/data"), "output: must be in a bucket of Cloud Storage"),
        (("--name", " "), "run: must be a name of 1 to 200 printable characters"),
        (("--env", "A"), "env: must be NAME=VALUE. Given: A"),
    ],
)
def test_invalid_arguments_are_an_error(typed: Typed, arguments: tuple[str, ...], line: str) -> None:
    code, out, err = typed("submit", *_PLACE, "--output", "gs://bucket/runs", "--image", "qcnn:1", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {line}")


@pytest.mark.long
def test_resubmitted_experiment_is_trained_once(vertex: Vertex, on_vertex: Typed) -> None:
    output = str(BucketUri("gs", vertex.bucket, "mine"))
    arguments = ("submit", "--target", "vertex-job", "--output", output, "--image", "qcnn:1", "--follow", *_WORDS)
    code, out, err = on_vertex(*arguments)
    assert code == 0, out + err
    assert "[chief 0] " in out
    assert "is created in qcnn-tests in us-central1" in out
    code, out, err = on_vertex(*arguments)
    assert code == 0, out + err
    assert "has already succeeded" in out
    assert len(vertex.custom_jobs()) == 1
    code, out, err = on_vertex(*arguments, "--seed", "1", "--project", "other-project")
    assert code == 2
    assert err.startswith("error: ")
