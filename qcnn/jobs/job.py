"""One description of a training job, whatever runs it."""

import dataclasses
import json
from collections.abc import Mapping

from qcnn.jobs.pod import Pod

# What a training may write, each at an address of its own: checkpoints and losses, TensorBoard events, the model.
OUTPUTS = ("training", "logs", "model")


@dataclasses.dataclass(frozen=True)
class Job:
    """What every process runs, and how many processes each role (chief, worker, ps, evaluator) has.

    When one is lost, up to `restarts` times, all are started again, or it alone where its role is `started_alone`; one
    that gives no sign of life for `hang_seconds` counts as lost. The job has ended when all have whose role is not
    among those that `ends_with_others`. `outputs` has the address of each of `OUTPUTS` that the job writes.
    """

    argv: tuple[str, ...]
    replicas: Mapping[str, int]
    restarts: int
    hang_seconds: float
    # Flags that take the port of another server of each process; needed where processes share a host.
    port_flags: tuple[str, ...] = ()
    ends_with_others: tuple[str, ...] = ()
    started_alone: tuple[str, ...] = ()
    # Only jobs of one kind can be run by the same processes, one after the other.
    kind: str = ""
    # What each process is given on a cluster; not used on one machine.
    pod: Pod | None = None
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def processes(self) -> list[tuple[str, int]]:
        """Return role and index of every process."""
        return [(role, index) for role, count in self.replicas.items() for index in range(count)]


def tf_config(addresses: Mapping[str, list[str]], role: str, index: int) -> str:
    """Return TF_CONFIG for one process, in the form the training operator writes."""
    task = {"type": role, "index": index}
    return json.dumps({"cluster": dict(addresses), "task": task, "environment": "cloud"})
