"""Which training a job belongs to, and the name that follows from it, the same on every platform."""

import dataclasses
import hashlib
import json
import re
from typing import Any

from qcnn.trainer.errors import ConfigError

# What runs the job appends as much as "-evaluator-0" for a process, whose name may have 63 characters.
NAME_LENGTH = 50
# The longest value of a label, on Kubernetes and on Google Cloud.
LABEL_LENGTH = 63

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
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
    task = slug(identity.task)[:16].strip("-")
    run = slug(identity.run)[: NAME_LENGTH - len(end) - len(task) - len("r-")].strip("-")
    found = f"{run}-{task}{end}"
    return found if found[0].isalpha() else f"r{found}"


def digest(described: Any) -> str:
    """Return the SHA-256 of values that JSON can hold."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def run_label(run: str) -> str:
    """Return the value of a run's label: what a label can hold of its name, and a hash of the name."""
    hashed = hashlib.sha256(run.encode()).hexdigest()[:_DIGITS]
    readable = slug(run)[: LABEL_LENGTH - len("-") - _DIGITS].strip("-")
    return "-".join(filter(None, (readable, hashed)))


def slug(text: str) -> str:
    """Return what of a text names and labels may hold: small letters, digits, and hyphens between them."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")
