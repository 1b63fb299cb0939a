"""The contract of every target that experiments are submitted to."""

from collections.abc import Mapping
from typing import Any

import pytest

from qcnn.targets import target_classes
from qcnn.targets.base import Submits
from qcnn.testing.targets import TargetContract

_OUTPUT = {"image": "qcnn:1", "output": "gs://bucket/runs"}
_CLOUD = {"project": "my-project", "location": "us-central1"}
_SETTINGS: dict[str, dict[str, Any]] = {
    "kubeflow": {"host": "http://127.0.0.1:9", "image": "qcnn:1"},
    # Without an engine, the requests depend on the cluster.
    "kubernetes": {**_OUTPUT, "pod": {"engine": "trainjob"}},
    "tfjob": _OUTPUT,
    "trainjob": _OUTPUT,
    "vertex": {**_CLOUD, "pipeline_root": "gs://bucket/runs", "image": "europe/qcnn:1"},
    "vertex-job": {**_CLOUD, **_OUTPUT, "image": "europe/qcnn:1"},
}


class TestTargets(TargetContract):
    @pytest.fixture(params=target_classes(Submits))
    def target(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def settings(self, target: str) -> Mapping[str, Any]:
        return _SETTINGS[target]
