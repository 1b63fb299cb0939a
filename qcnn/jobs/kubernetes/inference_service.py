"""InferenceServices of KServe (serving.kserve.io/v1beta1), and their previous settings."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

from qcnn.errors import ConfigError
from qcnn.jobs.job import digest
from qcnn.jobs.kubernetes.api import Resource
from qcnn.jobs.kubernetes.manifest import OWN, Manifest, annotation, condition
from qcnn.jobs.kubernetes.model_server import (
    HIGHEST,
    MODEL_ANNOTATION,
    START_SECONDS,
    VERSION_ANNOTATION,
    ModelServer,
    check_replicas,
    server_template,
)

KIND = "InferenceService"
INFERENCE_SERVICES = Resource("/apis/serving.kserve.io/v1beta1", "inferenceservices", "it must have KServe")
Mode = Literal["Standard", "Knative"]
_MODE_ANNOTATION = "serving.kserve.io/deploymentMode"
# Container of the server in KServe's pods, and its port (pkg/constants).
_CONTAINER, _PORT = "kserve-container", 8080
# TensorFlow Serving in KServe's runtime reads the versions of a model from this folder.
_MODELS = "/mnt/models"
# Digest of the predictor as it was applied, except its traffic, and the predictor before with its digest as JSON.
_DIGEST_ANNOTATION, _PREVIOUS_ANNOTATION = "qcnn/predictor-sha256", "qcnn/previous-predictor"
_CANARY = "canaryTrafficPercent"
# Fields of a pod that Knative Serving rejects with its default settings (pkg/apis/serving/fieldmask.go).
_NOT_IN_KNATIVE = ("affinity", "automountServiceAccountToken", "securityContext", "terminationGracePeriodSeconds")
# KServe's label of the pods of an InferenceService.
_POD_LABEL = "serving.kserve.io/inferenceservice"
# Settings of the security context of a pod that containers have, too.
_SHARED_SECURITY = ("runAsNonRoot", "seccompProfile")


@dataclasses.dataclass(frozen=True)
class InferenceSettings:
    """Settings of an InferenceService.

    Attributes:
        mode: Deployment mode, or None for the default of the cluster.
        min_replicas: Minimum number of pods.
        max_replicas: Maximum number of pods.
        traffic: Percentage of the requests for the new revision, with which the others keep the rest.
    """

    mode: Mode | None
    min_replicas: int
    max_replicas: int
    traffic: int

    def __post_init__(self) -> None:
        check_replicas(self.min_replicas, self.max_replicas)
        if self.traffic < 100 and self.mode != "Knative":
            raise ConfigError(
                f"traffic: must be 100 without --deployment-mode Knative, which splits traffic. Given: {self.traffic}"
            )

    @property
    def predictor(self) -> Manifest:
        """Fields of the predictor."""
        canary = {_CANARY: self.traffic} if self.traffic < 100 else {}
        return {"minReplicas": self.min_replicas, "maxReplicas": self.max_replicas, **canary}


def own_predictor(server: ModelServer, settings: InferenceSettings) -> Manifest:
    """Return the predictor of a custom container, which serves a model by `qcnn serve` with both protocols."""
    template = server_template(server, _PORT, {_POD_LABEL: server.name})
    spec = template["spec"]
    (container,) = spec["containers"]
    # KServe waits for readiness by this protocol.
    container = {**container, "name": _CONTAINER, "env": [*container["env"], {"name": "PROTOCOL", "value": "v2"}]}
    if settings.mode == "Knative":
        security = {key: spec["securityContext"][key] for key in _SHARED_SECURITY}
        container["securityContext"] = {**container["securityContext"], **security}
        # Knative accepts neither hooks nor, in earlier releases, startup probes.
        del container["startupProbe"], container["lifecycle"]
        container["livenessProbe"] = {**container["livenessProbe"], "initialDelaySeconds": START_SECONDS}
        spec = {key: value for key, value in spec.items() if key not in _NOT_IN_KNATIVE}
    return {
        **settings.predictor,
        "annotations": template["metadata"]["annotations"],
        **({"labels": dict(server.pod.labels)} if server.pod.labels else {}),
        **spec,
        "containers": [container],
    }


def tensorflow_predictor(
    model: str, version: int | None, resources: Mapping[str, Any], account: str | None, settings: InferenceSettings
) -> Manifest:
    """Return the predictor of KServe's runtime of TensorFlow Serving.

    Args:
        model: URI of the folder of versions.
        version: Version to serve. None: the highest one when a pod starts.
        resources: Requests and limits of the container, or empty for those of the runtime.
        account: Service account with access to the model, or None.
        settings: Settings of the InferenceService.
    """
    source: Manifest = {}
    served: Manifest = {"modelFormat": {"name": "tensorflow"}, "protocolVersion": "v1"}
    if version is None:
        served["storageUri"] = model
    else:
        # The server reads only folders below the path, which are named by their versions.
        source = {"storageUris": [{"uri": f"{model.rstrip('/')}/{version}", "mountPath": f"{_MODELS}/{version}"}]}
    if resources:
        served["resources"] = dict(resources)
    pod: Manifest = {"serviceAccountName": account} if account else {}
    if settings.mode != "Knative":
        # The runtime sets the security context of the container.
        pod["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {**settings.predictor, **pod, **source, "model": served}


def inference_service(name: str, predictor: Manifest, mode: Mode | None) -> Manifest:
    """Return an InferenceService without a history.

    Args:
        name: Name of the InferenceService, and of the model in requests.
        predictor: Predictor.
        mode: Deployment mode, or None for the default of the cluster.
    """
    compared = {key: value for key, value in predictor.items() if key != _CANARY}
    return _inference_service(name, predictor, mode, {_DIGEST_ANNOTATION: digest(compared)})


def _inference_service(name: str, predictor: Manifest, mode: Mode | None, history: Mapping[str, str]) -> Manifest:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": KIND,
        "metadata": {
            "name": name,
            "labels": dict(OWN),
            "annotations": {**history, **({_MODE_ANNOTATION: mode} if mode else {})},
        },
        "spec": {"predictor": predictor},
    }


def is_managed(existing: Manifest) -> bool:
    """Return whether qcnn created an InferenceService."""
    labels: dict[str, str] = existing["metadata"].get("labels", {})
    return labels.items() >= OWN.items() and annotation(existing["metadata"], _DIGEST_ANNOTATION) is not None


def updated(existing: Manifest | None, new: Manifest) -> Manifest:
    """Return an InferenceService with the predictor before, for a rollback.

    Only another predictor changes the history, because changed annotations would create a revision.

    Args:
        existing: InferenceService on the cluster, or None.
        new: InferenceService to apply.
    """
    if existing is None:
        return new
    metadata = new["metadata"]
    if annotation(existing["metadata"], _DIGEST_ANNOTATION) == annotation(metadata, _DIGEST_ANNOTATION):
        before = annotation(existing["metadata"], _PREVIOUS_ANNOTATION)
    else:
        before = _history_of(existing)
    history = {_PREVIOUS_ANNOTATION: before} if before else {}
    return {**new, "metadata": {**metadata, "annotations": {**metadata["annotations"], **history}}}


def _history_of(existing: Manifest) -> str:
    """Return the text of the annotation that restores the predictor of an InferenceService."""
    predictor = {key: value for key, value in existing["spec"]["predictor"].items() if key != _CANARY}
    stored = {"sha256": annotation(existing["metadata"], _DIGEST_ANNOTATION), "predictor": predictor}
    return json.dumps(stored, sort_keys=True)


def rolled_back(existing: Manifest) -> Manifest:
    """Return the InferenceService of the predictor before the current one.

    In Knative mode, no traffic for the latest revision restores the last revision that had all of it, at once and
    without new pods (KServe, "Canary Rollout"). Otherwise the current predictor becomes the one before.

    Raises:
        ConfigError: If there is no predictor before.
    """
    metadata, name, mode = existing["metadata"], existing["metadata"]["name"], mode_of(existing)
    text = annotation(metadata, _PREVIOUS_ANNOTATION)
    if not text:
        raise ConfigError(f"rollback: must have a revision before the current one. Given: {name}")
    if mode == "Knative":
        history = {key: metadata["annotations"][key] for key in (_DIGEST_ANNOTATION, _PREVIOUS_ANNOTATION)}
        return _inference_service(name, {**existing["spec"]["predictor"], _CANARY: 0}, mode, history)
    before = json.loads(text)
    history = {_DIGEST_ANNOTATION: before["sha256"], _PREVIOUS_ANNOTATION: _history_of(existing)}
    return _inference_service(name, before["predictor"], mode, history)


def mode_of(existing: Manifest) -> Mode | None:
    """Return the requested deployment mode of an InferenceService, or None for the default of the cluster."""
    mode = annotation(existing["metadata"], _MODE_ANNOTATION)
    return "Knative" if mode == "Knative" else "Standard" if mode else None


def is_ready(existing: Manifest) -> bool:
    """Return whether KServe reports that the latest predictor is ready."""
    status = existing.get("status", {})
    is_up_to_date = status.get("modelStatus", {}).get("transitionStatus", "UpToDate") == "UpToDate"
    revisions = status.get("components", {}).get("predictor", {})
    return (
        condition(existing, "Ready") is not None
        and is_up_to_date
        and revisions.get("latestCreatedRevision") == revisions.get("latestReadyRevision")
    )


def is_stale(existing: Manifest, before: Manifest) -> bool:
    """Return whether the status of a changed InferenceService is still the one before the change.

    KServe's observedGeneration is that of another object.
    """
    is_changed = existing["metadata"].get("generation") != before["metadata"].get("generation")
    return is_changed and existing.get("status") == before.get("status")


def reason(existing: Manifest) -> str:
    """Return why an InferenceService is not ready, as far as KServe reports it."""
    status = existing.get("status", {})
    if message := status.get("modelStatus", {}).get("lastFailureInfo", {}).get("message"):
        return str(message)
    failed = [each for each in status.get("conditions", ()) if each.get("status") == "False" and each.get("message")]
    return str(failed[0]["message"]) if failed else "KServe has not reported that it is ready"


@dataclasses.dataclass(frozen=True)
class Revision:
    """Revision of an InferenceService with its traffic percentage."""

    name: str
    version: str
    traffic: int


def revisions(existing: Manifest) -> list[Revision]:
    """Return the revisions of an InferenceService that have traffic, the latest last."""
    name, before = existing["metadata"]["name"], annotation(existing["metadata"], _PREVIOUS_ANNOTATION)
    current = _describe(existing["spec"]["predictor"])
    previous = _describe(json.loads(before)["predictor"]) if before else ""
    traffic = existing.get("status", {}).get("components", {}).get("predictor", {}).get("traffic", ())
    found = [
        Revision(
            each.get("revisionName", name), current if each.get("latestRevision") else previous, each.get("percent", 0)
        )
        for each in sorted(traffic, key=lambda each: bool(each.get("latestRevision")))
    ]
    return found or [Revision(name, current, 100)]


def _describe(predictor: Manifest) -> str:
    """Return the model and version of a predictor."""
    annotations: dict[str, str] = predictor.get("annotations", {})
    if model := annotations.get(MODEL_ANNOTATION):
        return f"{model}, version {annotations.get(VERSION_ANNOTATION, HIGHEST)}"
    if uris := predictor.get("storageUris"):
        return str(uris[0]["uri"])
    return str(predictor.get("model", {}).get("storageUri", ""))
