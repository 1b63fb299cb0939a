"""Tests of docs/deploy-models.md and of the configuration of TensorFlow Serving in examples/."""

import re

import pytest

from qcnn.jobs.kubernetes.model_server import PROGRAM
from qcnn.jobs.pod_settings import SERVER_ACCOUNT
from qcnn.targets.kubernetes.serving import DeploySettings
from tests.docs.documents import ROOT

PAGE = (ROOT / "docs" / "deploy-models.md").read_text()
EXAMPLES = ROOT / "examples" / "tensorflow_serving"
# Fields of BatchingParameters (tensorflow_serving/servables/tensorflow/session_bundle_config.proto), whose messages are
# in no package.
BATCHING = {"max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads"}


def test_models_config_is_one_of_tensorflow_serving() -> None:
    messages = pytest.importorskip(
        "tensorflow_serving.config.model_server_config_pb2", reason="not with TensorFlow Quantum"
    )
    from google.protobuf import text_format

    parsed = text_format.Parse((EXAMPLES / "models.config").read_text(), messages.ModelServerConfig())
    (model,) = parsed.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("digits", "/models/digits", "tensorflow")
    # The server rejects a label of a version that is not loaded.
    assert set(model.version_labels.values()) == set(model.model_version_policy.specific.versions)


def test_batching_config_has_fields_of_tensorflow_serving() -> None:
    text = (EXAMPLES / "batching.config").read_text()
    assert set(re.findall(r"^(\w+) \{ value: \d+ \}$", text, re.MULTILINE)) == BATCHING


def test_page_has_objects_and_defaults_of_the_code() -> None:
    assert all(kind in PAGE for kind in PROGRAM.resources)
    assert f"`{SERVER_ACCOUNT}`" in PAGE
    settings = DeploySettings(endpoint="digits", model="gs://bucket/digits")
    for flag in ("min_replicas", "max_replicas", "cpu_utilization"):
        assert f"`--{flag.replace('_', '-')}` ({getattr(settings, flag)}" in PAGE
