"""Jobs on clusters and cloud services: submit, follow, inspect and delete them from Python."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

from qcnn.api.argument_types import GetJobFunction, ListJobsFunction, RequestsFunction, SubmitFunction
from qcnn.api.experiments import Experiment
from qcnn.api.models import Model, load
from qcnn.planning.checks import SUBMITTED, check_experiments, on_gpus
from qcnn.process.extras import translate_errors
from qcnn.targets import open_target, target_class
from qcnn.targets.base import JobStatus, Prepared, ReadsJobs, Submits, TargetSettings
from qcnn.targets.settings import settings_from

logger = logging.getLogger("qcnn")

_Function = TypeVar("_Function")


def _typed(kind: type[_Function]) -> Callable[[Callable[..., Any]], _Function]:
    """Return a decorator that declares the type of a function, and returns the function unchanged."""
    return lambda function: cast(_Function, function)


@dataclasses.dataclass(frozen=True)
class Job:
    """A job on a target: a TFJob, a pipeline run, or a Vertex AI custom job.

    `name` is its name or ID on the target. `outcome` is created, adopted (the job was already active) or succeeded (it
    had already succeeded), and empty for a job from `get_job`. `outputs` maps known outputs to their URIs.

    Each method connects to the target. As a context manager, a job keeps its connection until the end.
    """

    target: str
    name: str
    outcome: str = ""
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: str = ""
    _connection: TargetSettings = dataclasses.field(default_factory=TargetSettings, repr=False)
    # The target within `with`.
    _opened: list[ReadsJobs] = dataclasses.field(default_factory=list, init=False, repr=False, compare=False)

    def __enter__(self) -> Self:
        self._opened.append(target_class(self.target, ReadsJobs)(self._connection))
        return self

    def __exit__(self, *raised: object) -> None:
        self._opened.pop().close()

    @contextlib.contextmanager
    def _target(self) -> Iterator[ReadsJobs]:
        kind = target_class(self.target, ReadsJobs)
        with translate_errors("qcnn.submit", kind.extra):
            if self._opened:
                yield self._opened[-1]
                return
            with kind(self._connection) as target:
                yield target

    def status(self) -> JobStatus:
        """Return the current status of the job, with its processes or steps.

        Raises:
            QcnnError: If the job no longer exists, or the target is unavailable.
        """
        with self._target() as target:
            return target.get_job(self.name)

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """Yield the log lines of all processes or steps, with their names.

        Args:
            follow: Whether to continue until the job ends.

        Raises:
            QcnnError: If the job no longer exists, or the target is unavailable.
        """
        with self._target() as target:
            yield from target.logs(self.name, follow=follow)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Wait until the job has succeeded, and return its status.

        Args:
            timeout: Timeout in seconds. None: no limit.

        Raises:
            TrainingError: If the job failed or was canceled.
            TimeoutError: If the job has not ended in time.
            QcnnError: If the job no longer exists, or the target is unavailable.
        """
        with self._target() as target:
            return target.wait(self.name, lambda line: None, timeout)

    def metrics(self) -> Mapping[str, float]:
        """Return the metrics of the evaluation step or, without a pipeline, of the last epoch.

        Raises:
            QcnnError: If there are no metrics yet, or the target is unavailable.
        """
        with self._target() as target:
            return dict(target.metrics(self.name))

    def model(self) -> Model:
        """Return the model that the job exported.

        Raises:
            QcnnError: If there is no exported model, or the target or the bucket is unavailable.
        """
        with self._target() as target:
            return load(target.model(self.name))

    def delete(self) -> None:
        """Terminate and delete the job with its dependents. Outputs are kept.

        Raises:
            QcnnError: If the job no longer exists, or the target is unavailable.
        """
        with self._target() as target:
            target.delete(self.name)


@_typed(SubmitFunction[Experiment, Job])
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
    with _prepared(f"qcnn.submit to {target}", experiment, target, settings) as (prepared, connection):
        prepared.check()
        submitted = prepared.submit()
    return Job(target, submitted.job, submitted.outcome, dict(submitted.outputs), submitted.page, connection)


@_typed(RequestsFunction[Experiment])
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
    with _prepared(f"qcnn.requests for {target}", experiment, target, settings) as (prepared, _):
        return prepared.requests()


@contextlib.contextmanager
def _prepared(
    call: str, experiment: Experiment, target: str, settings: Mapping[str, Any]
) -> Iterator[tuple[Prepared, TargetSettings]]:
    """Context manager that yields a checked job that runs an experiment, and its settings.

    Raises:
        ConfigError: If the experiment cannot be trained, the target cannot run it, or a setting is invalid.
    """
    kind = target_class(target, Submits)
    with translate_errors(call, kind.extra):
        all_settings = settings_from(kind.submit_settings, settings, target)
        with kind(all_settings) as opened:
            prepared = opened.prepare(experiment.config, all_settings)
            gpus = prepared.pod.for_role("worker").gpus if prepared.pod else 0
            check_experiments([experiment.config], on_gpus(SUBMITTED, gpus), logger.warning)
            yield prepared, all_settings


@_typed(GetJobFunction[Job])
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
    extra = target_class(target, ReadsJobs).extra
    with translate_errors(f"qcnn.get_job of {target}", extra), open_target(target, ReadsJobs, **connection) as opened:
        status = opened.get_job(name)
    return Job(target, status.job, "", dict(status.outputs), "", opened.connection)


@_typed(ListJobsFunction)
def list_jobs(target: str, **connection: Any) -> Sequence[JobStatus]:
    """Return the jobs of qcnn on a target, newest last.

    Args:
        target: local, kubeflow, tfjob, vertex or vertex-job.
        connection: Connection settings of the target, such as namespace, host, project and location.

    Raises:
        ConfigError: If a setting is unknown, missing or invalid.
        QcnnError: If the target is unavailable.
    """
    extra = target_class(target, ReadsJobs).extra
    with translate_errors(f"qcnn.list_jobs of {target}", extra), open_target(target, ReadsJobs, **connection) as opened:
        return opened.list_jobs()
