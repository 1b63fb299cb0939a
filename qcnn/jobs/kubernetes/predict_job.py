"""Manifests of prediction Jobs on Kubernetes (batch/v1)."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError
from qcnn.jobs.job import JobIdentity, digest, name
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.manifest import (
    CONTAINER,
    HASH_ANNOTATION,
    JOB_LABEL,
    QUEUE_LABEL,
    annotations,
    labels,
    pod_template,
    queue_label,
    run_of,
)
from qcnn.jobs.kubernetes.training_manifest import outputs
from qcnn.jobs.pod_settings import PodSettings

# Seconds that a Job is kept after its end for inspection.
_KEEP_SECONDS = 300
# Maximum duration in seconds, because the client that waits for the Job may have exited.
_ACTIVE_SECONDS = 3600
TASK = "predict"


def for_training(
    engine: Engine, job: dict[str, Any], template: dict[str, Any], arguments: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the Job that predicts with the model of a training job, with the pod settings of that job.

    Args:
        engine: Engine of the training job.
        job: Training job as returned by the API.
        template: Pod template of the process that has written the model.
        arguments: Arguments of qcnn.trainer.predict that select the samples. Default: test split.

    Raises:
        ConfigError: If the training job has not succeeded or exports no model.
    """
    metadata = job["metadata"]
    model = outputs(job).get("model")
    if (state := engine.state(job)) != "Succeeded":
        raise ConfigError(f"{engine.name}: must have succeeded, but is {state}. Given: {metadata['name']}")
    if model is None:
        raise ConfigError(f"{engine.name}: exports no model; give --model. Given: {metadata['name']}")
    identity = JobIdentity(run_of(metadata) or "", TASK)
    template = copy.deepcopy(template)
    # The Job has a single pod and sends no requests to the API server.
    for field in ("affinity", "topologySpreadConstraints"):
        template["spec"].pop(field, None)
    template["spec"]["automountServiceAccountToken"] = False
    for container in template["spec"]["containers"]:
        if container["name"] == engine.container:
            container["name"] = CONTAINER
            container.pop("ports", None)
            container.pop("args", None)
            container["command"] = _command(model, arguments)
    queue = metadata["labels"].get(QUEUE_LABEL, "")
    return _job(identity, template, {JOB_LABEL: metadata["name"]}, queue, metadata["uid"])


def for_model(model: str, pod: PodSettings, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Return the Job that predicts with the model at a URI, which is also the name of its run.

    Args:
        model: URI of the model.
        pod: Settings of the pod.
        arguments: Arguments of qcnn.trainer.predict that select the samples. Default: test split.
    """
    identity = JobIdentity(model, TASK)
    template = pod_template(pod, "", identity, _command(model, arguments), mounts_token=False)
    return _job(identity, template, pod.labels, pod.queue, "")


def _command(model: str, arguments: Sequence[str]) -> list[str]:
    return ["python", "-m", "qcnn.trainer.predict", "--model", model, *arguments]


def _job(
    identity: JobIdentity, template: dict[str, Any], extra_labels: Mapping[str, str], queue: str, source: str
) -> dict[str, Any]:
    hashed = digest([template, source])
    job_labels = {**extra_labels, **labels(identity)}
    template["metadata"].setdefault("labels", {}).update(job_labels)
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name(identity, hashed),
            "labels": {**job_labels, **queue_label(queue)},
            "annotations": {**annotations(identity), HASH_ANNOTATION: hashed},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": _ACTIVE_SECONDS,
            "ttlSecondsAfterFinished": _KEEP_SECONDS,
            "template": template,
        },
    }
