"""Jobs on clusters and cloud services: submit, follow, inspect and delete them from Python."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qcnn.api.experiments import Experiment
from qcnn.api.models import Model, load
from qcnn.planning.checks import SUBMITTED, check_experiments, on_gpus
from qcnn.process.extras import translate_errors
from qcnn.targets import following, target_that
from qcnn.targets.base import JobStatus, Prepared, ReadsJobs, Submits
from qcnn.targets.settings import connection_of, settings_from

logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True)
class Job:
    """A job on a target: a TFJob, a pipeline run, or a Vertex AI custom job.

    `name` is its name or ID on the target. `outcome` is created, adopted (the job was already active) or succeeded (it
    had already succeeded), and empty for a job from `get_job`. `outputs` maps known outputs to their URIs.
    """

    target: str
    name: str
    outcome: str = ""
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: str = ""
    _connection: Any = dataclasses.field(default=None, repr=False)

    def status(self) -> JobStatus:
        """Return the current status of the job, with its processes or steps.

        Raises:
            QcnnError: If the job no longer exists, or the target is unavailable.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            return self._target.get_job(self.name, self._connection)

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """Yield the log lines of all processes or steps, with their names.

        Args:
            follow: Whether to continue until the job ends.

        Raises:
            QcnnError: If the job no longer exists, or the target is unavailable.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            yield from self._target.logs(self.name, self._connection, follow=follow)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Wait until the job has succeeded, and return its status.

        Args:
            timeout: Timeout in seconds. None: no limit.

        Raises:
            TrainingError: If the job failed or was canceled.
            TimeoutError: If the job has not ended in time.
            QcnnError: If the job no longer exists, or the target is unavailable.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            return following.wait_quietly(self.status, timeout)

    def metrics(self) -> Mapping[str, float]:
        """Return the metrics of the evaluation step or, without a pipeline, of the last epoch.

        Raises:
            QcnnError: If there are no metrics yet, or the target is unavailable.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            return dict(self._target.metrics(self.name, self._connection))

    def model(self) -> Model:
        """Return the model that the job exported.

        Raises:
            QcnnError: If there is no exported model, or the target or the bucket is unavailable.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            return load(self._target.model(self.name, self._connection))

    def delete(self) -> None:
        """Terminate and delete the job with its dependents. Outputs are kept.

        Raises:
            QcnnError: If the job no longer exists, or the target is unavailable.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            self._target.delete(self.name, self._connection)

    @property
    def _target(self) -> ReadsJobs:
        return target_that(ReadsJobs, self.target)


def submit(experiment: Experiment, /, target: str, **settings: Any) -> Job:
    """Submit an experiment to a cluster or cloud service, and return the job.

    Args:
        experiment: Experiment to run.
        target: kubeflow, tfjob, vertex or vertex-job.
        settings: Settings of the target, such as output and image; see docs/target-settings.md.

    Raises:
        ConfigError: If a setting is unknown, missing or invalid, or the target cannot run the experiment.
        MissingLibraryError: If the libraries of the target are not installed.
        QcnnError: If the target rejects the request or is unavailable.

    >>> job = qcnn.submit(experiment, "tfjob", output="gs://bucket/folder", image="qcnn:1")  # doctest: +SKIP
    >>> job.wait(timeout=3600).state  # doctest: +SKIP
    'succeeded'
    >>> job.model().predict(qubit=[0], angle=[0.1])  # doctest: +SKIP
    """
    chosen = target_that(Submits, target)
    with translate_errors(f"qcnn.submit to {target}", chosen.extra):
        all_settings = settings_from(chosen.settings, settings, target)
        prepared = _prepare(chosen, experiment, all_settings)
        prepared.check()
        submitted = prepared.submit()
        connection = connection_of(chosen.connection, all_settings)
    return Job(target, submitted.job, submitted.outcome, dict(submitted.outputs), submitted.page, connection)


def requests(experiment: Experiment, /, target: str, **settings: Any) -> Sequence[Mapping[str, Any]]:
    """Return the requests that `submit` would send, without sending them.

    Args:
        experiment: Experiment to run.
        target: kubeflow, tfjob, vertex or vertex-job.
        settings: Settings of the target; see `submit`.

    Raises:
        ConfigError: If a setting is unknown, missing or invalid, or the target cannot run the experiment.
        MissingLibraryError: If the libraries of the target are not installed.
    """
    chosen = target_that(Submits, target)
    with translate_errors(f"qcnn.requests for {target}", chosen.extra):
        return _prepare(chosen, experiment, settings_from(chosen.settings, settings, target)).requests()


def _prepare(target: Submits, experiment: Experiment, settings: Any) -> Prepared:
    """Return the job that runs an experiment, which is checked.

    Raises:
        ConfigError: If the experiment cannot be trained, the target cannot run it, or a setting is invalid.
    """
    prepared = target.prepare(experiment.config, settings)
    gpus = prepared.pod.for_role("worker").gpus if prepared.pod else 0
    check_experiments([experiment.config], on_gpus(SUBMITTED, gpus), logger.warning)
    return prepared


def get_job(name: str, target: str, **connection: Any) -> Job:
    """Return a job that was submitted before.

    Args:
        name: Name or ID on the target, or the run name.
        target: local, kubeflow, tfjob, vertex or vertex-job.
        connection: Connection settings of the target, such as namespace, host, project and location.

    Raises:
        ConfigError: If a setting is unknown, missing or invalid.
        QcnnError: If the job does not exist, or the target is unavailable.
    """
    chosen = target_that(ReadsJobs, target)
    with translate_errors(f"qcnn.get_job of {target}", chosen.extra):
        settings = settings_from(chosen.connection, connection, target)
        status = chosen.get_job(name, settings)
    return Job(target, status.job, "", dict(status.outputs), "", settings)


def list_jobs(target: str, **connection: Any) -> Sequence[JobStatus]:
    """Return the jobs of qcnn on a target, newest last.

    Args:
        target: local, kubeflow, tfjob, vertex or vertex-job.
        connection: Connection settings of the target, such as namespace, host, project and location.

    Raises:
        ConfigError: If a setting is unknown, missing or invalid.
        QcnnError: If the target is unavailable.
    """
    chosen = target_that(ReadsJobs, target)
    with translate_errors(f"qcnn.list_jobs of {target}", chosen.extra):
        return chosen.list_jobs(settings_from(chosen.connection, connection, target))
