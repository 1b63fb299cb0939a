"""What custom jobs have printed, from Cloud Logging: each line once, with the name of who printed it."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from qcnn.cli.following import INTERVAL
from qcnn.cli.vertex.service.connection import Vertex

if TYPE_CHECKING:
    from qcnn.jobs.vertex.job_watcher import Cursor

# What jobs there are now, by their ids: when each was created, and what names a replica of it.
Jobs = Mapping[str, tuple[datetime.datetime, Callable[[str], str]]]
# Lines come some seconds after a job has ended: so often nothing new is found before the end is believed.
_QUIET = 3


class Reader:
    """Reads the lines of jobs, of which more may appear."""

    def __init__(self, vertex: Vertex) -> None:
        self._vertex = vertex
        self._cursors: dict[str, Cursor] = {}

    def new(self, jobs: Jobs) -> list[str]:
        """Return the lines that were not returned before, in the order of time.

        Raises:
            BackendError: Cloud Logging refuses, or does not answer.
        """
        from qcnn.jobs.vertex.job_watcher import Cursor, lines_filter, replica_of, text

        found: list[tuple[datetime.datetime, str]] = []
        for job, (created, name) in jobs.items():
            cursor = self._cursors.setdefault(job, Cursor(created))
            for entry in cursor.new(self._vertex.entries(lines_filter(job, cursor.since))):
                who = name(replica_of(entry))
                found += [(entry.timestamp, f"[{who}] {line}") for line in text(entry).splitlines()]
        # Lines of one entry stay together.
        return [line for _, line in sorted(found, key=lambda item: item[0])]


def show(reader: Reader, look: Callable[[], tuple[Jobs, bool]], say: Callable[[str], None], *, follow: bool) -> None:
    """Print the lines of jobs through `say`, with `follow` until `look` tells that all have ended and nothing comes.

    Raises:
        BackendError: Vertex AI or Cloud Logging refuses, or does not answer.
    """
    quiet = 0
    while True:
        jobs, ended = look()
        lines = reader.new(jobs)
        for line in lines:
            say(line)
        quiet = quiet + 1 if ended and not lines else 0
        if not follow or quiet == _QUIET:
            return
        time.sleep(INTERVAL)
