"""Predictions as a Job on Kubernetes (batch/v1): manifests by pure functions."""

import copy
from collections.abc import Mapping
from typing import Any

from launchers.job import Pod
from launchers.kubernetes.identity import (
    HASH_ANNOTATION,
    JOB_LABEL,
    Identity,
    annotations,
    digest,
    labels,
    name,
    run_of,
)
from launchers.kubernetes.pod_template import CONTAINER, template
from launchers.tfjob.read import OUTPUTS, argument, leading_template, state
from trainer.errors import ConfigError

# Long enough to be looked at, in seconds.
_KEEP_SECONDS = 300
# One that nobody waits for any more does not wait for ever, in seconds.
_ACTIVE_SECONDS = 3600
TASK = "predict"


def of_training(job: dict[str, Any]) -> dict[str, Any]:
    """Return the Job that predicts with what a TFJob has trained, in a pod like those of the training.

    Raises:
        ConfigError: it has not trained a model.
    """
    metadata = job["metadata"]
    model = argument(job, OUTPUTS["model"])
    if state(job) != "Succeeded":
        raise ConfigError(f"TFJob: must have succeeded, but is {state(job)}. Given: {metadata['name']}")
    if model is None:
        raise ConfigError(f"TFJob: exports no model; give --model. Given: {metadata['name']}")
    identity = Identity(run_of(metadata) or "", TASK)
    of_pod = copy.deepcopy(leading_template(job))
    # What only processes that speak to each other, or to the API server, need.
    of_pod["spec"].pop("affinity", None)
    of_pod["spec"]["automountServiceAccountToken"] = False
    for container in of_pod["spec"]["containers"]:
        if container["name"] == CONTAINER:
            container.pop("ports", None)
            container.pop("args", None)
            container["command"] = _command(model)
    return _job(identity, of_pod, {JOB_LABEL: metadata["name"]}, metadata["uid"])


def of_model(model: str, pod: Pod) -> dict[str, Any]:
    """Return the Job that predicts with the model at an address, which names the run: it belongs to no training's."""
    identity = Identity(model, TASK)
    of_pod = template(pod, "", identity, _command(model), speaks_to_api=False)
    return _job(identity, of_pod, pod.labels, "")


def _command(model: str) -> list[str]:
    return ["python", "-m", "trainer.predict", "--model", model]


def _job(identity: Identity, of_pod: dict[str, Any], more: Mapping[str, str], source: str) -> dict[str, Any]:
    hashed = digest([of_pod, source])
    own = {**more, **labels(identity)}
    of_pod["metadata"].setdefault("labels", {}).update(own)
    of_pod["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name(identity, hashed),
            "labels": own,
            "annotations": {**annotations(identity), HASH_ANNOTATION: hashed},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": _ACTIVE_SECONDS,
            "ttlSecondsAfterFinished": _KEEP_SECONDS,
            "template": of_pod,
        },
    }
