"""Tests of qcnn deploy, predict and undeploy on the local Vertex AI."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.cloud import aiplatform_v1 as v1

from qcnn.artifact_io import load_description, save_description
from tests.class_runs import NAMES, trained_on
from tests.qcnn.cli.conftest import Typed
from tests.vertex.fake_service.pipelines import mount
from tests.vertex.fake_service.vertex import Vertex

_TARGET = ("--target", "vertex")
_AT = ("--endpoint", "readouts")
_FOUR = "qubit,angle,label\n0,0.25,1\n1,-2.5,-1\n2,3,-1\n3,0,1\n"
# Prediction of the exported model with TensorFlow only.
_PREDICT = """
import json, sys
import tensorflow as tf
signature = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
rows = json.loads(sys.argv[2])
found = signature(qubit=tf.constant([row[0] for row in rows]), angle=tf.constant([row[1] for row in rows]))
print(json.dumps(found["prediction"].numpy().tolist()))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a trained and exported model with four qubits."""
    folder = tmp_path_factory.mktemp("run")
    arguments = ("--qubits", "4", "--rounds", "10", "--epochs", "1", "--workers", "1", "--strategy", "none")
    qcnn = Path(sys.executable).with_name("qcnn")
    subprocess.run(
        [qcnn, "run", *arguments, "--num-initializations", "1", "--runs", folder], check=True, capture_output=True
    )
    (found,) = folder.glob("*/export-weights/model")
    return found


def _other(model: Path, folder: Path) -> Path:
    """Copy a model to a folder and change its weights."""
    for path in model.rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(model)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    description = load_description("model", folder / "model.json")
    save_description({**description, "weights_sha256": folder.name * 8}, folder / "model.json")
    return folder


def _endpoint(vertex: Vertex) -> v1.Endpoint:
    (found,) = vertex.state.all(v1.Endpoint)
    return found


def _traffic(vertex: Vertex) -> dict[str, int]:
    """Return the traffic percentage of each version."""
    at = _endpoint(vertex)
    return {each.model_version_id: at.traffic_split.get(each.id, 0) for each in at.deployed_models}


@pytest.mark.long
def test_model_is_deployed_replaced_rolled_back_and_undeployed(
    vertex: Vertex, on_vertex: Typed, model: Path, tmp_path: Path
) -> None:
    staging = ("--staging", f"gs://{vertex.bucket}/models")
    vertex.fail("ModelService/UploadModel", 503, answered=False)
    code, out, err = on_vertex("deploy", str(model), *_TARGET, *_AT, *staging)
    assert (code, err) == (0, ""), err
    assert "model qcnn: version 1 created from" in out
    assert "endpoint readouts created" in out
    assert _traffic(vertex) == {"1": 100}
    # A second deployment changes nothing.
    code, out, err = on_vertex("deploy", str(model), *_TARGET, *_AT, *staging)
    assert (code, err) == (0, "")
    assert "version 1 has these weights already" in out
    assert _traffic(vertex) == {"1": 100}

    (tmp_path / "four.csv").write_text(_FOUR)
    code, out, err = on_vertex("predict", *_TARGET, *_AT, "--data", "four.csv")
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    samples = [[int(row["qubit"]), float(row["angle"])] for row in rows]
    command = [sys.executable, "-c", _PREDICT, str(model / "saved_model"), json.dumps(samples)]
    expected = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = [float(row["prediction"]) for row in rows]
    assert found == pytest.approx(expected, abs=1e-6)
    mse = sum((one - label) ** 2 for one, label in zip(found, (1, -1, -1, 1), strict=True)) / 4
    assert err == f"mse {mse:.6f}\n"

    code, out, err = on_vertex("deploy", str(_other(model, tmp_path / "ba")), *_TARGET, *_AT, *staging)
    assert (code, err) == (0, "")
    assert _traffic(vertex) == {"1": 90, "2": 10}
    (labels,) = {each.labels["qcnn_weights"] for each in _versions(vertex) if "default" in each.version_aliases}
    assert labels == "ba" * 8
    assert on_vertex("deploy", str(tmp_path / "ba"), *_TARGET, *_AT, *staging, "--traffic", "60")[0] == 0
    assert _traffic(vertex) == {"1": 40, "2": 60}
    code, out, err = on_vertex("deploy", "--rollback", *_TARGET, *_AT)
    assert (code, err) == (0, "")
    assert "qcnn-2 is undeployed; qcnn-1 is the default version again" in out
    assert _traffic(vertex) == {"1": 100}
    code, _, err = on_vertex("deploy", "--rollback", *_TARGET, *_AT)
    assert (code, err) == (
        2,
        "error: rollback: must have a version with traffic, and one deployed before it. Given: qcnn-1\n",
    )

    (tmp_path / "data" / vertex.bucket).mkdir(parents=True)
    (tmp_path / "data" / vertex.bucket / "four.csv").write_text(_FOUR)
    mount.copy_back(vertex.environment["STORAGE_EMULATOR_HOST"], tmp_path / "data", {})
    arguments = ("--data", f"gs://{vertex.bucket}/four.csv", "--output", f"gs://{vertex.bucket}/out")
    code, out, err = on_vertex("predict", *_TARGET, "--model", "qcnn@1", *arguments)
    assert (code, err) == (0, ""), err
    (job,) = vertex.state.all(v1.BatchPredictionJob)
    assert out.splitlines()[-1] == f"predictions: {job.output_info.gcs_output_directory}"
    host = vertex.environment["STORAGE_EMULATOR_HOST"]
    mount.fill(host, tmp_path / "got", [job.output_info.gcs_output_directory])
    results = [
        json.loads(line)
        for path in sorted((tmp_path / "got").rglob("prediction.results*"))
        for line in path.read_text().splitlines()
    ]
    assert [line["prediction"] for line in results] == pytest.approx(expected, abs=1e-6)

    code, out, err = on_vertex("undeploy", "readouts", "--yes", "--format", "json", *_TARGET)
    assert (code, err) == (0, "deleted\n")
    assert {tuple(row) for row in json.loads(out)} == {("id", "version", "traffic")}
    assert not vertex.state.all(v1.Endpoint)
    assert len(_versions(vertex)) == 2


def _versions(vertex: Vertex) -> list[v1.Model]:
    from tests.vertex.clients import models

    return list(models(vertex).list_model_versions(name=f"{vertex.parent}/models/qcnn"))


@pytest.mark.long
def test_dry_run_prints_valid_requests(model: Path, typed: Typed) -> None:
    place = ("--project", "my-project", "--location", "europe-west4")
    arguments = (*_TARGET, *_AT, "--staging", "gs://b/c", "--dry-run", *place)
    code, out, err = typed("deploy", str(model), *arguments)
    assert (code, err) == (0, "")
    requests: dict[str, Any] = json.loads(out)
    assert requests["UploadModelRequest"]["model_id"] == "qcnn"
    image = requests["UploadModelRequest"]["model"]["container_spec"]["image_uri"]
    assert image == "europe-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-15:latest"
    assert requests["DeployModelRequest"]["traffic_split"] == {"0": 100}


_PLACE = ("--project", "my-project", "--location", "us-central1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("deploy", "nowhere"),
            "error: model: must be a folder exported by qcnn, ",
        ),
        (("deploy",), "error: deploy: must have one of MODEL, --run, --rollback. Given: none"),
        (
            ("deploy", "a", "--rollback"),
            "error: deploy: must have one of MODEL, --run, --rollback. ",
        ),
        (("deploy", "s3://a/b"), "error: model: must be in Cloud Storage, or a local folder. Given: s3://a/b"),
        (("deploy", "a", "--traffic", "0"), "error: "),
        (("deploy", "a", "--traffic", "101"), "error: "),
        (("deploy", "a", "--traffic", "ten"), "error: "),
        (
            ("deploy", "a", "--min-replicas", "3", "--max-replicas", "2"),
            "error: min_replicas: must be at most max_replicas, 2. Given: 3",
        ),
        (
            ("deploy", "a", "--model-name", "Mine"),
            "error: model-name: must be 1 to 63 lowercase letters, ",
        ),
        (("predict", "--data", "nowhere.csv"), "error: data: cannot be read "),
        (
            ("predict", "--data", "a.csv", "--model", "b"),
            "error: predict: must have either --endpoint or --model. ",
        ),
    ],
)
def test_invalid_arguments_are_an_error_without_request(typed: Typed, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = typed(*arguments, *_AT, *_TARGET, *_PLACE)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert len(err.splitlines()) == 1


def test_missing_or_forbidden_endpoint_is_an_error(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    (tmp_path / "four.csv").write_text(_FOUR)
    code, out, err = on_vertex("predict", *_TARGET, *_AT, "--data", "four.csv")
    assert (code, out) == (2, "")
    assert err == "error: endpoint: does not exist in qcnn-tests in us-central1. Given: readouts\n"
    vertex.fail("EndpointService/GetEndpoint", 403)
    code, out, err = on_vertex("undeploy", "readouts", *_TARGET)
    assert (code, out) == (2, "")
    assert err.startswith("error: permission: denied (")


_IMPATIENT = """
from qcnn.cli.main import main
from qcnn.targets.vertex import endpoints, model_registry
endpoints._SECONDS = model_registry._SECONDS = 1
main()
"""


@pytest.mark.long
def test_deploy_after_timeout_creates_no_second_version(vertex: Vertex, on_vertex: Typed, model: Path) -> None:
    arguments = ("deploy", str(model), *_TARGET, *_AT, "--staging", f"gs://{vertex.bucket}/models")
    place = ("--project", vertex.project, "--location", vertex.location)
    vertex.operations.hold()
    command = [sys.executable, "-c", _IMPATIENT, *arguments, *place]
    done = subprocess.run(command, env=vertex.process_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: EndpointService.create_endpoint: not finished within 1 s; it continues. ")
    vertex.operations.release()
    assert on_vertex(*arguments)[0] == 0
    assert [each.version_id for each in _versions(vertex)] == ["1"]


def test_classes_are_predicted_by_name_and_scored(
    vertex: Vertex, on_vertex: Typed, tmp_path: Path, forks: None
) -> None:
    trained = trained_on(tmp_path / "run", NAMES, epochs=3)
    staging = ("--staging", f"gs://{vertex.bucket}/models")
    code, _, err = on_vertex("deploy", str(trained.folder / "model"), *_TARGET, *_AT, *staging)
    assert (code, err) == (0, "")
    code, out, err = on_vertex("predict", *_TARGET, *_AT, "--data", str(trained.folder / "rows.csv"))
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["prediction"] for row in rows} <= set(NAMES)
    accuracy = sum(row["prediction"] == row["label"] for row in rows) / len(rows)
    assert err == f"accuracy {accuracy:.6f}\n"
