"""What a launcher tells Prometheus of the job that it follows."""

from collections.abc import Sequence

from trainer.monitoring.metrics import Metrics

_RESTARTS, _PHASE = "qcnn_restarts", "qcnn_job_phase"


class LauncherMetrics(Metrics):
    """The metrics of the launcher of a job, which is always in one of these phases."""

    def __init__(self, job: str, phases: Sequence[str]) -> None:
        super().__init__("launcher", 0, job)
        self._phases = phases
        self.add(
            _RESTARTS, "How often processes of the job were lost and started again; what is lost together counts once."
        )
        self.add(_PHASE, "1 for the phase that the job is in, 0 for all others.", "phase")

    def see(self, phase: str, restarts: int) -> None:
        """Take note of the phase of the job, and of how often it was started again."""
        self.set(_RESTARTS, restarts)
        for each in self._phases:
            self.set(_PHASE, each == phase, phase=each)
