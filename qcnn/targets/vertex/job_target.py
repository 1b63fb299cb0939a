"""The target vertex-job: training as a custom job of Vertex AI, without a pipeline."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qcnn.components.training_job import check_data, vertex_job
from qcnn.errors import ArtifactError, single_line
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.job import Job, JobIdentity, check_run
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.vertex.location import ENDED, job_page, state_of, tensorboard_page
from qcnn.model.history import last_metrics
from qcnn.targets import following
from qcnn.targets.base import Deletable, JobStatus, Prepared, Say, Selection, Submitted
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
    """How an experiment is trained there."""

    output: str = setting("Where checkpoints, logs and model go, as gs://BUCKET/FOLDER.", metavar="ADDRESS")
    name: str = setting("Name of the run, which trains the same experiment only once.", "qcnn")

    @functools.cached_property
    def pods(self) -> PodSettings:
        """The settings of the training's machines."""
        return self.pod_with()


class VertexJobTarget:
    """Training as a custom job of Vertex AI."""

    name: ClassVar[str] = "vertex-job"
    title: ClassVar[str] = "Vertex AI"
    job_kind: ClassVar[str] = "custom job"
    extra: ClassVar[str] = "vertex"
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = (
        "An experiment that is submitted again is not trained twice: a job that runs or has succeeded is found again, "
        "one that failed is followed by another, which goes on from its last checkpoint."
    )
    requests_are: ClassVar[Literal["json", "yaml"]] = "json"
    selections: ClassVar[Sequence[str]] = ("run", "orphans", "everything")
    kinds: ClassVar[Sequence[str]] = ()
    has_experiments: ClassVar[bool] = False
    delete_notes: ClassVar[str] = "What they have written stays."

    def place(self, connection: Connection) -> str:
        """Return the project and location in which its jobs are."""
        return f"{connection.project} in {connection.location}"

    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        """Return the custom job that trains an experiment.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        job, made = described(experiment, settings)

        def requests() -> Sequence[Mapping[str, Any]]:
            with suppress_output():
                from qcnn.jobs.vertex.client import aiplatform

            request = aiplatform.CreateCustomJobRequest(parent=settings.place.parent, custom_job=made)
            return [json.loads(as_json(request))]

        def create() -> Submitted:
            # The library takes a second and a half to load.
            from qcnn.jobs.vertex.attempts import AttemptOutcome, create_or_adopt
            from qcnn.jobs.vertex.client import JobClient
            from qcnn.jobs.vertex.custom_job import outputs

            outcomes: Mapping[AttemptOutcome, Literal["created", "adopted", "succeeded"]] = {
                AttemptOutcome.CREATED: "created",
                AttemptOutcome.ADOPTED: "adopted",
                AttemptOutcome.SUCCEEDED: "succeeded",
            }
            check_bucket(settings.output, settings.place, logger.warning)
            with logs_to_stderr(), contextlib.closing(JobClient(settings.place)) as api:
                found, how = create_or_adopt(api, made)
            board = made.job_spec.tensorboard
            pages = {"TensorBoard": tensorboard_page(board, found.id)} if board else {}
            page = job_page(settings.place, found.id)
            return Submitted(found.id, outcomes[how], outputs(job, made), page, pages)

        return Prepared(requests, create, settings.pods)

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the machines that Vertex AI gives to processes with these settings."""
        from qcnn.components.cost_estimate import on_vertex

        return on_vertex(pod, prices, machine_type)

    def list_jobs(self, connection: Connection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the custom jobs that this package made in the project and location, the newest last."""
        return [_status(job) for job in jobs.list_jobs(VertexClient(connection.place))]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a custom job, by its id or name.

        Raises:
            BackendError: there is none; or Vertex AI refuses, or does not answer.
        """
        found = jobs.find_job(VertexClient(connection.place), job)
        return dataclasses.replace(_status(found), page=job_page(connection.place, id_of(found)))

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield what the workers of a job have printed, by time, each line with its worker's name.

        Raises:
            BackendError: there is no such job; or Vertex AI or Cloud Logging refuses, or does not answer.
        """
        vertex = VertexClient(connection.place)
        identity = id_of(jobs.find_job(vertex, job))

        def look() -> tuple[jobs.Jobs, bool]:
            found = jobs.get_job(vertex, identity)
            return jobs.lines_of(found), state_of(found) in ENDED

        yield from jobs.lines(jobs.LogReader(vertex), look, follow=follow)

    def follow(self, job: str, connection: Connection, say: Say, restarts: int | None = None) -> None:
        """Say what the workers of a job print until it has ended.

        Raises:
            BackendError: there is no such job; or Vertex AI or Cloud Logging refuses, or does not answer.
            StepError: it failed.
        """
        for line in self.logs(job, connection, follow=True):
            say(line)
        following.check_succeeded(self.get_job(job, connection), self.job_kind)

    def wait(self, job: str, connection: Connection, say: Say) -> None:
        """Say how its state changes until it has ended.

        Raises:
            BackendError: there is no such job; or Vertex AI refuses, or has not answered for ten minutes.
            StepError: it failed.
        """
        following.wait(lambda: self.get_job(job, connection), say, self.job_kind)

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a custom job; one that runs is cancelled first.

        Raises:
            BackendError: there is none; or Vertex AI refuses, or does not answer.
        """
        vertex = VertexClient(connection.place)
        jobs.delete(vertex, [jobs.find_job(vertex, job)])

    def find(self, selection: Selection, connection: Connection) -> Sequence[Deletable]:
        """Return custom jobs, those of searches among them.

        Raises:
            BackendError: there is none of a name; or Vertex AI refuses, or does not answer.
            ConfigError: the name of a run is malformed.
        """
        vertex = VertexClient(connection.place)
        run = check_run(selection.run) if selection.run is not None else None
        if selection.names:
            return jobs.found([jobs.find_job(vertex, name) for name in selection.names])
        known = jobs.with_searches(vertex, run)
        return jobs.found(_orphans(vertex, known) if selection.orphans else known)

    def delete_found(self, found: Sequence[Deletable], connection: Connection) -> None:
        """Delete jobs; those that run are cancelled first.

        Raises:
            BackendError: Vertex AI refuses, or does not answer.
        """
        jobs.delete(VertexClient(connection.place), [each.object for each in found])

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the losses and accuracies of the last epoch, and the number of epochs.

        Raises:
            ArtifactError: it has written no history.
            BackendError: there is no such job; or Vertex AI refuses, or does not answer.
        """
        return last_metrics(self._output("training", job, connection))

    def model(self, job: str, connection: Connection) -> str:
        """Return the address of the model that a job has exported.

        Raises:
            ArtifactError: it names none.
            BackendError: there is no such job; or Vertex AI refuses, or does not answer.
        """
        return self._output("model", job, connection)

    def _output(self, output: str, job: str, connection: Connection) -> str:
        from qcnn.jobs.vertex.custom_job import outputs_of

        found = jobs.find_job(VertexClient(connection.place), job)
        if not (address := outputs_of(found).get(output)):
            raise ArtifactError(f"{output}: the job names no folder. Given: {job}")
        return address


def _orphans(vertex: VertexClient, known: Sequence[TrainingJob]) -> list[TrainingJob]:
    """Return the jobs whose run is gone, or has ended before them."""
    # Whoever submitted them, so by their ids: only what qcnn has submitted has its label.
    states = {name: _state(vertex, name) for name in {jobs.run_of(job) for job in known}}
    return [job for job in known if jobs.is_orphan(job, states[jobs.run_of(job)])]


def _state(vertex: VertexClient, run: str) -> str | None:
    """Return the state of a run, None where it is gone."""
    try:
        return runs.state_of(runs.get_run(vertex, run)) if runs.is_id(run) else None
    except NotFoundError:
        return None


def described(experiment: ExperimentConfig, settings: Settings) -> tuple[Job, CustomJob]:
    """Return the job of an experiment, with what its file of samples says of it, and the custom job that is that.

    Raises:
        ConfigError: the experiment cannot run there, or a setting is wrong.
    """
    # NumPy is needed for nothing else here, and the library takes a second and a half to load.
    from qcnn import data
    from qcnn.jobs.vertex.custom_job import custom_job

    check_data(experiment.data)
    (experiment,) = data.resolve_files([experiment])
    job = vertex_job(experiment, settings.output, settings.pods)
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
        message=single_line(job.error.message),
        processes=sum(pool.replica_count for pool in job.job_spec.worker_pool_specs),
        outputs={"output": output} if output else {},
    )
