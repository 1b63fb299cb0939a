"""Which training an object belongs to: its name, its labels, and annotations with the run's full name and hashes."""

import dataclasses
import hashlib
import json
import re
from typing import Any

from trainer.errors import ConfigError

# The operator appends as much as "-evaluator-0" for pods and Services, whose names may have 63 characters.
NAME_LENGTH = 50
# By these labels qcnn finds its own objects, and those of a run, of a task, and of a TFJob that they predict with.
OWN = {"app.kubernetes.io/managed-by": "qcnn"}
RUN_LABEL = "app.kubernetes.io/instance"
TASK_LABEL = "app.kubernetes.io/component"
JOB_LABEL = "app.kubernetes.io/part-of"
# The run's full name. A label holds 63 characters of ASCII, so it only narrows a search.
RUN_ANNOTATION = "qcnn/run"
# Hashes of what is trained, by which a job is named, and of the whole object, by which it is the same or another one.
TRAINING_ANNOTATION = "qcnn/training-sha256"
HASH_ANNOTATION = "qcnn/spec-sha256"

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LABEL_LENGTH = 63
_DIGITS = 16
_RUN_LENGTH = 200


@dataclasses.dataclass(frozen=True)
class Identity:
    """Which training this is: the run, the task in it, the iteration of a loop around the task."""

    run: str
    task: str
    iteration: int = 0


def check_run(run: str) -> str:
    """Return the name of a run.

    Raises:
        ConfigError: a person could not tell it from other names.
    """
    if not 1 <= len(run) <= _RUN_LENGTH or not run.isprintable() or run != run.strip():
        raise ConfigError(
            f"run: must be a name of 1 to {_RUN_LENGTH} printable characters, no space around them. "
            f"Given: {run[:_RUN_LENGTH]!r}"
        )
    return run


def name(identity: Identity, hashed: str) -> str:
    """Return the name of a job, made of run, task, iteration and hash: a DNS-1035 label, as the operator demands."""
    end = f"-{identity.iteration}-{hashed[:8]}"
    task = _slug(identity.task)[:16].strip("-")
    run = _slug(identity.run)[: NAME_LENGTH - len(end) - len(task) - len("r-")].strip("-")
    found = f"{run}-{task}{end}"
    return found if found[0].isalpha() else f"r{found}"


def digest(described: Any) -> str:
    """Return the SHA-256 of values that JSON can hold."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def labels(identity: Identity) -> dict[str, str]:
    """Return the labels of whatever belongs to a training."""
    task = _slug(identity.task)[:_LABEL_LENGTH].strip("-")
    return {**OWN, RUN_LABEL: run_label(identity.run), TASK_LABEL: task}


def annotations(identity: Identity) -> dict[str, str]:
    """Return the annotations of whatever belongs to a training."""
    return {RUN_ANNOTATION: identity.run}


def run_label(run: str) -> str:
    """Return the value of a run's label: what a label can hold of its name, and a hash of the name."""
    hashed = hashlib.sha256(run.encode()).hexdigest()[:_DIGITS]
    readable = _slug(run)[: _LABEL_LENGTH - len("-") - _DIGITS].strip("-")
    return "-".join(filter(None, (readable, hashed)))


def run_of(metadata: dict[str, Any]) -> str | None:
    """Return the name of the run that an object of ours belongs to, None where it does not say."""
    return annotation(metadata, RUN_ANNOTATION)


def annotation(metadata: dict[str, Any], name: str) -> str | None:
    """Return an annotation of an object, None where it has none of that name."""
    found: str | None = metadata.get("annotations", {}).get(name)
    return found


def _slug(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")
