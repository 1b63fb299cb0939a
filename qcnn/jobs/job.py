"""A training job: which training it belongs to, the name that follows from it, and what its processes run."""

import contextlib
import dataclasses
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError, QcnnError, as_clause
from qcnn.jobs.pod_settings import PodSettings
from qcnn.monitoring import logs
from qcnn.startup import ERROR

# What runs the job appends as much as "-evaluator-0" for a process, whose name may have 63 characters.
NAME_LENGTH = 50
# The longest value of a label, on Kubernetes and on Google Cloud.
LABEL_LENGTH = 63

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_HASH_LENGTH = 16
_RUN_LENGTH = 200


@dataclasses.dataclass(frozen=True)
class JobIdentity:
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


def name(identity: JobIdentity, hashed: str) -> str:
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
    hashed = hashlib.sha256(run.encode()).hexdigest()[:_HASH_LENGTH]
    readable = slug(run)[: LABEL_LENGTH - len("-") - _HASH_LENGTH].strip("-")
    return "-".join(filter(None, (readable, hashed)))


def slug(text: str) -> str:
    """Return what of a text names and labels may hold: small letters, digits, and hyphens between them."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")


# What a training may write, each at an address of its own: checkpoints and losses, TensorBoard events, the model.
OUTPUTS = ("training", "logs", "model")


@dataclasses.dataclass(frozen=True)
class Job:
    """Command of every process of a job, and the number of processes of each role (chief, worker, ps, evaluator).

    After a retryable failure, all processes are restarted, up to `restarts` times; a process whose role is in
    `restart_individually` is restarted alone. A process without a heartbeat for `heartbeat_timeout_seconds` has failed.
    The job has ended when all processes have exited whose role is not in `ignore_exit`. `outputs` has the URI of
    each of `OUTPUTS` that the job writes.
    """

    argv: tuple[str, ...]
    replicas: Mapping[str, int]
    restarts: int
    heartbeat_timeout_seconds: float
    # Flags that take the port of another server of each process; needed where processes share a host.
    port_flags: tuple[str, ...] = ()
    ignore_exit: tuple[str, ...] = ()
    restart_individually: tuple[str, ...] = ()
    # Only jobs of one kind can be run by the same processes, one after the other.
    kind: str = ""
    # What each process is given on a cluster; not used on one machine.
    pod: PodSettings | None = None
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def processes(self) -> list[tuple[str, int]]:
        """Return role and index of every process."""
        return [(role, index) for role, count in self.replicas.items() for index in range(count)]


def tf_config(addresses: Mapping[str, list[str]], role: str, index: int) -> str:
    """Return TF_CONFIG for one process, in the form the training operator writes."""
    task = {"type": role, "index": index}
    return json.dumps({"cluster": dict(addresses), "task": task, "environment": "cloud"})


def last_error_line(lines: Sequence[str]) -> str:
    """Return the line that says why a process ended, as a part of another message: its error, else the last line.

    stdout and stderr of a container are collected side by side, so a line of the log may stand behind an error that was
    printed after it. Where the log is JSON, what its lines say counts.
    """
    said = logs.lines_to_text(lines)
    errors = [as_clause(line.removeprefix(ERROR)) for line in said if line.startswith(ERROR)]
    return next(reversed(errors or said), "it printed nothing")


class PendingCreation:
    """Whether a job may be being created, which the API does not show yet."""

    def __init__(self) -> None:
        self._is_going_on = False

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Mark that a job may be created within this block."""
        self._is_going_on = True
        try:
            yield
        finally:
            self._is_going_on = False

    def ended(self, end: Callable[[], bool], seconds: float) -> bool:
        """Call `end`, which tells whether it found a job, and return that; not raised is what it raises.

        Where it finds none while one may be being created, it is called again, for so many seconds.
        """
        until, found = time.monotonic() + seconds, False
        with contextlib.suppress(QcnnError):
            found = end()
            while self._is_going_on and not found and time.monotonic() < until:
                found = end()
        return found
