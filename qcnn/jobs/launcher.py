"""What a launcher knows of its jobs: whether one may be being created at that moment, and what it counts."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from qcnn.errors import QcnnError
from qcnn.monitoring.metrics import Metrics


class Creation:
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


_RESTARTS, _PHASE = "qcnn_restarts", "qcnn_job_phase"
_GAUGES = {
    _RESTARTS: ("How often the job was started again; what is lost together counts once.", ()),
    _PHASE: ("1 for the phase that the job is in, 0 for all others.", ("phase",)),
}


class LauncherMetrics(Metrics):
    """The metrics of the launcher of a job, which is always in one of these phases."""

    def __init__(self, job: str, phases: Sequence[str]) -> None:
        super().__init__("launcher", 0, job, _GAUGES)
        self._phases = phases

    def see(self, phase: str, restarts: int) -> None:
        """Take note of the phase of the job, and of how often it was started again."""
        self.set({(_RESTARTS,): restarts, **{(_PHASE, each): each == phase for each in self._phases}})
