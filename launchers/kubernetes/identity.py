"""Which training something belongs to: names, labels, and the annotation with the whole of a run's name."""

import dataclasses
import hashlib
import json
import re
from typing import Any

from trainer.errors import ConfigError

# The operator adds "-evaluator-0" for pods and Services, whose names end at 63.
NAME_LENGTH = 50
# By these labels, what belongs to qcnn is found, to which run and task, and to which TFJob where it is none itself.
OWN = {"app.kubernetes.io/managed-by": "qcnn"}
RUN_LABEL = "app.kubernetes.io/instance"
TASK_LABEL = "app.kubernetes.io/component"
JOB_LABEL = "app.kubernetes.io/part-of"
# A label holds little, and only ASCII: whose a thing is, is told by this.
RUN_ANNOTATION = "qcnn/run"
# What is trained, and with what: the first decides on the name, the second on whether it is the same object.
TRAINING_ANNOTATION = "qcnn/training-sha256"
HASH_ANNOTATION = "qcnn/spec-sha256"

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LABEL_LENGTH = 63
_DIGITS = 16
_RUN_LENGTH = 200


@dataclasses.dataclass(frozen=True)
class Identity:
    """Which training this is: run, task in it, iteration of a loop around that; one training for each, ever."""

    run: str
    task: str
    iteration: int = 0


def check_run(run: str) -> str:
    """Return the name of a run.

    Raises:
        ConfigError: it is none that a person could tell from others.
    """
    if not 1 <= len(run) <= _RUN_LENGTH or not run.isprintable() or run != run.strip():
        raise ConfigError(
            f"run: must be a name of 1 to {_RUN_LENGTH} printable characters, no space around them. "
            f"Given: {run[:_RUN_LENGTH]!r}"
        )
    return run


def name(identity: Identity, hashed: str) -> str:
    """Return a DNS-1035 label, which the operator's webhook wants: what can be read is cut, the hash is not."""
    end = f"-{identity.iteration}-{hashed[:8]}"
    task = _slug(identity.task)[:16].strip("-")
    run = _slug(identity.run)[: NAME_LENGTH - len(end) - len(task) - len("r-")].strip("-")
    found = f"{run}-{task}{end}"
    return found if found[0].isalpha() else f"r{found}"


def digest(described: Any) -> str:
    """Return the SHA-256 of what JSON can describe."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def labels(identity: Identity) -> dict[str, str]:
    """Return the labels of whatever belongs to a training."""
    task = _slug(identity.task)[:_LABEL_LENGTH].strip("-")
    return {**OWN, RUN_LABEL: run_label(identity.run), TASK_LABEL: task}


def annotations(identity: Identity) -> dict[str, str]:
    """Return the annotations of whatever belongs to a training."""
    return {RUN_ANNOTATION: identity.run}


def run_label(run: str) -> str:
    """Return the value of the label that narrows a search to a run: what can be read of its name, and a hash of it."""
    hashed = hashlib.sha256(run.encode()).hexdigest()[:_DIGITS]
    readable = _slug(run)[: _LABEL_LENGTH - len("-") - _DIGITS].strip("-")
    return "-".join(filter(None, (readable, hashed)))


def run_of(metadata: dict[str, Any]) -> str | None:
    """Return the name of the run that an object of ours belongs to, None where it does not say."""
    run: str | None = metadata.get("annotations", {}).get(RUN_ANNOTATION)
    return run


def _slug(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")
