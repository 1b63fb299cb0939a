"""InferenceServices: manifests, history and status."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.inference_service import (
    InferenceSettings,
    Mode,
    Revision,
    inference_service,
    is_managed,
    is_ready,
    own_predictor,
    reason,
    revisions,
    rolled_back,
    tensorflow_predictor,
    updated,
)
from qcnn.jobs.kubernetes.manifest import Manifest
from qcnn.jobs.kubernetes.model_server import ModelServer
from qcnn.jobs.pod_settings import pod_settings

MODEL = "gs://bucket/digits"
# Fields of a pod that Knative Serving rejects unless its administrator allows them.
REJECTED_BY_KNATIVE = {"affinity", "automountServiceAccountToken", "securityContext", "terminationGracePeriodSeconds"}


def _settings(mode: Mode | None = None, traffic: int = 100) -> InferenceSettings:
    return InferenceSettings(mode, 1, 3, traffic)


def _own(version: int | None, mode: Mode | None = None, traffic: int = 100, **pod: Any) -> Manifest:
    server = ModelServer("digits", MODEL, version, pod_settings({"image": "qcnn:1", **pod}))
    return inference_service("digits", own_predictor(server, _settings(mode, traffic)), mode)


def _tensorflow(version: int | None, mode: Mode | None = None, traffic: int = 100) -> Manifest:
    predictor = tensorflow_predictor(MODEL, version, {}, None, _settings(mode, traffic))
    return inference_service("digits", predictor, mode)


def test_own_image_answers_protocol_v2_on_the_port_of_kserve() -> None:
    predictor = _own(2)["spec"]["predictor"]
    (container,) = predictor["containers"]
    assert container["name"] == "kserve-container"
    assert {"name": "PROTOCOL", "value": "v2"} in container["env"]
    assert container["ports"] == [{"containerPort": 8080, "protocol": "TCP"}]
    assert " --port 8080 --versions 2 " in " ".join(container["command"])
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (1, 3)
    assert "canaryTrafficPercent" not in predictor


def test_knative_pod_has_only_fields_that_knative_accepts() -> None:
    standard, knative = (_own(2, mode)["spec"]["predictor"] for mode in ("Standard", "Knative"))
    assert standard.keys() >= REJECTED_BY_KNATIVE
    assert not knative.keys() & REJECTED_BY_KNATIVE
    (container,) = knative["containers"]
    assert not container.keys() & {"lifecycle", "startupProbe"}
    # The pod is restricted by the settings of its container.
    assert container["securityContext"] == {
        "runAsGroup": 10001,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    # The server may download the model for minutes.
    assert container["livenessProbe"]["initialDelaySeconds"] == 300
    # Requested settings remain: Knative may be configured to accept them.
    assert _own(2, "Knative", node_selector={"a": "b"})["spec"]["predictor"]["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize(
    ("version", "source"),
    [
        (None, {"storageUri": MODEL}),
        (2, {"storageUris": [{"uri": f"{MODEL}/2", "mountPath": "/mnt/models/2"}]}),
    ],
)
def test_tensorflow_runtime_reads_folder_of_versions(version: int | None, source: Mapping[str, Any]) -> None:
    predictor = _tensorflow(version)["spec"]["predictor"]
    assert predictor["model"]["modelFormat"] == {"name": "tensorflow"}
    assert predictor["model"]["protocolVersion"] == "v1"
    assert (predictor["model"] | predictor).items() >= source.items()
    assert ("storageUri" in predictor["model"]) != ("storageUris" in predictor)


def test_tensorflow_runtime_takes_resources_and_account() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    predictor = tensorflow_predictor(MODEL, None, resources, "reader", _settings())
    assert predictor["model"]["resources"] == resources
    assert predictor["serviceAccountName"] == "reader"


@pytest.mark.parametrize("mode", [None, "Standard"])
def test_canary_requires_knative(mode: Mode | None) -> None:
    with pytest.raises(ConfigError, match=r"^traffic: must be 100 without --deployment-mode Knative, .* Given: 10$"):
        _settings(mode, 10)
    assert _own(2, "Knative", 10)["spec"]["predictor"]["canaryTrafficPercent"] == 10


@pytest.mark.parametrize("create", [_own, _tensorflow])
def test_rollback_in_standard_mode_exchanges_predictors(create: Any) -> None:
    first, second = create(1), create(2)
    deployed = updated(first, second)
    assert is_managed(deployed)
    back = rolled_back(deployed)
    assert back["spec"] == first["spec"]
    # A second rollback restores the second version, as `kubectl rollout undo` does.
    assert rolled_back(back)["spec"] == second["spec"]
    assert updated(back, second)["spec"] == second["spec"]


def test_repeated_deployment_keeps_the_predictor_before() -> None:
    deployed = updated(_own(1), _own(2))
    # KServe adds defaults to the spec.
    deployed["spec"]["predictor"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    assert updated(deployed, _own(2))["metadata"] == deployed["metadata"]
    assert updated(None, _own(2)) == _own(2)


def test_rollback_in_knative_mode_takes_the_traffic_of_the_latest_revision() -> None:
    canary = updated(_own(1, "Knative"), _own(2, "Knative", 10))
    back = rolled_back(canary)
    assert back["spec"]["predictor"] == {**canary["spec"]["predictor"], "canaryTrafficPercent": 0}
    # Changed annotations would create a revision.
    promoted = updated(canary, _own(2, "Knative"))
    assert promoted["metadata"] == canary["metadata"] == back["metadata"]
    assert rolled_back(promoted)["spec"]["predictor"]["canaryTrafficPercent"] == 0


def test_rollback_without_predictor_before_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^rollback: must have a revision before the current one\. Given: digits$"):
        rolled_back(_own(1))


READY = {"type": "Ready", "status": "True"}
FAILED = {"type": "PredictorReady", "status": "False", "message": "no such image"}


@pytest.mark.parametrize(
    ("status", "ready", "why"),
    [
        ({}, False, "KServe has not reported that it is ready"),
        ({"conditions": [READY], "modelStatus": {"transitionStatus": "UpToDate"}}, True, ""),
        ({"conditions": [READY]}, True, ""),
        ({"conditions": [READY], "modelStatus": {"transitionStatus": "InProgress"}}, False, "KServe has not"),
        ({"conditions": [{**READY, "status": "False"}, FAILED]}, False, "no such image"),
        (
            {"conditions": [FAILED], "modelStatus": {"lastFailureInfo": {"message": "no model"}}},
            False,
            "no model",
        ),
        (
            {
                "conditions": [READY],
                "components": {"predictor": {"latestCreatedRevision": "b", "latestReadyRevision": "a"}},
            },
            False,
            "KServe has not",
        ),
    ],
)
def test_readiness_is_that_of_the_latest_predictor(status: Manifest, ready: bool, why: str) -> None:
    existing = {**_own(1), "status": status}
    assert is_ready(existing) is ready
    assert reason(existing).startswith(why)


def test_revisions_have_versions_and_traffic() -> None:
    assert revisions(_own(None)) == [Revision("digits", f"{MODEL}, version highest", 100)]
    assert revisions(_tensorflow(2)) == [Revision("digits", f"{MODEL}/2", 100)]
    traffic = [
        {"latestRevision": True, "percent": 10, "revisionName": "digits-2"},
        {"latestRevision": False, "percent": 90, "revisionName": "digits-1", "tag": "prev"},
    ]
    canary = updated(_own(1, "Knative"), _own(2, "Knative", 10))
    found = revisions({**canary, "status": {"components": {"predictor": {"traffic": traffic}}}})
    assert found == [
        Revision("digits-1", f"{MODEL}, version 1", 90),
        Revision("digits-2", f"{MODEL}, version 2", 10),
    ]


def test_history_is_json_text() -> None:
    annotations = updated(_own(1), _own(2))["metadata"]["annotations"]
    assert all(isinstance(value, str) for value in annotations.values())
    assert json.loads(annotations["qcnn/previous-predictor"])["predictor"] == _own(1)["spec"]["predictor"]
