"""Jobs on clusters and clouds: submitted, followed, read and deleted from Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qcnn.api.experiments import Experiment
from qcnn.api.models import Model, load
from qcnn.extras import translate_errors
from qcnn.targets import following, target_that
from qcnn.targets.base import JobStatus, ReadsJobs, Submits
from qcnn.targets.settings import connection_of, settings_from


@dataclasses.dataclass(frozen=True)
class Job:
    """A job on a target: a TFJob, a run of a pipeline, or a custom job of Vertex AI.

    `name` is its name or id there, `outcome` whether it was created, adopted (it ran already) or had succeeded before;
    empty for a job that was looked up. `outputs` are the addresses that it writes to, as far as they are known.
    """

    target: str
    name: str
    outcome: str = ""
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: str = ""
    _connection: Any = dataclasses.field(default=None, repr=False)

    def status(self) -> JobStatus:
        """Return the job as it is now, with its processes or steps.

        Raises:
            QcnnError: it is gone, or the target does not answer; one line.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            return self._target.get_job(self.name, self._connection)

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """Yield the lines that its processes or steps have printed, each with a name; with `follow` until it has ended.

        Raises:
            QcnnError: it is gone, or the target does not answer; one line.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            yield from self._target.logs(self.name, self._connection, follow=follow)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Wait until the job has succeeded, at most `timeout` seconds, and return it as it is then.

        Raises:
            TrainingError: it has ended in any other way.
            TimeoutError: it has not ended in time.
            QcnnError: it is gone, or the target does not answer; one line.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            return following.wait_quietly(self.status, timeout)

    def metrics(self) -> Mapping[str, float]:
        """Return what was measured: the metrics of a pipeline's evaluation, or those of a training's last epoch.

        Raises:
            QcnnError: nothing was measured yet, or the target does not answer; one line.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            return dict(self._target.metrics(self.name, self._connection))

    def model(self) -> Model:
        """Return the model that the job has exported.

        Raises:
            QcnnError: it has exported none, or the target or the bucket does not answer; one line.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            return load(self._target.model(self.name, self._connection))

    def delete(self) -> None:
        """Delete the job and what belongs to it, after ending what still runs; what it has written stays.

        Raises:
            QcnnError: it is gone, or the target does not answer; one line.
        """
        with translate_errors("qcnn.submit", self._target.extra):
            self._target.delete(self.name, self._connection)

    @property
    def _target(self) -> ReadsJobs:
        return target_that(ReadsJobs, self.target)


def submit(experiment: Experiment, /, target: str, **settings: Any) -> Job:
    """Submit an experiment to a cluster or a cloud, and return the job.

    Args:
        experiment: What is to be run.
        target: kubeflow, tfjob, vertex or vertex-job.
        settings: The settings of the target, as docs/python.md lists them, such as output and image.

    Raises:
        ConfigError: a setting is unknown, missing or wrong, or the experiment cannot run there; one line.
        MissingLibraryError: the libraries of the target are not installed.
        QcnnError: the target refuses, or does not answer; one line.

    >>> job = qcnn.submit(experiment, "tfjob", output="gs://bucket/folder", image="qcnn:1")  # doctest: +SKIP
    >>> job.wait(timeout=3600).state  # doctest: +SKIP
    'succeeded'
    >>> job.model().predict(qubit=[0], angle=[0.1])  # doctest: +SKIP
    """
    chosen = target_that(Submits, target)
    with translate_errors(f"qcnn.submit to {target}", chosen.extra):
        made = settings_from(chosen.settings, settings, target)
        done = chosen.prepare(experiment.config, made).submit()
        connection = connection_of(chosen.connection, made)
    return Job(target, done.job, done.outcome, dict(done.outputs), done.page, connection)


def requests(experiment: Experiment, /, target: str, **settings: Any) -> Sequence[Mapping[str, Any]]:
    """Return what `submit` would send, and send nothing; all else as `submit`."""
    chosen = target_that(Submits, target)
    with translate_errors(f"qcnn.requests for {target}", chosen.extra):
        return chosen.prepare(experiment.config, settings_from(chosen.settings, settings, target)).requests()


def get_job(name: str, target: str, **connection: Any) -> Job:
    """Return a job that was submitted before, by its name or id on the target.

    Args:
        name: Its name or id there, or the one that it was given.
        target: kubeflow, tfjob, vertex or vertex-job.
        connection: The settings by which the target is reached, such as namespace, host, project and location.

    Raises:
        ConfigError: a setting is unknown, missing or wrong; one line.
        QcnnError: there is no such job, or the target does not answer; one line.
    """
    chosen = target_that(ReadsJobs, target)
    with translate_errors(f"qcnn.get_job of {target}", chosen.extra):
        made = settings_from(chosen.connection, connection, target)
        found = chosen.get_job(name, made)
    return Job(target, found.job, "", dict(found.outputs), "", made)


def list_jobs(target: str, **connection: Any) -> Sequence[JobStatus]:
    """Return the jobs of this package on a target, the newest last; all else as `get_job`."""
    chosen = target_that(ReadsJobs, target)
    with translate_errors(f"qcnn.list_jobs of {target}", chosen.extra):
        return chosen.list_jobs(settings_from(chosen.connection, connection, target))
