"""The target vertex-job: training as a Vertex AI custom job, without a pipeline."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qcnn.components.training_job import vertex_job, with_data_file
from qcnn.errors import ArtifactError, service_message
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.job import JobIdentity, JobSpec, check_run
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.vertex.location import ENDED, job_page, state_of, tensorboard_page
from qcnn.targets import following
from qcnn.targets.base import Deletable, JobStatus, Prepared, ReportLine, Selection, Submitted
from qcnn.targets.errors import logs_to_stderr, suppress_output
from qcnn.targets.settings import PodFields, setting
from qcnn.targets.vertex import jobs, runs
from qcnn.targets.vertex.client import Connection, NotFoundError, VertexClient, age_of, as_json, id_of, seconds_of
from qcnn.targets.vertex.submission import check_bucket

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob

    from qcnn.components.cost_estimate import PricingPlatform
    from qcnn.jobs.pricing import Prices
    from qcnn.targets.vertex.jobs import TrainingJob


logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(PodFields, Connection):
    """Settings of a custom job."""

    output: str = setting("Output folder of checkpoints, logs and model, as gs://BUCKET/FOLDER.", metavar="URI")
    name: str = setting(
        "Run name. Resubmitting an experiment under the same name does not retrain it.", "qcnn", metavar="NAME"
    )

    @functools.cached_property
    def pods(self) -> PodSettings:
        """The settings of the training machines."""
        return self.pod_with()


class VertexJobTarget:
    """The target for Vertex AI custom jobs."""

    name: ClassVar[str] = "vertex-job"
    title: ClassVar[str] = "Vertex AI"
    job_kind: ClassVar[str] = "custom job"
    extra: ClassVar[str] = "vertex"
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = (
        "Resubmitting an experiment does not retrain it: an active or succeeded job is adopted. A failed job is "
        "replaced by a new one, which resumes from the last checkpoint."
    )
    requests_are: ClassVar[Literal["json", "yaml"]] = "json"
    selections: ClassVar[Sequence[str]] = ("run", "orphans", "everything")
    kinds: ClassVar[Sequence[str]] = ()
    has_experiments: ClassVar[bool] = False
    delete_notes: ClassVar[str] = "Outputs are kept."

    def place(self, connection: Connection) -> str:
        """Return the project and location of the jobs as a phrase."""
        return f"{connection.project} in {connection.location}"

    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        """Return the custom job of an experiment, ready for submission.

        Raises:
            ConfigError: If the target cannot run the experiment, or a setting is invalid.
        """
        experiment, data_sha256 = with_data_file(experiment)
        job, message = training_job(experiment, data_sha256, settings)

        def requests() -> Sequence[Mapping[str, Any]]:
            with suppress_output():
                from qcnn.jobs.vertex.client import aiplatform

            request = aiplatform.CreateCustomJobRequest(parent=settings.place.parent, custom_job=message)
            return [json.loads(as_json(request))]

        def create() -> Submitted:
            # Importing Google's library takes 1.5 seconds.
            from qcnn.jobs.job import CreateOutcome
            from qcnn.jobs.vertex.attempts import create_or_adopt
            from qcnn.jobs.vertex.client import JobClient
            from qcnn.jobs.vertex.custom_job import outputs

            outcomes: Mapping[CreateOutcome, Literal["created", "adopted", "succeeded"]] = {
                CreateOutcome.CREATED: "created",
                CreateOutcome.ADOPTED: "adopted",
                CreateOutcome.SUCCEEDED: "succeeded",
            }
            with logs_to_stderr(), contextlib.closing(JobClient(settings.place)) as api:
                attempt, outcome = create_or_adopt(api, message)
            board = message.job_spec.tensorboard
            pages = {"TensorBoard": tensorboard_page(board, attempt.id)} if board else {}
            page = job_page(settings.place, attempt.id)
            return Submitted(attempt.id, outcomes[outcome], outputs(job, message), page, pages)

        return Prepared(
            requests,
            lambda: check_bucket(settings.output, settings.place, logger.warning),
            create,
            settings.pods,
            [experiment],
        )

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the Vertex AI machines that training processes run on, for a cost estimate.

        Args:
            pod: Settings of the pods.
            prices: Price list.
            machine_type: Machine type to price. Empty: selected by the resources.
        """
        from qcnn.components.cost_estimate import on_vertex

        return on_vertex(pod, prices, machine_type)

    def list_jobs(self, connection: Connection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the custom jobs of qcnn in the project and location, newest last."""
        return [_status(job) for job in jobs.list_jobs(VertexClient(connection.place))]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a custom job, by its ID or name.

        Raises:
            BackendError: If the job does not exist, or Vertex AI rejects the request or is unavailable.
        """
        found = jobs.find_job(VertexClient(connection.place), job)
        return dataclasses.replace(_status(found), page=job_page(connection.place, id_of(found)))

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield the log lines of all workers in chronological order, with worker names.

        Args:
            job: ID or name of the job.
            connection: Connection settings.
            follow: Whether to continue until the job ends.

        Raises:
            BackendError: If the job does not exist, or Vertex AI or Cloud Logging rejects a request or is unavailable.
        """
        vertex = VertexClient(connection.place)
        identity = id_of(jobs.find_job(vertex, job))

        def look() -> tuple[jobs.Jobs, bool]:
            found = jobs.get_job(vertex, identity)
            return jobs.lines_of(found), state_of(found) in ENDED

        yield from jobs.lines(jobs.LogReader(vertex), look, follow=follow)

    def follow(self, job: str, connection: Connection, report: ReportLine, restarts: int | None = None) -> None:
        """Report the log lines of a job until it ends.

        Args:
            job: ID or name of the job.
            connection: Connection settings.
            report: Callback for log lines.
            restarts: Unused.

        Raises:
            BackendError: If the job does not exist, or Vertex AI or Cloud Logging rejects a request or is unavailable.
            StepError: If the job failed.
        """
        for line in self.logs(job, connection, follow=True):
            report(line)
        following.check_succeeded(self.get_job(job, connection), self.job_kind)

    def wait(self, job: str, connection: Connection, report: ReportLine) -> None:
        """Report the state changes of a job until it ends.

        Args:
            job: ID or name of the job.
            connection: Connection settings.
            report: Callback for status lines.

        Raises:
            BackendError: If the job does not exist, or Vertex AI rejects a request or is unavailable for ten minutes.
            StepError: If the job failed.
        """
        following.wait(lambda: self.get_job(job, connection), report, self.job_kind)

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a custom job. An active job is canceled first.

        Raises:
            BackendError: If the job does not exist, or Vertex AI rejects the request or is unavailable.
        """
        vertex = VertexClient(connection.place)
        jobs.delete(vertex, [jobs.find_job(vertex, job)])

    def find(self, selection: Selection, connection: Connection) -> Sequence[Deletable]:
        """Return custom jobs and tuning jobs.

        Raises:
            BackendError: If a job does not exist, or Vertex AI rejects the request or is unavailable.
            ConfigError: If the run name is malformed.
        """
        vertex = VertexClient(connection.place)
        run = check_run(selection.run) if selection.run is not None else None
        if selection.names:
            return jobs.as_deletables([jobs.find_job(vertex, name) for name in selection.names])
        known = jobs.with_searches(vertex, run)
        return jobs.as_deletables(_orphans(vertex, known) if selection.orphans else known)

    def delete_found(self, found: Sequence[Deletable], connection: Connection) -> None:
        """Delete jobs. Active jobs are canceled first.

        Raises:
            BackendError: If Vertex AI rejects the request or is unavailable.
        """
        jobs.delete(VertexClient(connection.place), [each.object for each in found])

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the losses and accuracies of the last epoch, and the number of epochs.

        Raises:
            ArtifactError: If the job has no history.
            BackendError: If the job does not exist, or Vertex AI rejects the request or is unavailable.
        """
        from qcnn.model.checkpoints import last_metrics

        return last_metrics(self._output("training", job, connection))

    def model(self, job: str, connection: Connection) -> str:
        """Return the URI of the model that a job exported.

        Raises:
            ArtifactError: If the job has no model output.
            BackendError: If the job does not exist, or Vertex AI rejects the request or is unavailable.
        """
        return self._output("model", job, connection)

    def _output(self, output: str, job: str, connection: Connection) -> str:
        from qcnn.jobs.vertex.custom_job import outputs_of

        found = jobs.find_job(VertexClient(connection.place), job)
        if not (address := outputs_of(found).get(output)):
            raise ArtifactError(f"{output}: the job has no such output. Given: {job}")
        return address


def _orphans(vertex: VertexClient, known: Sequence[TrainingJob]) -> list[TrainingJob]:
    """Return the jobs whose run no longer exists, or has ended before them."""
    # Looked up by ID, because a run that was not submitted by qcnn has no qcnn label.
    states = {name: _state(vertex, name) for name in {jobs.run_of(job) for job in known}}
    return [job for job in known if jobs.is_orphan(job, states[jobs.run_of(job)])]


def _state(vertex: VertexClient, run: str) -> str | None:
    """Return the state of a run, or None if it no longer exists."""
    try:
        return runs.state_of(runs.get_run(vertex, run)) if runs.is_id(run) else None
    except NotFoundError:
        return None


def training_job(experiment: ExperimentConfig, data_sha256: str, settings: Settings) -> tuple[JobSpec, CustomJob]:
    """Return the job of an experiment, which has the metadata of its data file, and its custom job.

    Raises:
        ConfigError: If the target cannot run the experiment, or a setting is invalid.
    """
    # Importing Google's library takes 1.5 seconds.
    from qcnn.jobs.vertex.custom_job import custom_job

    job = vertex_job(experiment, settings.output, settings.pods, data_sha256=data_sha256)
    return job, custom_job(job, JobIdentity(check_run(settings.name), jobs.ALONE), settings.place)


def _status(job: CustomJob) -> JobStatus:
    state = state_of(job)
    output = job.job_spec.base_output_directory.output_uri_prefix
    return JobStatus(
        job=id_of(job),
        name=jobs.run_of(job) or job.display_name,
        state=state.lower(),
        has_ended=state in ENDED,
        has_succeeded=state == "SUCCEEDED",
        age=age_of(job),
        duration=seconds_of(job),
        message=service_message(job.error.message),
        processes=sum(pool.replica_count for pool in job.job_spec.worker_pool_specs),
        outputs={"output": output} if output else {},
    )
