"""Which training something belongs to: names and labels."""

import dataclasses
import re

# The operator adds "-evaluator-0" for pods and Services, whose names end at 63.
NAME_LENGTH = 50
# By these labels, what belongs to qcnn is found, to which run and task, and to which TFJob where it is none itself.
OWN = {"app.kubernetes.io/managed-by": "qcnn"}
RUN_LABEL = "app.kubernetes.io/instance"
TASK_LABEL = "app.kubernetes.io/component"
JOB_LABEL = "app.kubernetes.io/part-of"

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LABEL_LENGTH = 63


@dataclasses.dataclass(frozen=True)
class Identity:
    """Which training this is: run, task in it, iteration of a loop around that; one training for each, ever."""

    run: str
    task: str
    iteration: int = 0


def name(identity: Identity, digest: str) -> str:
    """Return a DNS-1035 label, which the operator's webhook wants: what can be read is cut, the hash is not."""
    end = f"-{identity.iteration}-{digest[:8]}"
    task = _slug(identity.task)[:16].strip("-")
    run = _slug(identity.run)[: NAME_LENGTH - len(end) - len(task) - len("r-")].strip("-")
    found = f"{run}-{task}{end}"
    return found if found[0].isalpha() else f"r{found}"


def labels(identity: Identity) -> dict[str, str]:
    """Return the labels of whatever belongs to a training."""
    return {**OWN, RUN_LABEL: label(identity.run), TASK_LABEL: label(identity.task)}


def label(text: str) -> str:
    """Return a text as the value of a label."""
    return _slug(text)[:_LABEL_LENGTH].strip("-")


def _slug(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")
