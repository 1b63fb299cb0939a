"""Base classes of targets: connection settings, clients, and waiting for jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import ClassVar, Generic, Self, TypeVar

from typing_extensions import override

from qcnn.targets import following
from qcnn.targets.base import JobStatus, ReadsJobs, ReportLine, Target, TargetSettings

C = TypeVar("C", bound=TargetSettings)
Client = TypeVar("Client")


class BoundTarget(Target, Generic[C]):
    """Base class of a target, with connection settings of class `C`."""

    connection: C

    def __init__(self, connection: C) -> None:
        self.connection = connection
        self._clients = contextlib.ExitStack()

    @override
    def __enter__(self) -> Self:
        return self

    @override
    def __exit__(self, *raised: object) -> None:
        self.close()

    @override
    def close(self) -> None:
        self._clients.close()

    def _open(self, client: contextlib.AbstractContextManager[Client]) -> Client:
        """Return an opened client, which `close` closes. Clients are cached properties."""
        return self._clients.enter_context(client)


class BoundJobs(BoundTarget[C], ReadsJobs):
    """Base class of a target whose jobs are followed by their logs and their status."""

    kinds: ClassVar[Sequence[str]] = ()
    has_experiments: ClassVar[bool] = False
    delete_notes: ClassVar[str] = "Outputs are kept."

    @override
    def follow(self, job: str, report: ReportLine, restarts: int | None = None) -> None:
        for line in self.logs(job, follow=True):
            report(line)
        self.check_succeeded(job)

    @override
    def wait(self, job: str, report: ReportLine, timeout: float | None = None) -> JobStatus:
        ended = following.wait(lambda: self.get_job(job), report, timeout)
        following.check_succeeded(ended, self.job_kind)
        return ended

    @override
    def check_succeeded(self, job: str) -> None:
        following.check_succeeded(self.get_job(job), self.job_kind)
