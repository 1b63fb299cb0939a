"""Training job: identity, name, labels, and the command and roles of its processes."""

import dataclasses
import enum
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from qcnn.errors import ConfigError, as_clause
from qcnn.jobs.pod_settings import PodSettings
from qcnn.monitoring import logs
from qcnn.process.standard_streams import ERROR

# A pod name has at most 63 characters. JobSet appends "-evaluator-0-0-" and five random ones to the name of a job.
NAME_LENGTH = 43
# The longest value of a label, on Kubernetes and on Google Cloud.
LABEL_LENGTH = 63

# Number of lines of a process that are retained, and logged again if the process fails.
LAST_LINES = 20

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_HASH_LENGTH = 16
_RUN_LENGTH = 200


@dataclasses.dataclass(frozen=True)
class JobIdentity:
    """Identity of a training job: its run, its task, and the iteration of a loop around the task."""

    run: str
    task: str
    iteration: int = 0


def check_run(run: str) -> str:
    """Validate the name of a run, and return it.

    Raises:
        ConfigError: If the name is empty, too long, not printable or surrounded by spaces.
    """
    if not 1 <= len(run) <= _RUN_LENGTH or not run.isprintable() or run != run.strip():
        raise ConfigError(
            f"run: must be a name of 1 to {_RUN_LENGTH} printable characters, without surrounding spaces. "
            f"Given: {run[:_RUN_LENGTH]!r}"
        )
    return run


def name(identity: JobIdentity, hashed: str) -> str:
    """Return the name of a job from run, task, iteration and hash, as a DNS-1035 label.

    The training operator requires such a label.
    """
    end = f"-{identity.iteration}-{hashed[:8]}"
    task = slug(identity.task)[:16].strip("-")
    run = slug(identity.run)[: NAME_LENGTH - len(end) - len(task) - len("r-")].strip("-")
    label = f"{run}-{task}{end}"
    return label if label[0].isalpha() else f"r{label}"


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON-serializable value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# Raised with every changed default of an experiment, of pod settings or of timeouts, because digests omit defaults.
_DIGEST_VERSION = 1


def training_digest(identity: JobIdentity, job: "JobSpec") -> str:
    """Return the digest of a training job in its name, which is the same in each release of this package.

    Jobs with equal digests continue from the checkpoints of each other.
    """
    counts = {role: count for role, count in job.replicas.items() if count}
    training = job.argv if job.training is None else job.training
    return digest([_DIGEST_VERSION, dataclasses.asdict(identity), training, counts])


def settings_digest(job: "JobSpec", others: Mapping[str, Any]) -> str:
    """Return the digest of the settings with which a training job runs, the same in each release of this package.

    Args:
        job: Training job.
        others: Further settings, without defaults.
    """
    pod = job.pod.model_dump(mode="json", exclude_defaults=True) if job.pod else {}
    return digest([_DIGEST_VERSION, pod, dict(job.settings), job.restarts, dict(others)])


def run_label(run: str) -> str:
    """Return the label value of a run: the slug of its name, shortened, and a hash of the name."""
    hashed = hashlib.sha256(run.encode()).hexdigest()[:_HASH_LENGTH]
    readable = slug(run)[: LABEL_LENGTH - len("-") - _HASH_LENGTH].strip("-")
    return "-".join(filter(None, (readable, hashed)))


def slug(text: str) -> str:
    """Return text as lowercase letters, digits and single hyphens, as names and labels require."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")


# Outputs of a training job, each with a separate URI: checkpoints and losses, TensorBoard events, the model.
OUTPUTS = ("training", "logs", "model")


@dataclasses.dataclass(frozen=True)
class JobSpec:
    """Command of every process of a job, and the number of processes of each role.

    Roles are chief, worker, ps and evaluator. After a retryable failure, all processes are restarted, up to `restarts`
    times. A process whose role is in `restart_individually` is restarted alone. A process without a heartbeat for
    `heartbeat_timeout_seconds` has failed. The job has ended when all processes have exited whose role is not in
    `ignore_exit`. `outputs` has the URI of each of `OUTPUTS` that the job writes. `training` are the values on which
    the result depends (None: the command), and `settings` those of how the job runs, both without defaults.
    """

    argv: tuple[str, ...]
    replicas: Mapping[str, int]
    restarts: int
    heartbeat_timeout_seconds: float
    # Flags for the port of an additional server of each process. Processes on one host need distinct ports.
    port_flags: tuple[str, ...] = ()
    ignore_exit: tuple[str, ...] = ()
    restart_individually: tuple[str, ...] = ()
    # Processes can be reused only for a job of the same kind.
    kind: str = ""
    # Only used on a cluster.
    pod: PodSettings | None = None
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    training: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def processes(self) -> list[tuple[str, int]]:
        """Return role and index of every process."""
        return [(role, index) for role, count in self.replicas.items() for index in range(count)]


def tf_config(addresses: Mapping[str, list[str]], role: str, index: int) -> str:
    """Return TF_CONFIG for one process, in the format of the training operator.

    Args:
        addresses: HOST:PORT of each process of each role.
        role: Role of the process.
        index: Index of the process in its role.
    """
    task = {"type": role, "index": index}
    return json.dumps({"cluster": dict(addresses), "task": task, "environment": "cloud"})


def last_error_line(lines: Sequence[str]) -> str:
    """Return the last error in the log of a process, or its last line, as a clause for another message.

    The order of stdout and stderr in the log of a container is not reliable. An error may therefore be followed by a
    line that was printed before it. JSON lines are converted to text.
    """
    texts = logs.lines_to_text(lines)
    errors = [as_clause(line.removeprefix(ERROR)) for line in texts if line.startswith(ERROR)]
    return next(reversed(errors or texts), "it printed nothing")


class CreateOutcome(enum.Enum):
    """Result of the creation or adoption of a job."""

    CREATED = "is created"
    ADOPTED = "is adopted"
    SUCCEEDED = "has already succeeded"


# Names of the outcomes for users of the Python interface.
OUTCOMES: Mapping[CreateOutcome, Literal["created", "adopted", "succeeded"]] = {
    CreateOutcome.CREATED: "created",
    CreateOutcome.ADOPTED: "adopted",
    CreateOutcome.SUCCEEDED: "succeeded",
}
