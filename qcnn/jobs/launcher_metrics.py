"""What a launcher tells Prometheus of the job that it follows."""

from collections.abc import Sequence

from qcnn.monitoring.metrics import Metrics

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
