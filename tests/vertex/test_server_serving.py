"""Models, endpoints and predictions of the server, with Google's unmodified clients."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import aiplatform_v1 as v1

from tests.vertex.clients import endpoints, jobs, models, predictions
from tests.vertex.fake_service.job_run import FAILED, SUCCEEDED
from tests.vertex.fake_service.pipelines import mount
from tests.vertex.fake_service.vertex import Vertex

_TENSORFLOW = "us-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-15:latest"
_MACHINE = {"machine_type": "n1-standard-2"}


def _upload(server: Vertex, parent: str = "", image: str = "image", artifacts: str = "", **fields: Any) -> v1.Model:
    model = v1.Model(
        display_name="qcnn", container_spec={"image_uri": image}, artifact_uri=artifacts, labels={"mse": "0"}, **fields
    )
    request = v1.UploadModelRequest(parent=server.parent, model=model, parent_model=parent)
    made = models(server).upload_model(request).result()
    found: v1.Model = models(server).get_model(name=f"{made.model}@{made.model_version_id}")
    return found


def _endpoint(server: Vertex) -> str:
    operation = endpoints(server).create_endpoint(parent=server.parent, endpoint=v1.Endpoint(display_name="qcnn"))
    return str(operation.result().name)


def _deploy(server: Vertex, endpoint: str, model: v1.Model, **split: int) -> str:
    deployed = v1.DeployedModel(
        model=f"{model.name}@{model.version_id}",
        dedicated_resources={"machine_spec": _MACHINE, "min_replica_count": 1},
    )
    shares = {name.removeprefix("_"): share for name, share in split.items()}
    client = endpoints(server)
    operation = client.deploy_model(endpoint=endpoint, deployed_model=deployed, traffic_split=shares)
    return str(operation.result().deployed_model.id)


def _save(server: Vertex, name: str, factor: float) -> str:
    """Write a SavedModel that scales the angle by `factor` into the bucket, and return its URI."""
    import tensorflow as tf

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32)])
        def predict(self, qubit: Any, angle: Any) -> dict[str, Any]:
            return {"prediction": tf.cast(qubit, tf.float32) + factor * angle}

    folder = server.folder / "models"
    model = Model()
    tf.saved_model.save(model, str(folder / server.bucket / name), signatures={"serving_default": model.predict})
    mount.copy_back(server.environment["STORAGE_EMULATOR_HOST"], folder, {})
    return f"gs://{server.bucket}/{name}"


def test_model_versions_and_aliases(vertex: Vertex) -> None:
    client = models(vertex)
    first = _upload(vertex)
    second = _upload(vertex, first.name, version_aliases=["best"])
    assert (first.version_id, list(first.version_aliases)) == ("1", ["default"])
    assert (second.version_id, list(second.version_aliases)) == ("2", ["best"])
    assert client.get_model(name=first.name).version_id == "1"
    client.merge_version_aliases(name=f"{first.name}@2", version_aliases=["default", "-best"])
    assert client.get_model(name=first.name).version_id == "2"
    assert [each.version_id for each in client.list_model_versions(name=first.name)] == ["1", "2"]
    wanted = v1.ListModelsRequest(parent=vertex.parent, filter='display_name="qcnn" AND labels.mse=0')
    assert [each.version_id for each in client.list_models(wanted)] == ["2"]
    with pytest.raises(exceptions.FailedPrecondition, match="default version cannot be deleted"):
        client.delete_model_version(name=f"{first.name}@2")
    client.delete_model_version(name=f"{first.name}@1").result()
    with pytest.raises(exceptions.NotFound):
        client.get_model(name=f"{first.name}@1")


def test_upload_without_saved_model_is_rejected(vertex: Vertex) -> None:
    with pytest.raises(exceptions.FailedPrecondition, match="expected to contain exactly one of"):
        _upload(vertex, image=_TENSORFLOW, artifacts=f"gs://{vertex.bucket}/nothing")


@pytest.mark.long
def test_endpoint_splits_traffic_and_batch_job_predicts(vertex: Vertex, tmp_path: Path) -> None:
    first = _upload(vertex, image=_TENSORFLOW, artifacts=_save(vertex, "one", 1.0))
    second = _upload(vertex, first.name, image=_TENSORFLOW, artifacts=_save(vertex, "two", 2.0))
    endpoint = _endpoint(vertex)
    old = _deploy(vertex, endpoint, first, _0=100)
    new = _deploy(vertex, endpoint, second, **{"_0": 10, f"_{old}": 90})
    client, instance = predictions(vertex), {"qubit": 1, "angle": 0.5}
    answers = [client.predict(endpoint=endpoint, instances=[instance]) for _ in range(100)]
    assert Counter(answer.deployed_model_id for answer in answers) == {old: 90, new: 10}
    assert {(answer.deployed_model_id, *answer.predictions) for answer in answers} == {(old, 1.5), (new, 2.0)}
    with pytest.raises(exceptions.InvalidArgument, match="instances"):
        client.predict(endpoint=endpoint, instances=[{"qubit": 1}])
    with pytest.raises(exceptions.FailedPrecondition, match="has traffic"):
        endpoints(vertex).undeploy_model(endpoint=endpoint, deployed_model_id=new)
    with pytest.raises(exceptions.FailedPrecondition, match="is deployed"):
        models(vertex).delete_model(name=first.name)
    endpoints(vertex).undeploy_model(endpoint=endpoint, deployed_model_id=new, traffic_split={old: 100}).result()
    assert dict(endpoints(vertex).get_endpoint(name=endpoint).traffic_split) == {old: 100}

    host, folder = vertex.environment["STORAGE_EMULATOR_HOST"], tmp_path / "batch"
    (folder / vertex.bucket).mkdir(parents=True)
    (folder / vertex.bucket / "in.jsonl").write_text(f"{json.dumps(instance)}\n")
    mount.copy_back(host, folder, {})
    job = v1.BatchPredictionJob(
        display_name="batch",
        model=second.name + "@2",
        input_config={"instances_format": "jsonl", "gcs_source": {"uris": [f"gs://{vertex.bucket}/in.jsonl"]}},
        output_config={
            "predictions_format": "jsonl",
            "gcs_destination": {"output_uri_prefix": f"gs://{vertex.bucket}/out"},
        },
        dedicated_resources={"machine_spec": _MACHINE},
    )
    made = jobs(vertex).create_batch_prediction_job(parent=vertex.parent, batch_prediction_job=job)
    ended = vertex.until_batch(made.name, SUCCEEDED, FAILED)
    assert ended.state == SUCCEEDED, ended.error
    where = ended.output_info.gcs_output_directory
    mount.fill(host, tmp_path, [where])
    (found,) = (tmp_path / where.removeprefix("gs://")).glob("prediction.results-*")
    assert json.loads(found.read_text()) == {"instance": instance, "prediction": 2.0}
