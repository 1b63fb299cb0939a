"""The jobs of one training, one after the other, as they say of themselves."""

import dataclasses
import datetime
import re
from collections.abc import Iterable

from qcnn.jobs.vertex.client.kind import VertexJob
from qcnn.jobs.vertex.custom_job import POOLS, SPEC_LABEL
from qcnn.jobs.vertex.states import ENDED, creation_time, state_of
from qcnn.trainer.startup import is_own_fault

_ENDING = "CANCELLING"
_SUCCEEDED = "SUCCEEDED"
# What Vertex AI says of a process that ended too early ("Understand the custom training service"); a signal in brackets
# stands beside its own number instead of 128 and that.
_REPLICA = re.compile(
    r"[Tt]he replica (?P<replica>\S+) (?P<greedy>ran out[ -]of[ -]memory and )?"
    r"exited with a non-zero status of (?P<code>\d+) ?(?P<signal>\(SIG\w+\))?"
)
_IN_POOL = re.compile(r"workerpool(\d)-(\d+)")
_FIRST_SIGNAL = 128


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A job that was made for a training: its resource name, JobState without the prefix, and the label SPEC_LABEL.

    `started` tells whether it ever ran, `code` and `message` are those of its error (google.rpc.Status).
    """

    name: str
    created: datetime.datetime
    state: str
    spec: str = ""
    started: bool = False
    code: int = 0
    message: str = ""

    @property
    def id(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("/")[2]

    @property
    def has_ended(self) -> bool:
        """Whether its processes are gone, and none will come."""
        return self.state in ENDED

    @property
    def is_ending(self) -> bool:
        """Whether it has been cancelled while its processes may still be there."""
        return self.state == _ENDING

    @property
    def is_alive(self) -> bool:
        """Whether it has processes, or will have some."""
        return not self.has_ended and not self.is_ending

    @property
    def has_succeeded(self) -> bool:
        """Whether it has done what it is for."""
        return self.state == _SUCCEEDED


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a process ended that a job failed for."""

    process: str
    code: int
    out_of_memory: bool

    @property
    def own_fault(self) -> bool:
        """Whether it would fail again in the same way."""
        return self.out_of_memory or is_own_fault(self.code)


def attempt(job: VertexJob) -> Attempt:
    """Return what a job says of itself."""
    return Attempt(
        name=job.name,
        created=creation_time(job),
        state=state_of(job),
        spec=job.labels.get(SPEC_LABEL, ""),
        started=bool(job.start_time),
        code=job.error.code,
        message=job.error.message,
    )


def in_order(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return attempts with the oldest first, the same for whoever looks."""
    return sorted(attempts, key=lambda each: (each.created, each.name))


def process_name(replica: str) -> str:
    """Return role and index of what Vertex AI calls workerpool0-0; any other name as it is."""
    found = _IN_POOL.fullmatch(replica)
    if not found or int(found[1]) >= len(POOLS):
        return replica
    return f"{POOLS[int(found[1])]} {int(found[2])}"


def to_blame(message: str) -> Ended | None:
    """Return the process that a job failed for, by its error: one with a fault of its own if there is one."""
    found = [
        Ended(
            process=process_name(each["replica"]),
            code=int(each["code"]) + (_FIRST_SIGNAL if each["signal"] and int(each["code"]) < _FIRST_SIGNAL else 0),
            out_of_memory=bool(each["greedy"]),
        )
        for each in _REPLICA.finditer(message)
    ]
    return min(found, key=lambda ended: not ended.own_fault, default=None)
