"""How an object tells which training it belongs to: labels, and annotations with the run's full name and hashes."""

from typing import Any

from qcnn.jobs.naming import LABEL_LENGTH, Identity, run_label, slug

# By these labels qcnn finds its own objects, and those of a run, of a task, and of a TFJob that they predict with.
OWN = {"app.kubernetes.io/managed-by": "qcnn"}
RUN_LABEL = "app.kubernetes.io/instance"
TASK_LABEL = "app.kubernetes.io/component"
JOB_LABEL = "app.kubernetes.io/part-of"
# Kueue (kueue.x-k8s.io) suspends a job with this label until the LocalQueue of this name lets it go on.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# The run's full name. A label holds 63 characters of ASCII, so it only narrows a search.
RUN_ANNOTATION = "qcnn/run"
# Hashes of what is trained, by which a job is named, and of the whole object, by which it is the same or another one.
TRAINING_ANNOTATION = "qcnn/training-sha256"
HASH_ANNOTATION = "qcnn/spec-sha256"


def labels(identity: Identity) -> dict[str, str]:
    """Return the labels of whatever belongs to a training."""
    task = slug(identity.task)[:LABEL_LENGTH].strip("-")
    return {**OWN, RUN_LABEL: run_label(identity.run), TASK_LABEL: task}


def queue_label(queue: str) -> dict[str, str]:
    """Return the label of a job that waits in a queue, none without one; a pod with it would be queued by itself."""
    return {QUEUE_LABEL: queue} if queue else {}


def annotations(identity: Identity) -> dict[str, str]:
    """Return the annotations of whatever belongs to a training."""
    return {RUN_ANNOTATION: identity.run}


def run_of(metadata: dict[str, Any]) -> str | None:
    """Return the name of the run that an object of ours belongs to, None where it does not say."""
    return annotation(metadata, RUN_ANNOTATION)


def annotation(metadata: dict[str, Any], name: str) -> str | None:
    """Return an annotation of an object, None where it has none of that name."""
    found: str | None = metadata.get("annotations", {}).get(name)
    return found
